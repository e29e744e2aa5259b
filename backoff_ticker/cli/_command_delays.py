"""``backoff-ticker delays``: the delays of a policy, as a table, as data, as a diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console

from ..policies import POLICIES, FrozenClock
from ._commands import PolicyCommand, PolicyGroup
from ._delays import as_csv, as_json, as_lines, delays_of
from ._policy_options import build_policy, policy_options, seed_option
from ._readers import whole_number
from ._table import as_table

if TYPE_CHECKING:
    from ..policies import NamedPolicy

_MOST_DELAYS = 10_000


def delays_group() -> click.Group:
    """Return the command ``delays``, which has a command for each policy."""
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
    def show(  # noqa: PLR0913 - the options of the command
        *,
        n: int,
        seed: int | None,
        json: bool,
        csv: bool,
        plain: bool,
        plot: str | None,
        **given: object,
    ) -> int:
        if json + csv + plain > 1:
            raise click.UsageError("--json, --csv and --plain exclude each other")
        clock = FrozenClock()
        backoff = build_policy(policy.name, given, seed, clock)
        delays = delays_of(backoff, n, clock)
        if plot is not None:
            from ._plot import plot as write_plot

            write_plot(policy.name, delays, plot)
        if json:
            click.echo(as_json(policy.name, delays), nl=False)
        elif csv:
            click.echo(as_csv(delays), nl=False)
        elif plain:
            click.echo(as_lines(delays), nl=False)
        else:
            table = as_table(delays, n, Console(highlight=False))
            click.echo(table, nl=False, color=True)  # rich has decided about colours
        return 0

    return PolicyCommand(
        policy.name,
        callback=show,
        params=[
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
                ["--plain"], is_flag=True, help="Print a delay a line instead of the table."
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
