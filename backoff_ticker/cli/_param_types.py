"""Values on the command line: types that click does not have, and how numbers are written."""

from __future__ import annotations

import re
import warnings
from math import inf
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    Param = click.Parameter | None
    Context = click.Context | None
    ParamType = click.ParamType[Any]  # earlier versions of click have no type argument
else:
    ParamType = click.ParamType

NONE = "none"  # what is typed for None

_NUMBER = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
_PART = rf"(?P<number>{_NUMBER})(?P<unit>ms|[smhd])"
_WITH_UNITS = re.compile(rf"(?P<sign>[+-]?)(?P<parts>(?:(?:{_NUMBER})(?:ms|[smhd]))+)")
_SECONDS_IN = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LARGE = 1e7
_SMALL = 0.01


class Value(ParamType):
    """What ``read`` returns for a word; its ValueError says what is wrong with the word."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: Param, ctx: Context) -> Any:
        """Return the value; a default is one already, unless it is a word."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


class OrNone(ParamType):
    """A value of another type, or the word ``none``.

    That word is returned as it is: to click, None is an option that was not given.
    """

    def __init__(self, kind: ParamType) -> None:
        self.kind = kind
        self.name = kind.name

    def convert(self, value: Any, param: Param, ctx: Context) -> Any:
        return NONE if value == NONE else self.kind.convert(value, param, ctx)


def parse_duration(text: str) -> float:
    """Return the seconds of ``2.5``, ``500ms``, ``5s``, ``2m``, ``1h30m`` or ``1d``."""
    found = _WITH_UNITS.fullmatch(text)
    if found is None:
        try:
            return float(text)
        except ValueError:
            expected = "a number of seconds, or as in 500ms, 5s, 2m, 1h30m, 1d"
            raise ValueError(f"{text!r} is no duration: {expected}") from None
    seconds = sum(
        float(part["number"]) * _SECONDS_IN[part["unit"]]
        if part["unit"] != "ms"
        else float(part["number"]) / 1000.0
        for part in re.finditer(_PART, found["parts"])
    )
    return -seconds if found["sign"] == "-" else seconds


SECONDS = Value("duration", parse_duration)  # the policy checks its range


def seconds_within(accepts: Callable[[float], bool], expected: str) -> Value:
    """Return the type of durations that ``accepts`` takes; ``expected`` says which those are."""

    def read(text: str) -> float:
        seconds = parse_duration(text)
        if not accepts(seconds):
            raise ValueError(f"{text!r} is not {expected}")
        return seconds

    return Value("duration", read)


LIMIT = seconds_within(lambda seconds: 0.0 < seconds < inf, "a finite number of seconds > 0")


def numbers(name: str, most: int, expected: str) -> Value:
    """Return the type of lists of whole numbers from 1 to ``most``, separated by commas."""

    def read(text: str) -> tuple[int, ...]:
        words = [word.strip() for word in text.split(",")]
        found = tuple(int(word) if re.fullmatch("[0-9]{1,9}", word) else 0 for word in words)
        if not all(0 < number <= most for number in found):
            raise ValueError(f"{text!r} is not a list of {expected}")
        return found

    return Value(name, read)


def _jitter(text: str) -> str | float:
    try:
        return text if text in ("full", "equal") else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither full nor equal nor a number") from None


JITTER = Value("kind", _jitter)


def _compiled(text: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that a later Python may change
            return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error


REGEX = Value("regex", _compiled)


def exact(number: float) -> str:
    """Return the shortest text that reads back as the same number: 2, not 2.0."""
    return repr(number).removesuffix(".0")


def rounded(number: float) -> str:
    """Return a number for people: three decimals, or four digits if it is small or large."""
    if number == 0.0 or _SMALL <= number < _LARGE:
        return f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{number:.4g}"
