"""The delays as a table on a console, with a small picture beside it where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ._picture import Picture
from ._text import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ._delays import Delay

_NARROWEST = 10
_WIDEST = 32
"""Columns of the picture; where there is not even the least room, it is left out."""

_GAP = 2


def as_table(delays: Sequence[Delay], count: int, console: Console) -> str:
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
