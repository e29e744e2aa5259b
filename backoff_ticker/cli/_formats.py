"""Numbers as the command writes them."""

from __future__ import annotations

_LARGE = 1e7
_SMALL = 0.01


def exact(number: float) -> str:
    """Return the shortest text that reads back as the same number: 2, not 2.0."""
    return repr(number).removesuffix(".0")


def rounded(number: float) -> str:
    """Return a number for people: three decimals, or four digits if it is small or large."""
    if number == 0.0 or _SMALL <= number < _LARGE:
        return f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{number:.4g}"
