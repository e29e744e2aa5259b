"""What the help says of each option of a policy, and of each that puts something around one."""

from __future__ import annotations

_HELP = {
    "interval": "The delay.",
    "initial_interval": "The first interval.",
    "randomization_factor": "By what part of its interval a delay may differ from it, 0 to < 1.",
    "multiplier": "Each interval is so many times the one before, >= 1.",
    "max_interval": "The greatest interval; a delay around it can be longer.",
    "max_elapsed_time": "Stop so long after the start; 0 or none: never.",
    "look_ahead": "Whether to stop before a delay that would pass the limit of elapsed time (Go), "
    "or only once it has passed (Java).",
    "initial_backoff": "The first delay, without its random part.",
    "maximum_backoff": "The greatest delay, random part included, before --jitter.",
    "max_jitter": "The greatest random part that is added to a delay.",
    "base": "The first limit of a delay, before it grows.",
    "cap": "The greatest delay, before --jitter and --max-jitter; none: no cap.",
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
    "max_attempts": "Give up at so many failures in a row; 0: never.",
    "jitter_factor": "By what part a delay may differ from what the rule gives, 0 to < 1.",
    "min_delay": "The least delay.",
    "max_retries": "Stop after so many delays in a row.",
    "max_delay": "The greatest delay, before --jitter and --max-jitter; none: no limit.",
}
"""By parameter; their units stand in the metavar."""

_PLAIN = {
    "multiplier": "Each delay, but for its random part, is so many times the one before, >= 1."
}
_LIMIT = {"multiplier": "Each limit is so many times the one before, >= 1."}

_HELP_OF = {
    "truncated-exponential": _PLAIN,
    "cloud-storage": _PLAIN,
    "full-jitter": _LIMIT,
    "equal-jitter": _LIMIT,
    "decorrelated-jitter": {
        "base": "The least delay.",
        "multiplier": "A delay can be so many times the one before, >= 1.",
    },
}
"""By policy, where a parameter means something of its own."""

AROUND = {
    "jitter": "Draw each delay: full, from 0 to all of it; equal, from half of it; a number F, by "
    "that part around it; none: leave it. The policy's own draw stays.",
    "max_jitter": "Add a random part to each delay, at most so long; none: add nothing.",
    "max_interval": "Let no delay be longer, random part included; none: no limit but the "
    "policy's own.",
    "max_elapsed_time": "Stop before a delay that would end later than so long after the start; "
    "0 or none: no limit but the policy's own.",
    "max_retries": "Stop after so many delays in a row; none: no limit but the policy's own.",
}
"""By option, for policies without a parameter of that name."""


def help_of(policy: str, parameter: str) -> str:
    """Return what the help says of a parameter of the policy of that name."""
    return _HELP_OF.get(policy, {}).get(parameter) or _HELP[parameter]
