"""The delays of a policy, without waiting: as a table with a bar chart, as CSV, as JSON."""

from __future__ import annotations

import csv
import io
import json
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from ..policies import draw_next, start_policy
from ._param_types import exact, rounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from ..policies import BackOff, FrozenClock

_NARROWEST, _WIDEST = 10, 32
"""The least width of the bar chart, in columns; with less room it is left out."""

_DISPENSABLE = ("interval", "total", "[least, greatest]")
"""Columns that are left out on a narrow terminal, the first one first."""

_GAP = 2
_BLOCKS = ("\u2588", "\u2591", "\u2503")
_ASCII = ("=", "-", "|")
"""What fills a bar up to the least delay, and up to the greatest; the mark at the drawn one."""


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
        if drawn is None or bounds is None:
            break
        least, greatest = bounds
        middle = least + (greatest - least) / 2.0
        delays.append(Delay(retry, middle, least, greatest, drawn, clock.now))
    return delays


def as_json(name: str, delays: Sequence[Delay]) -> str:
    """Return ``{"policy": name, "delays": [...]}``."""
    rows = [delay._asdict() for delay in delays]
    return json.dumps({"policy": name, "delays": rows}) + "\n"


def as_lines(delays: Sequence[Delay]) -> str:
    """Return the drawn delays, one per line."""
    return "".join(f"{exact(delay.drawn)}\n" for delay in delays)


def as_csv(delays: Sequence[Delay]) -> str:
    """Return a header line and a line for each delay."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Delay._fields)
    writer.writerows(delays)
    return text.getvalue()


def as_table(delays: Sequence[Delay], requested: int, console: Console) -> str:
    """Return a table with a bar chart, as wide as ``console`` is.

    No number is ever cut: on a narrow terminal the chart shrinks, then is left out, then columns
    are. What is no terminal gets all of it.

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
    widths = {title: max(map(len, (title, *cells))) for title, cells in columns.items()}
    for title in _DISPENSABLE:
        if console.is_terminal and sum(widths.values()) + _GAP * (len(widths) - 1) > console.width:
            del columns[title], widths[title]
    notes = []
    if len(delays) < requested:
        notes.append(f"STOP: the policy gives up, there is no retry {len(delays) + 1}.")
    bars: Iterable[Text] = repeat(Text())
    left = console.width - sum(widths.values()) - _GAP * len(widths)
    room = min(_WIDEST, left) if console.is_terminal else _WIDEST
    if (
        _DISPENSABLE[0] in columns
        and room >= _NARROWEST
        and any(delay.greatest for delay in delays)
    ):
        signs = _ASCII if console.options.ascii_only else _BLOCKS
        scale = room / max(delay.greatest for delay in delays)
        bars = (_bar(delay, scale, signs) for delay in delays)
        notes.append(f"{signs[0]} least  {signs[2]} drawn  {signs[1]} greatest")

    def line(cells: Iterable[str], bar: Text | str, style: str = "") -> Text:
        fields = map(str.rjust, cells, widths.values())
        text = Text((" " * _GAP).join(fields), style)
        return text.append(" " * _GAP).append(bar) if bar else text

    with console.capture() as captured:
        console.print(line(columns, "", "bold"), soft_wrap=True)
        for bar, *cells in zip(bars, *columns.values(), strict=False):
            console.print(line(cells, bar), soft_wrap=True)
        for note in notes:
            console.print(note, soft_wrap=True)
    return captured.get()


def _bar(delay: Delay, scale: float, signs: tuple[str, str, str]) -> Text:
    """Return a bar up to the greatest delay: filled to the least, a mark at the drawn one."""
    filled, rest, mark = signs
    least, greatest = round(delay.least * scale), max(round(delay.greatest * scale), 1)
    drawn = min(int(delay.drawn * scale), greatest - 1)
    bar = Text(filled * least + rest * (greatest - least), style="blue")
    return bar[:drawn] + Text(mark, style="bold yellow") + bar[drawn + 1 :]
