"""``backoff-ticker delays``: the delays of a policy, as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from .._numbers import LARGEST
from .._stop import STOP
from ..policies._running import checked_delay, start_policy
from ._picture import Picture
from ._text import rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from .._protocols import BackOff
    from ._still_clock import StillClock

__all__ = ["Delay", "as_csv", "as_json", "as_table", "delays_of"]

_NARROWEST = 10
_WIDEST = 32
"""Columns of the picture; without so much room it is left out."""

_GAP = 2


class Delay(NamedTuple):
    """One line of the table; all but ``retry`` in seconds.

    Attributes:
        retry: Its number, from 1.
        interval: Around what the delay is drawn: the policy's ``current_interval``; for a policy
            without one, the middle of ``least`` and ``greatest``.
        least: The least delay there can be.
        greatest: The greatest.
        drawn: The one that came.
        total: The sum of all up to this one.
    """

    retry: int
    interval: float
    least: float
    greatest: float
    drawn: float
    total: float


def delays_of(policy: BackOff, count: int, clock: StillClock) -> list[Delay]:
    """Return the first ``count`` delays of a policy, fewer where it stops.

    Args:
        policy: Whose; a copy of it runs.
        count: How many at most.
        clock: What the policy measures elapsed time on; each delay moves it on.
    """
    run = start_policy("policy", policy, clock)
    return list(_delays(run, count, clock))


def _delays(run: BackOff, count: int, clock: StillClock) -> Iterator[Delay]:
    for retry in range(1, count + 1):
        current = _interval_of(run)
        bounds = run.bounds(retry)  # type: ignore[attr-defined]
        answer = run.next_backoff()
        if answer is STOP:
            return
        drawn = checked_delay(run, answer)
        clock.now = min(clock.now + drawn, LARGEST)
        least, greatest = bounds
        interval = least + (greatest - least) / 2.0 if current is None else current
        yield Delay(retry, interval, least, greatest, drawn, clock.now)


def _interval_of(policy: BackOff) -> float | None:
    """Return the interval of a policy, or of the one inside its limits; None: it has none."""
    while (inner := getattr(policy, "backoff", None)) is not None:
        policy = inner
    interval: float | None = getattr(policy, "current_interval", None)
    return interval


def as_json(name: str, delays: list[Delay]) -> str:
    """Return ``{"policy": name, "delays": [...]}``."""
    return f"{json.dumps({'policy': name, 'delays': [delay._asdict() for delay in delays]})}\n"


def as_csv(delays: list[Delay]) -> str:
    """Return a line of names and a line for each delay."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Delay._fields)
    writer.writerows(delays)
    return text.getvalue()


def as_table(delays: list[Delay], count: int, console: Console) -> str:
    """Return the table with its picture, as wide as ``console`` is.

    No number is ever cut: where the console is too narrow, first the picture shrinks and goes,
    then lines are longer than the console.

    Args:
        delays: The delays.
        count: How many were asked for.
        console: Where the table will be seen.
    """
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
    titles = ("retry", "interval", "[least, greatest]", "drawn", "total")
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    needed = sum(widths) + _GAP * len(widths)
    room = min(console.width - needed, _WIDEST) if console.is_terminal else _WIDEST
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for title, width in zip(titles, widths, strict=True):
        table.add_column(Text(title), justify="right", no_wrap=True, min_width=width)
    notes = []
    if len(delays) < count:
        notes.append(Text(f"STOP: the policy gives up, there is no retry {len(delays) + 1}."))
    if room < _NARROWEST or not any(delay.greatest for delay in delays):
        for row in rows:
            table.add_row(*map(Text, row))
    else:
        picture = Picture(delays, room, ascii_only=console.options.ascii_only)
        table.add_column(no_wrap=True, min_width=room)
        for row, delay in zip(rows, delays, strict=True):
            table.add_row(*map(Text, row), picture.bar(delay))
        notes.append(picture.legend())
    seen = console.width
    console.width = needed + max(room, 0)  # or columns that find no room are left out
    with console.capture() as capture:
        console.print(table)
        for note in notes:
            console.print(note, soft_wrap=True)
    console.width = seen
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
