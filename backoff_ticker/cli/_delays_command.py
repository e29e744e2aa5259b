"""``backoff-ticker delays``: shows the delays of a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..policies import POLICIES, FrozenClock
from ._commands import Group, PolicyCommand, form_options, plot_option
from ._delays import Delay, as_lines, as_table, delays_of
from ._policy_options import (
    build_policy,
    policy_parameters,
    required_of,
    sample_options,
    seed_option,
    summary_of,
    with_arguments,
)
from ._policy_texts import SUMMARIES
from ._table import as_csv, as_json, show_table

if TYPE_CHECKING:
    from ..policies import NamedPolicy

_MOST_DELAYS = 1_000_000
_REQUIRED = "What is required may be given as options, or as arguments in this order.\n\n"


def delays_group() -> click.Group:
    """Return the command ``delays``, which has a command for each policy."""
    return Group(
        "delays",
        commands={name: _delays_command(policy) for name, policy in POLICIES.items()},
        kind="policy",
        subcommand_metavar="POLICY [OPTIONS]...",
        examples=[
            "delays exponential",
            "delays constant 2s -n 5",
            "delays full-jitter --base 1s --cap 20s --seed 1 --json",
        ],
        short_help="Show the delays of a policy: their range, and one draw.",
        help="Show the delays of a policy as a table: the middle of the range of each, the least "
        "and the greatest it can be, one draw of all, and how long the waiting has taken by then."
        "\n\n"
        "Nothing is waited for, but limits of elapsed time count as if each delay had been.",
    )


def _delays_command(policy: NamedPolicy) -> click.Command:
    """Return the command that shows the delays of a policy."""

    def show(
        n: int,
        form: str | None,
        plot: str | None,
        values: tuple[str, ...] = (),
        **options: object,
    ) -> None:
        clock = FrozenClock()
        options = with_arguments(policy, options, values)
        delays = delays_of(build_policy(policy, options, clock), n, clock)
        if plot is not None:
            from ._plot import write_diagram

            write_diagram(f"{policy.name}\n{summary_of(policy, options)}", delays, plot)
        if form == "json":
            click.echo(as_json("delays", delays, policy=policy.name), nl=False)
        elif form == "csv":
            click.echo(as_csv(Delay._fields, delays), nl=False)
        elif form == "plain":
            click.echo(as_lines(delays), nl=False)
        else:
            show_table(lambda console: as_table(delays, n, console))

    return PolicyCommand(
        policy.name,
        callback=show,
        examples=[f"delays {policy.name}{sample_options(policy)}"],
        params=[
            *policy_parameters(policy),
            click.Option(
                ["-n"],
                type=click.IntRange(1, _MOST_DELAYS),
                default=12,
                metavar="N",
                show_default=True,
                help="How many delays.",
            ),
            seed_option(),
            *form_options(json="JSON", csv="CSV", plain="one delay a line"),
            plot_option("delays.png"),
        ],
        short_help=SUMMARIES[policy.name],
        help=f"Show the delays of {policy.name}.\n\n{SUMMARIES[policy.name]}\n\n"
        f"Source: {policy.source}.\n\n"
        f"{_REQUIRED if required_of(policy) else ''}"
        "Limits of elapsed time count as if each delay had been waited for.",
    )
