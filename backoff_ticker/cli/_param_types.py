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

NONE = "none"
"""What is typed for None."""

_NUMBER = r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+"
_PART = rf"(?P<number>{_NUMBER})(?P<unit>ms|[smhd])"
_WITH_UNITS = re.compile(rf"(?P<sign>[+-]?)(?P<parts>(?:(?:{_NUMBER})(?:ms|[smhd]))+)")
_SECONDS_IN = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LARGE = 1e7
_SMALL = 0.01


def parse_duration(text: str) -> float:
    """Return the seconds that ``2.5``, ``500ms``, ``5s``, ``2m``, ``1h30m`` or ``1d`` stands for.

    Raises:
        ValueError: It is neither a number nor numbers with units.
    """
    found = _WITH_UNITS.fullmatch(text)
    if found is None:
        return float(text)
    seconds = sum(
        float(part["number"]) / 1000.0
        if part["unit"] == "ms"
        else float(part["number"]) * _SECONDS_IN[part["unit"]]
        for part in re.finditer(_PART, found["parts"])
    )
    return -seconds if found["sign"] == "-" else seconds


class Seconds(ParamType):
    """A duration: a number of seconds, or numbers with units.

    Args:
        accepts: Whether a number of seconds is in range; without it, the policy checks that.
        expected: What is said to be expected of others.
    """

    name = "duration"

    def __init__(
        self, accepts: Callable[[float], bool] = lambda _: True, expected: str = ""
    ) -> None:
        self._accepts = accepts
        self._expected = expected

    def convert(self, value: Any, param: Param, ctx: Context) -> float:  # noqa: ANN401 - click's
        """Return the seconds."""
        try:
            seconds = parse_duration(str(value))
        except ValueError:
            self.fail(
                f"{value!r} is no duration: a number of seconds, or as in 500ms, 5s, 2m, 1h30m, 1d",
                param,
                ctx,
            )
        if not self._accepts(seconds):
            self.fail(f"{value!r} is not {self._expected}", param, ctx)
        return seconds


LIMIT = Seconds(lambda seconds: 0.0 < seconds < inf, "a finite number of seconds > 0")
"""A time limit."""


class OrNone(ParamType):
    """A value of another type, or the word ``none``.

    That word is returned as it is: to click, None is an option that was not given.

    Args:
        kind: The other type.
    """

    def __init__(self, kind: ParamType) -> None:
        self.kind = kind
        self.name = kind.name

    def convert(self, value: Any, param: Param, ctx: Context) -> Any:  # noqa: ANN401 - click's
        """Return the value, or the word."""
        return NONE if value == NONE else self.kind.convert(value, param, ctx)


class Jitter(ParamType):
    """``full``, ``equal``, or a fraction."""

    name = "kind"

    def convert(self, value: Any, param: Param, ctx: Context) -> str | float:  # noqa: ANN401 - click's
        """Return the word or the number."""
        if value in ("full", "equal"):
            return str(value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither full nor equal nor a number", param, ctx)


class Numbers(ParamType):
    """Whole numbers >= 1, separated by commas.

    Args:
        name: What the help calls them.
        most: The largest that is accepted.
        expected: What is said to be expected of others.
    """

    def __init__(self, name: str, most: int, expected: str) -> None:
        self.name = name
        self._most = most
        self._expected = expected

    def convert(self, value: Any, param: Param, ctx: Context) -> tuple[int, ...]:  # noqa: ANN401 - click's
        """Return the numbers."""
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in value.split(",")]
        numbers = tuple(int(word) if re.fullmatch("[0-9]{1,9}", word) else 0 for word in words)
        if not all(0 < number <= self._most for number in numbers):
            self.fail(f"{value!r} is not a list of {self._expected}", param, ctx)
        return numbers


class Regex(ParamType):
    """A Python regular expression."""

    name = "regex"

    def convert(self, value: Any, param: Param, ctx: Context) -> re.Pattern[str]:  # noqa: ANN401 - click's
        """Return it compiled."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about syntax that a later Python may change
                return re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            self.fail(f"{value!r} is not a regular expression: {error}", param, ctx)


def exact(number: float) -> str:
    """Return the shortest text that reads back as the same number: 2, not 2.0."""
    return repr(number).removesuffix(".0")


def rounded(number: float) -> str:
    """Return a number for people: three decimals, or four digits if it is small or large."""
    if number == 0.0 or _SMALL <= number < _LARGE:
        return f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{number:.4g}"
