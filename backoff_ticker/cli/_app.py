"""The command as a whole: its version and its subcommands, of which ``retry-after`` stands here."""

from __future__ import annotations

from math import ceil

import click

from .. import parse_retry_after
from ..clock import resolve_clock
from ._commands import Group, examples
from ._delays import delays_group
from ._feedback import feedback_group
from ._param_types import exact
from ._run_options import run_command
from ._simulate import simulate_group


def app() -> click.Group:
    group = Group(
        "backoff-ticker",
        help="See and use policies that say how long to wait before the next attempt.",
        epilog=examples(
            "run --max-attempts 5 -- curl --fail https://example.com/health",
            "delays exponential -n 10",
            "COMMAND --help",
        ),
        subcommand_metavar="COMMAND [OPTIONS]...",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.add_command(delays_group())
    group.add_command(feedback_group())
    group.add_command(_retry_after_command())
    group.add_command(run_command())
    group.add_command(simulate_group())
    version = click.version_option(package_name="backoff-ticker", message="%(prog)s %(version)s")
    return version(group)


def _retry_after_command() -> click.Command:
    return click.Command(
        "retry-after",
        context_settings={"ignore_unknown_options": True},  # so -5 is a value, though a bad one
        callback=_show_wait,
        epilog=examples("retry-after 120", "retry-after 'Sun, 06 Nov 1994 08:49:37 GMT'"),
        params=[click.Argument(["value"], metavar="VALUE")],
        short_help="Show how long the value of a Retry-After field asks to wait.",
        help="Show how many seconds from now VALUE asks to wait, the value of a Retry-After field "
        "of HTTP: a number of seconds, or a date in one of the three forms of RFC 9110. A date "
        "that has passed gives 0. Of anything else the greatest number or date in it counts; "
        "without any it is an error, with exit code 1.",
    )


def _show_wait(value: str) -> None:
    # A field copied from a response may end with its newline.
    wait = parse_retry_after(value.rstrip("\r\n"), resolve_clock(None).time())
    if wait is None:
        raise click.ClickException(f"neither a number of seconds nor an HTTP date: {value!r}")
    # A date has a fraction of a second left: rounded up, so never too early.
    click.echo(str(int(wait)) if wait.is_integer() else exact(ceil(wait * 1000.0) / 1000.0))
