"""The delays of a policy, without waiting: as a table with a bar chart, as lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from .._sentinels import STOP
from ..policies import draw_next, start_policy
from ._param_types import exact, rounded
from ._table import as_table as table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ..policies import BackOff, FrozenClock

_DISPENSABLE = ("interval", "total", "[least, greatest]")
"""Columns that are left out on a narrow terminal, the first one first."""


class Delay(NamedTuple):
    """One line of the table; all but ``retry`` in seconds.

    Attributes:
        retry: Its number, from 1.
        interval: The middle of ``least`` and ``greatest``.
        least: The least delay there can be.
        greatest: The greatest delay there can be.
        drawn: The delay that was drawn.
        total: The sum of all up to this one.
    """

    retry: int
    interval: float
    least: float
    greatest: float
    drawn: float
    total: float


def delays_of(policy: BackOff, count: int, clock: FrozenClock) -> list[Delay]:
    """Return the first ``count`` delays of a policy, fewer where it stops.

    Args:
        policy: The policy; a copy of it runs.
        count: The greatest number of delays.
        clock: Measures elapsed time for the policy; each delay advances it.
    """
    run = start_policy("policy", policy, clock)
    delays: list[Delay] = []
    while len(delays) < count:
        retry = len(delays) + 1
        bounds = run.bounds(retry)  # type: ignore[attr-defined]
        drawn = draw_next(run, clock)
        if drawn is STOP or bounds is None:
            break
        least, greatest = bounds
        middle = least + (greatest - least) / 2.0
        delays.append(Delay(retry, middle, least, greatest, drawn, clock.now))
    return delays


def as_lines(delays: Sequence[Delay]) -> str:
    """Return the drawn delays, one per line."""
    return "".join(f"{exact(delay.drawn)}\n" for delay in delays)


def as_table(delays: Sequence[Delay], requested: int, console: Console) -> str:
    """Return a table with a bar chart, as wide as ``console`` is.

    Args:
        delays: The delays.
        requested: How many delays were requested.
        console: Where the table will be shown.
    """
    columns = {
        "retry": [str(delay.retry) for delay in delays],
        "interval": [rounded(delay.interval) for delay in delays],
        "[least, greatest]": [
            f"[{rounded(delay.least)}, {rounded(delay.greatest)}]" for delay in delays
        ],
        "drawn": [rounded(delay.drawn) for delay in delays],
        "total": [rounded(delay.total) for delay in delays],
    }
    notes = []
    if len(delays) < requested:
        notes.append(f"STOP: the policy gives up, there is no retry {len(delays) + 1}.")
    longest = max((delay.greatest for delay in delays), default=0.0)

    def chart(room: int, signs: tuple[str, str, str]) -> tuple[list[Text], str]:
        legend = f"{signs[0]} least  {signs[2]} drawn  {signs[1]} greatest"
        return [_bar(delay, room / longest, signs) for delay in delays], legend

    return table_of(
        columns,
        console,
        dispensable=_DISPENSABLE,
        chart=chart if longest else None,
        notes=notes,
    )


def _bar(delay: Delay, scale: float, signs: tuple[str, str, str]) -> Text:
    """Return a bar up to the greatest delay: filled to the least, a mark at the drawn one."""
    filled, rest, mark = signs
    least, greatest = round(delay.least * scale), max(round(delay.greatest * scale), 1)
    drawn = min(int(delay.drawn * scale), greatest - 1)
    bar = Text(filled * least + rest * (greatest - least), style="blue")
    return bar[:drawn] + Text(mark, style="bold yellow") + bar[drawn + 1 :]
