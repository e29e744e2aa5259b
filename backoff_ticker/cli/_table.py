"""Rows of figures: as a table with a bar chart, as CSV, as JSON."""

from __future__ import annotations

import csv
import io
import json
from itertools import repeat
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rich.console import Console
    from rich.text import Text

    Bar = Sequence[tuple[str, str]]
    """Parts of a text, each with its style."""
    Chart = Callable[[int, tuple[str, str, str]], tuple[Sequence[Bar], str]]
    """Returns a bar for each row, within a number of columns, and the legend, or ``""``."""

_USUAL_WIDTH = 80  # of a terminal that says it has no columns, as by COLUMNS=0
_NARROWEST, _WIDEST = 10, 32  # columns of the bar chart; with less room it is left out
_SHORTENED = 16  # words are never shortened to less than that
_GAP = 2
# What bars are made of: filled, not filled, a mark.
_BLOCKS = ("\u2588", "\u2591", "\u2503")
_ASCII = ("=", "-", "|")


def print_rows(
    form: str | None,
    key: str,
    fields: Sequence[str],
    rows: Sequence[Any],
    about: Mapping[str, object],
    table: Callable[[Console], str],
) -> None:
    """Print named tuples as JSON, as CSV, or as the table that is made for a console.

    ``key`` is what JSON calls the rows, and ``about`` what it says besides.
    """
    if form == "json":
        text = json.dumps({**about, key: [row._asdict() for row in rows]}) + "\n"
    elif form == "csv":
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(fields)
        writer.writerows(rows)
        text = lines.getvalue()
    else:
        from rich.console import Console

        console = Console(highlight=False, markup=False, emoji=False)
        console.width = console.width or _USUAL_WIDTH
        text = table(console)
    click.echo(text, nl=False, color=True)  # rich has decided about colours


def as_table(
    columns: Mapping[str, Sequence[str]],
    console: Console,
    *,
    dispensable: Sequence[str],
    chart: Chart | None,
    words: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Return a table with a bar chart, as wide as ``console`` is.

    No number is ever cut: with less room the chart shrinks, then is left out. On a terminal
    ``words``, columns that begin at the left, are then shortened, and at last ``dispensable``
    columns are left out, the first one first. ``notes`` are lines below the table.
    """
    from rich.text import Text

    columns = dict(columns)
    count = len(columns)
    widths = {title: max(map(len, (title, *cells))) for title, cells in columns.items()}

    def left() -> int:
        return console.width - sum(widths.values()) - _GAP * (len(widths) - 1)

    if console.is_terminal:
        for title in words:
            widths[title] = max(min(widths[title], _SHORTENED), widths[title] + min(left(), 0))
        for title in dispensable:
            if left() < 0:
                del columns[title], widths[title]
    bars: Iterable[Bar] = repeat(())
    legend = ""
    room = min(_WIDEST, left() - _GAP)
    if chart is not None and len(columns) == count and room >= _NARROWEST:
        bars, legend = chart(room, _ASCII if console.options.ascii_only else _BLOCKS)

    def line(cells: Iterable[str], bar: Bar, style: str = "") -> Text:
        fields = [
            _shortened(cell, width).ljust(width) if title in words else cell.rjust(width)
            for cell, (title, width) in zip(cells, widths.items(), strict=True)
        ]
        gap = [" " * _GAP] if bar else []
        return Text.assemble((" " * _GAP).join(fields), *gap, *bar, style=style)

    with console.capture() as captured:
        console.print(line(columns, (), "bold"), soft_wrap=True)
        for bar, *cells in zip(bars, *columns.values(), strict=False):
            console.print(line(cells, bar), soft_wrap=True)
        for note in (*notes, *filter(None, [legend])):
            console.print(note, soft_wrap=True)
    return captured.get()


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."
