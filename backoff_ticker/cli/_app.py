"""The commands and their options; what they do stands in the rooms beside this one."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, cast

import click
from rich.console import Console

from .._clock import resolve_clock
from .._numbers import shown
from ..policies._feedback import FeedbackBackOff
from ..policies._named import POLICIES
from ._commands import Group, PolicyCommand, PolicyGroup
from ._delays import as_csv, as_json, as_table, delays_of
from ._errors import NoAnswer, run_guarded
from ._feedback import answers, parse_log
from ._policy_options import build_policy, policy_options, seed_option
from ._readers import whole_number
from ._retry_after import seconds_of
from ._run_options import run_command
from ._still_clock import StillClock
from ._text import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..policies._named import NamedPolicy

__all__ = ["run_app"]

_PROGRAM = "backoff-ticker"
_MOST_DELAYS = 10_000


def run_app(args: Sequence[str]) -> int:
    """Run the command with these arguments; return the exit status."""
    return run_guarded(lambda: _invoked([*args]))


def _invoked(args: list[str]) -> int:
    try:
        with _app().make_context(_PROGRAM, args) as context:
            status: int = context.command.invoke(context)
            return status
    except click.exceptions.Exit as left:
        return left.exit_code


def _app() -> click.Group:
    app = Group(
        _PROGRAM,
        params=[_version_option()],
        help="See and use policies that say how long to wait before the next attempt.",
        subcommand_metavar="COMMAND [OPTIONS]...",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.add_command(_delays_group())
    app.add_command(_feedback_group())
    app.add_command(run_command())
    app.add_command(_retry_after_command())
    return app


def _version_option() -> click.Option:
    def show(context: click.Context, _option: click.Parameter, wanted: bool) -> None:  # noqa: FBT001
        if wanted:
            from importlib.metadata import PackageNotFoundError, version

            try:
                found = version("backoff-ticker")
            except PackageNotFoundError:
                found = "(not installed)"
            click.echo(f"{_PROGRAM} {found}")
            context.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the version and exit.",
    )


# delays


def _delays_group() -> click.Group:
    group = PolicyGroup(
        "delays",
        short_help="Show the delays of a policy: their range, and one draw.",
        help="Show the delays of a policy as a table: the interval around which each is drawn (the "
        "middle of its range, where the policy has no such interval), the least and the greatest "
        "it can be, one draw of all, and how long the waiting has taken by then.\n\n"
        "Nothing is waited for, but limits of elapsed time count as if each delay had been.",
    )
    for policy in POLICIES.values():
        group.add_command(_delays_command(policy))
    return group


def _delays_command(policy: NamedPolicy) -> click.Command:
    def show(
        *, n: int, seed: int | None, json: bool, csv: bool, plot: str | None, **given: object
    ) -> int:
        if json and csv:
            raise click.UsageError("--json and --csv exclude each other")
        clock = StillClock()
        backoff = build_policy(policy.name, given, seed, clock)
        delays = delays_of(backoff, n, clock)
        if plot is not None:
            from ._plot import plot as write_plot

            write_plot(policy.name, delays, plot)
        if json:
            click.echo(as_json(policy.name, delays), nl=False)
        elif csv:
            click.echo(as_csv(delays), nl=False)
        else:
            table = as_table(delays, n, Console(highlight=False))
            click.echo(table, nl=False, color=True)  # rich has decided about colours
        return 0

    return PolicyCommand(
        policy.name,
        show,
        [
            *policy_options([policy]),
            click.Option(
                ["-n"],
                type=whole_number(1, _MOST_DELAYS),
                default="12",
                metavar="N",
                help=f"How many delays, 1 to {_MOST_DELAYS}. [default: 12]",
            ),
            seed_option(),
            click.Option(["--json"], is_flag=True, help="Print JSON instead of the table."),
            click.Option(["--csv"], is_flag=True, help="Print CSV instead of the table."),
            click.Option(
                ["--plot"],
                metavar="FILE",
                help="Write a diagram too, such as delays.png. Needs the extra plot.",
            ),
        ],
        short_help=policy.source,
        help=f"Show the delays of {policy.name}.\n\nSource: {policy.source}.\n\n"
        "Limits of elapsed time count as if each delay had been waited for.",
    )


# feedback


def _feedback_group() -> click.Group:
    common = signature(FeedbackBackOff).parameters.keys()
    hearing = [
        policy for policy in POLICIES.values() if common <= signature(policy).parameters.keys()
    ]
    names = [policy.name for policy in hearing]
    group = PolicyGroup(
        "feedback",
        short_help="Show what a feedback policy answers to failures and successes.",
        help="Show what a feedback policy answers to a log of failures and successes: a line for "
        "each, the delay in seconds, or -1 where the policy gives up.",
        elsewhere={
            name: f"{name} takes no feedback (those that do: {listed(names)})"
            for name in POLICIES
            if name not in names
        },
    )
    for policy in hearing:
        group.add_command(_feedback_command(policy))
    return group


def _feedback_command(policy: NamedPolicy) -> click.Command:
    def show(*, log: tuple[str, ...], seed: int | None, **given: object) -> int:
        items, start = parse_log(log)
        backoff = build_policy(policy.name, given, seed, StillClock(start))
        click.echo(answers(cast("FeedbackBackOff", backoff), items), nl=False)
        return 0

    return PolicyCommand(
        policy.name,
        show,
        [
            *policy_options([policy]),
            seed_option(),
            click.Argument(["log"], nargs=-1, metavar="LOG..."),
        ],
        short_help=policy.source,
        help=f"Show what {policy.name} answers to a log.\n\nSource: {policy.source}.\n\n"
        "Each item of LOG is 0, a failure, or 1, a success: alone, at the time of the item before; "
        "or with :TIMESTAMP, in seconds; or with :+SECONDS after the item before. So 0 0:+2 1 "
        "fails, fails again 2 seconds later, and succeeds at once. The log starts at the "
        "timestamp of its first item, or at 0.",
    )


# retry-after


class _ValueCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments in; -5 is a value, if a bad one, and no option."""
        negative = args and args[0][:1] == "-" and args[0][1:2].isdigit()
        return super().parse_args(ctx, ["--", *args] if negative else args)


def _retry_after_command() -> click.Command:
    def show(*, value: str) -> int:
        seconds = seconds_of(value, resolve_clock(None).time())
        if seconds is None:
            raise NoAnswer(f"neither a number of seconds nor an HTTP date: {shown(value)}")
        click.echo(seconds)
        return 0

    return _ValueCommand(
        "retry-after",
        callback=show,
        params=[click.Argument(["value"], metavar="VALUE")],
        short_help="Show how long the value of a Retry-After field asks to wait.",
        help="Show how many seconds from now VALUE asks to wait, the value of a Retry-After field "
        "of HTTP: a number of seconds, or a date in one of the three forms of RFC 9110. A date "
        "that has passed gives 0; anything else is an error, with exit code 1.",
    )
