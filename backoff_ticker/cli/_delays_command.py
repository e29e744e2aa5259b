"""``backoff-ticker delays``: shows the delays of a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console

from ..policies import POLICIES, FrozenClock
from ._delays import as_csv, as_json, as_lines, as_table, delays_of
from ._policy_options import (
    PolicyCommand,
    PolicyGroup,
    build_policy,
    policy_options,
    seed_option,
)

if TYPE_CHECKING:
    from ..policies import NamedPolicy

_MOST_DELAYS = 10_000


def delays_group() -> click.Group:
    """Return the command ``delays``, which has a command for each policy."""
    return PolicyGroup(
        "delays",
        {name: _delays_command(policy) for name, policy in POLICIES.items()},
        short_help="Show the delays of a policy: their range, and one draw.",
        help="Show the delays of a policy as a table: the middle of the range of each, the least "
        "and the greatest it can be, one draw of all, and how long the waiting has taken by then."
        "\n\n"
        "Nothing is waited for, but limits of elapsed time count as if each delay had been.",
    )


def _delays_command(policy: NamedPolicy) -> click.Command:
    """Return the command that shows the delays of a policy."""

    def show(n: int, form: str | None, plot: str | None, **options: object) -> None:
        clock = FrozenClock()
        delays = delays_of(build_policy(policy, options, clock), n, clock)
        if plot is not None:
            from ._plot import write_diagram

            write_diagram(policy.name, delays, plot)
        if form == "json":
            click.echo(as_json(policy.name, delays), nl=False)
        elif form == "csv":
            click.echo(as_csv(delays), nl=False)
        elif form == "plain":
            click.echo(as_lines(delays), nl=False)
        else:
            console = Console(highlight=False, markup=False, emoji=False)
            # rich has decided about colours.
            click.echo(as_table(delays, n, console), nl=False, color=True)

    return PolicyCommand(
        policy.name,
        callback=show,
        params=[
            *policy_options(policy),
            click.Option(
                ["-n"],
                type=click.IntRange(1, _MOST_DELAYS),
                default=12,
                show_default=True,
                help="How many delays.",
            ),
            seed_option(),
            *(
                click.Option([f"--{form}", "form"], flag_value=form, help=f"Print {what} instead.")
                for form, what in (
                    ("json", "JSON"),
                    ("csv", "CSV"),
                    ("plain", "one delay a line"),
                )
            ),
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
