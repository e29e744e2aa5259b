"""What reads the values of options; what one refuses is told as click tells it, by option."""

from __future__ import annotations

import re
import warnings
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import click

from .._validation import safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable

_CODES = frozenset(range(1, 256))


class Kind(NamedTuple):
    """How the value of an option is written.

    Attributes:
        read: Reads one; whether it is in range, the policy tells.
        metavar: What the help calls it.
        optional: Whether the word ``none`` is a value too.
    """

    read: Callable[[str], object]
    metavar: str
    optional: bool = False

    def value(self, text: str) -> object:
        """Return the value that ``text`` is."""
        return None if self.optional and text == "none" else self.read(text)


def _is_plain(text: str) -> bool:
    """Whether it is free of what only Python reads as part of a number: ``1_0``, other digits."""
    return text.isascii() and "_" not in text


def number(text: str) -> float:
    """Return a number, be it NaN or infinite.

    Raises:
        click.BadParameter: ``text`` is none.
    """
    try:
        if _is_plain(text):
            return float(text)
    except ValueError:
        pass
    raise click.BadParameter(f"{safe_repr(text)} is not a number")


def word_or_number(text: str) -> str | float:
    """Return a word of letters as it stands, else a number.

    Raises:
        click.BadParameter: ``text`` is neither.
    """
    return text if text.isalpha() and text not in ("nan", "inf") else number(text)


def whole_number(least: int | None = None, greatest: int | None = None) -> Callable[[str], int]:
    """Return what reads a whole number in a range, and raises click.BadParameter for another."""
    expected = "a whole number"
    if least is not None:
        expected += f" >= {least}" if greatest is None else f" from {least} to {greatest}"

    def read(text: str) -> int:
        try:
            found = int(text if _is_plain(text) else "")
        except ValueError:
            raise click.BadParameter(f"{safe_repr(text)} is not {expected}") from None
        if (least is not None and found < least) or (greatest is not None and found > greatest):
            raise click.BadParameter(f"{safe_repr(text)} is not {expected}")
        return found

    return read


def seconds(text: str) -> float:
    """Return a finite number of seconds > 0.

    Raises:
        click.BadParameter: ``text`` is none.
    """
    found = number(text)
    if not (isfinite(found) and found > 0.0):
        raise click.BadParameter(f"{safe_repr(text)} is not a finite number of seconds > 0")
    return found


def exit_codes(text: str) -> frozenset[int]:
    """Return exit codes of failures, written with commas between.

    Raises:
        click.BadParameter: ``text`` is something else.
    """
    words = [word.strip(" ") for word in text.split(",")]
    codes = frozenset(int(word) if re.fullmatch("[0-9]{1,3}", word) else 0 for word in words)
    if not codes <= _CODES:
        raise click.BadParameter(
            f"{safe_repr(text)} is not a list of exit codes, 1 to 255, as in 1,75"
        )
    return codes


def regex(text: str) -> re.Pattern[str]:
    """Return a regular expression of Python.

    Raises:
        click.BadParameter: ``text`` is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read in another way
            return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(
            f"{safe_repr(text)} is not a regular expression: {error}"
        ) from None
