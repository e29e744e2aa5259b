"""``backoff-ticker retry-after``: how long a Retry-After field asks the client to wait."""

from __future__ import annotations

from math import ceil

import click

from .. import parse_retry_after
from ..clock import resolve_clock
from ._commands import examples
from ._param_types import exact


class _ValueCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat -5 as a (bad) value, not as an option."""
        negative = args and args[0][:1] == "-" and args[0][1:2].isdigit()
        return super().parse_args(ctx, ["--", *args] if negative else args)


def retry_after_command() -> click.Command:
    """Return the command ``retry-after``."""
    return _ValueCommand(
        "retry-after",
        callback=_show,
        epilog=examples("retry-after 120", "retry-after 'Sun, 06 Nov 1994 08:49:37 GMT'"),
        params=[click.Argument(["value"], metavar="VALUE")],
        short_help="Show how long the value of a Retry-After field asks to wait.",
        help="Show how many seconds from now VALUE asks to wait, the value of a Retry-After field "
        "of HTTP: a number of seconds, or a date in one of the three forms of RFC 9110. A date "
        "that has passed gives 0; anything else is an error, with exit code 1.",
    )


def _show(value: str) -> None:
    # A field copied from a response may end with its newline.
    wait = parse_retry_after(value.rstrip("\r\n"), resolve_clock(None).time())
    if wait is None:
        raise click.ClickException(f"neither a number of seconds nor an HTTP date: {value!r}")
    # A date has a fraction of a second left: rounded up, so never too early.
    click.echo(str(int(wait)) if wait.is_integer() else exact(ceil(wait * 1000.0) / 1000.0))
