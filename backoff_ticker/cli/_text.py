"""The texts of the command: numbers, lists, and what each option of a policy means."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HELP", "as_text", "exact", "listed", "rounded"]

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
    "maximum_backoff": "The greatest delay, random part included.",
    "max_jitter": "The greatest random part of a delay.",
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

_MANY = 1e7
_FEW = 0.01


def listed(words: Iterable[str]) -> str:
    """Return ``a, b and c``."""
    *most, last = [*words] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def exact(number: float) -> str:
    """Return the shortest text that reads back as the same number: 2, not 2.0."""
    return repr(number).removesuffix(".0")


def rounded(number: float) -> str:
    """Return a number for people: three decimals, or four digits if it is small or large."""
    if number == 0.0 or _FEW <= number < _MANY:
        return f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{number:.4g}"


def as_text(value: object) -> str:
    """Return how a default is written on the command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else exact(value) if isinstance(value, float) else str(value)
