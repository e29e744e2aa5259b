"""Numbers, lists and defaults as the command writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    return "none" if value is None else exact(value) if isinstance(value, float) else str(value)
