"""``backoff-ticker retry-after``: how long the value of a Retry-After field asks to wait."""

from __future__ import annotations

from math import ceil

import click

from .._validation import safe_repr
from ..clock import resolve_clock
from ..retries import parse_retry_after
from ._errors import NoAnswer
from ._exit_codes import FAILED
from ._text import exact

_EXACT_BELOW = 1e12
"""Seconds; not much beyond, a float no longer counts milliseconds exactly."""


class _ValueCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments in; -5 is a value, if a bad one, and no option."""
        negative = args and args[0][:1] == "-" and args[0][1:2].isdigit()
        return super().parse_args(ctx, ["--", *args] if negative else args)


def retry_after_command() -> click.Command:
    """Return the command ``retry-after``."""
    return _ValueCommand(
        "retry-after",
        callback=_show,
        params=[click.Argument(["value"], metavar="VALUE")],
        short_help="Show how long the value of a Retry-After field asks to wait.",
        help="Show how many seconds from now VALUE asks to wait, the value of a Retry-After field "
        "of HTTP: a number of seconds, or a date in one of the three forms of RFC 9110. A date "
        f"that has passed gives 0; anything else is an error, with exit code {FAILED}.",
    )


def _show(*, value: str) -> int:
    # A field that was cut out of a response may have the end of its line.
    seconds = parse_retry_after(value.rstrip("\r\n"), resolve_clock(None).time())
    if seconds is None:
        raise NoAnswer(f"neither a number of seconds nor an HTTP date: {safe_repr(value)}")
    wait = _not_too_early(seconds)
    click.echo(str(int(wait)) if wait.is_integer() else exact(wait))
    return 0


def _not_too_early(seconds: float) -> float:
    """Round up to a millisecond where floats have them: who waits so long is not too early."""
    return ceil(seconds * 1000.0) / 1000.0 if seconds < _EXACT_BELOW else seconds
