"""What the help says of each option of a policy."""

from __future__ import annotations

__all__ = ["HELP"]

HELP = {
    "interval": "The delay.",
    "initial_interval": "The first interval.",
    "randomization_factor": "By what part of its interval a delay may differ from it, 0 to < 1.",
    "multiplier": "Each interval is so many times the one before, >= 1.",
    "max_interval": "The greatest interval, around which a delay can be longer; of a policy that "
    "draws around none, the greatest delay.",
    "max_elapsed_time": "Stop so long after the start; 0 or none: never.",
    "look_ahead": "Whether to stop before a delay that would pass the limit of elapsed time (Go), "
    "or only once it has passed (Java).",
    "initial_backoff": "The first delay, without its random part.",
    "maximum_backoff": "The greatest delay, random part included.",
    "max_jitter": "The greatest random part that is added to a delay.",
    "jitter": "Draw each delay: full, from 0 to all of it; equal, from half of it; a number F, by "
    "that part around it. The policy's own draw stays.",
    "base": "The first limit of a delay, before it grows.",
    "cap": "The greatest delay; none: no cap.",
    "delay": "The delay after a failure.",
    "delay_on_success": "The delay after a success.",
    "initial_delay": "The first delay.",
    "initial_delay1": "The delay after the first failure in a row.",
    "initial_delay2": "The delay after the second failure in a row.",
    "exponent_base": "Each delay is so many times the one before.",
    "delay_increment_on_failure": "What a failure adds to the delay.",
    "delay_increment_on_success": "What a success adds to the delay; mostly negative.",
    "delay_multiple_on_failure": "By what a failure multiplies the delay.",
    "delay_multiple_on_success": "By what a success multiplies the delay.",
    "consider_actual_delay": "Whether the time between two calls counts as waited.",
    "max_actual_duration": "Give up so long after the start; 0: never.",
    "max_retries": "Stop after so many delays.",
    "max_attempts": "Give up at so many failures in a row; 0: never.",
    "jitter_factor": "By what part a delay may differ from what the rule gives, 0 to < 1.",
    "min_delay": "The least delay.",
    "max_delay": "The greatest delay; none: no limit.",
}
"""The options of policies by parameter; their units stand in the metavar."""
