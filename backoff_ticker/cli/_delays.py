"""``backoff-ticker delays``: the delays of a policy, without waiting for them."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import click

from .. import POLICIES
from .._sentinels import STOP
from ..policies import FrozenClock, draw_next, start_policy
from ._commands import PolicyCommand, count_option, examples, form_options, plot_option
from ._param_types import exact, rounded
from ._plot import add_legend, panels, title_of, write_figure
from ._policy_names import PolicyGroup, about, summary
from ._policy_options import (
    build_policy,
    policy_parameters,
    required_of,
    sample_options,
    seed_option,
    with_arguments,
)
from ._table import as_table as table_of, print_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from rich.console import Console

    from ..policies import BackOff
    from ..types import NamedPolicy
    from ._table import Bar

_GREATEST = 1e100  # seconds: with more, the arithmetic of a diagram would overflow


class Delay(NamedTuple):
    """One line of the table; all but ``retry``, a number from 1, in seconds.

    ``interval`` is the middle of ``least`` and ``greatest``, ``total`` the sum up to this delay.
    """

    retry: int
    interval: float
    least: float
    greatest: float
    drawn: float
    total: float


def delays_of(policy: BackOff, count: int, clock: FrozenClock) -> list[Delay]:
    """Return the first ``count`` delays of a policy, fewer where it stops.

    Each delay advances the clock. Without ``bounds()``, the range of a delay is what was drawn.
    """
    run = start_policy("policy", policy, clock)
    delays: list[Delay] = []
    while len(delays) < count:
        retry = len(delays) + 1
        bounds = run.bounds(retry) if hasattr(run, "bounds") else ()
        drawn = draw_next(run, clock)
        if drawn is STOP or bounds is None:
            break
        least, greatest = bounds or (drawn, drawn)
        middle = least + (greatest - least) / 2.0
        delays.append(Delay(retry, middle, least, greatest, drawn, clock.now))
    return delays


def as_table(delays: Sequence[Delay], requested: int, console: Console) -> str:
    """Return a table, which says so if the policy gave fewer delays than were ``requested``."""
    columns = {
        "retry": [str(delay.retry) for delay in delays],
        "interval": [rounded(delay.interval) for delay in delays],
        "[least, greatest]": [
            f"[{rounded(delay.least)}, {rounded(delay.greatest)}]" for delay in delays
        ],
        "drawn": [rounded(delay.drawn) for delay in delays],
        "total": [rounded(delay.total) for delay in delays],
    }
    stop = f"STOP: the policy gives up, there is no retry {len(delays) + 1}."
    longest = max((delay.greatest for delay in delays), default=0.0)

    def chart(room: int, signs: tuple[str, str, str]) -> tuple[Sequence[Bar], str]:
        legend = f"{signs[0]} least  {signs[2]} drawn  {signs[1]} greatest"
        return [_bar(delay, room / longest, signs) for delay in delays], legend

    return table_of(
        columns,
        console,
        dispensable=("interval", "total", "[least, greatest]"),
        chart=chart if longest else None,
        notes=[stop] if len(delays) < requested else [],
    )


def _bar(delay: Delay, scale: float, signs: tuple[str, str, str]) -> Bar:
    """Return a bar up to the greatest delay: filled to the least, a mark at the drawn one."""
    filled, rest, mark = signs
    least, greatest = round(delay.least * scale), max(round(delay.greatest * scale), 1)
    drawn = min(int(delay.drawn * scale), greatest - 1)
    bar = filled * least + rest * (greatest - least)
    return [(bar[:drawn], "blue"), (mark, "bold yellow"), (bar[drawn + 1 :], "blue")]


def figure_of(title: str, delays: Sequence[Delay]) -> Figure:
    """Return the diagram: the delay before each retry, and below it when each retry comes."""
    from matplotlib.ticker import MaxNLocator

    if any(delay.greatest > _GREATEST for delay in delays):
        raise click.UsageError(f"--plot: delays of more than {_GREATEST:g} s cannot be drawn")
    figure, (above, below) = panels(title, 2)
    retries = [delay.retry for delay in delays]
    least, greatest = [delay.least for delay in delays], [delay.greatest for delay in delays]
    above.vlines(retries, least, greatest, alpha=0.25, linewidth=9.0, label="least to greatest")
    above.plot(retries, [delay.drawn for delay in delays], marker="o", label="drawn")
    numbers = (0.5, max(len(delays), 1) + 0.5)
    above.set(xlabel="retry", ylabel="delay in seconds", xlim=numbers, ylim=(0.0, None))
    sums = [*accumulate(least)], [*accumulate(greatest)]
    below.hlines(retries, *sums, alpha=0.25, linewidth=9.0)
    below.plot([delay.total for delay in delays], retries, marker="o")
    below.set(xlabel="seconds waited in all", ylabel="retry", xlim=(0.0, None), ylim=numbers)
    for axis in (above.xaxis, below.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    add_legend(figure)
    return figure


_MOST_DELAYS = 1_000_000


def delays_group() -> click.Group:
    return PolicyGroup(
        "delays",
        _delays_command,
        POLICIES,
        epilog=examples(
            "delays exponential",
            "delays constant 2s -n 5",
            "delays full-jitter --base 1s --cap 20s --seed 1 --json",
        ),
        short_help="Show the delays of a policy: their range, and one draw.",
        help="Show the delays of a policy as a table: the middle of the range of each, the least "
        "and the greatest it can be, one draw of all, and how long the waiting has taken by then."
        "\n\nNothing is waited for, but limits of elapsed time count as if each delay had been. A "
        "policy of your own is named by its import path, package.module:Class.",
    )


def _delays_command(name: str, policy: NamedPolicy) -> click.Command:
    def show(
        n: int, form: str | None, plot: str | None, values: tuple[str, ...] = (), **options: object
    ) -> None:
        clock = FrozenClock()
        options = with_arguments(policy, options, values)
        delays = delays_of(build_policy(policy, options, clock), n, clock)
        declared = (param.name for param in click.get_current_context().command.params)
        title = title_of(name, {one: options[one] for one in declared if one in options})
        write_figure(lambda: figure_of(title, delays), plot)
        if form == "plain":
            click.echo("".join(f"{exact(delay.drawn)}\n" for delay in delays), nl=False)
        else:
            table = partial(as_table, delays, n)
            print_rows(form, "delays", Delay._fields, delays, {"policy": policy.name}, table)

    required = "What is required may be given as options, or as arguments in this order.\n\n"
    return PolicyCommand(
        name,
        callback=show,
        epilog=examples(f"delays {name}{sample_options(policy)}"),
        params=[
            *policy_parameters(policy),
            count_option("-n", 12, _MOST_DELAYS, "How many delays."),
            seed_option(),
            *form_options(json="JSON", csv="CSV", plain="one delay a line"),
            plot_option("delays.png"),
        ],
        short_help=summary(policy),
        help=f"Show the delays of {name}.\n\n{about(policy)}\n\n"
        f"{required if required_of(policy) else ''}"
        "Limits of elapsed time count as if each delay had been waited for.",
    )
