"""The delays of a policy, without waiting: as a table with a bar chart, as CSV, as JSON."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from ..policies import draw_next, start_policy
from ._param_types import exact, rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ..policies import BackOff, FrozenClock

_NARROWEST, _WIDEST = 10, 32
"""The least width of the bar chart, in columns; with less room it is left out."""


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

    No number is ever cut: on a narrow console the chart shrinks, then is left out, then lines
    become longer than the console.

    Args:
        delays: The delays.
        requested: How many delays were requested.
        console: Where the table will be shown.
    """
    titles = ("retry", "interval", "[least, greatest]", "drawn", "total")
    rows = [
        (
            str(delay.retry),
            rounded(delay.interval),
            f"[{rounded(delay.least)}, {rounded(delay.greatest)}]",
            rounded(delay.drawn),
            rounded(delay.total),
        )
        for delay in delays
    ]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    needed = 0
    for title, *cells in zip(titles, *rows, strict=True):
        width = max(map(len, (title, *cells)))
        table.add_column(Text(title), justify="right", no_wrap=True, min_width=width)
        needed += width + _GAP
    room = min(_WIDEST, console.width - needed if console.is_terminal else _WIDEST)
    notes = []
    if len(delays) < requested:
        notes.append(f"STOP: the policy gives up, there is no retry {len(delays) + 1}.")
    if room >= _NARROWEST and any(delay.greatest for delay in delays):
        table.add_column(no_wrap=True)
        signs = _ASCII if console.options.ascii_only else _BLOCKS
        scale = room / max(delay.greatest for delay in delays)
        for row, delay in zip(rows, delays, strict=True):
            table.add_row(*row, _bar(delay, scale, signs))
        notes.append(f"{signs[0]} least  {signs[2]} drawn  {signs[1]} greatest")
    else:
        for row in rows:
            table.add_row(*row)
    console.width = needed + _WIDEST  # or rich would cut columns for lack of room
    with console.capture() as captured:
        console.print(table)
        for note in notes:
            console.print(note, soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _bar(delay: Delay, scale: float, signs: tuple[str, str, str]) -> Text:
    """Return a bar up to the greatest delay: filled to the least, a mark at the drawn one."""
    filled, rest, mark = signs
    least, greatest = round(delay.least * scale), max(round(delay.greatest * scale), 1)
    drawn = min(int(delay.drawn * scale), greatest - 1)
    bar = Text(filled * least + rest * (greatest - least), style="blue")
    return bar[:drawn] + Text(mark, style="bold yellow") + bar[drawn + 1 :]
