"""How long things take compared with what they replace: the figures of ``docs/speed.md``."""

import re
from math import log10
from pathlib import Path
from typing import NamedTuple

from svg import Picture

TITLE = "How long things take, as a multiple of what they replace"
PAGE = Path(__file__).parents[1] / "speed.md"

THREAD, LOOP, OTHER = "thread", "loop", "wait"


class Row(NamedTuple):
    """What is shown, and where the page has its figures.

    Attributes:
        label: What it is, or is compared with.
        colour: Where it runs; ``OTHER``: it is another library.
        begins: How its line of the page begins.
        cell: Which cell of that line has the ratios; 0: the ratio follows, in a sentence.
    """

    label: str
    colour: str
    begins: str
    cell: int = 3


GROUPS = {
    "A retried call that succeeds at once; loop by hand = 1": [
        Row("@retry", THREAD, "| `@retry(ZeroBackOff())` |", 2),
        Row("google-api-core", OTHER, "| google-api-core |", 2),
        Row("backoff", OTHER, "| backoff |", 2),
        Row("stamina", OTHER, "| stamina", 2),
        Row("tenacity", OTHER, "| tenacity", 2),
    ],
    "A call through a closed circuit; breaker by hand = 1": [
        Row("@breaker", THREAD, "| `@breaker` |", 2),
        Row("circuitbreaker", OTHER, "| circuitbreaker", 2),
        Row("pybreaker", OTHER, "| pybreaker", 2),
    ],
    "A tick without delay, compared with": [
        Row("queue.Queue(1) in a thread", THREAD, "| ticks a second in a thread"),
        Row("asyncio.sleep(0)", LOOP, "| ticks a second in a loop"),
    ],
    "How late a tick is, compared with": [
        Row("time.sleep", THREAD, "| lateness of a tick in a thread"),
        Row("asyncio.sleep", LOOP, "| lateness of a tick in a loop"),
    ],
    "A cancel, compared with": [
        Row("Event, 100 threads", THREAD, "| `cancel()` with 100 waiting threads"),
        Row("asyncio.Event, 10,000 tasks", LOOP, "| `cancel()` with 10,000 waiting coroutines"),
    ],
    "A burst of items in a channel, compared with": [
        Row("queue.SimpleQueue", THREAD, "| thread, thread | `queue.SimpleQueue`"),
        Row("asyncio.Queue, thread to loop", LOOP, "| thread, loop | `asyncio.Queue`"),
        Row("asyncio.Queue in a loop", LOOP, "| loop, loop | `asyncio.Queue`"),
    ],
    "Import, compared with": [
        Row("tenacity", THREAD, "`import backoff_ticker` takes", 0),
        Row("tenacity, all names loaded", THREAD, "loading all of them takes", 0),
    ],
}

GRID = (0.01, 0.1, 1, 10, 100)
ONE, DECADE, TOP, HEADING, ROW = 338, 58, 32, 30, 20
HEIGHT = TOP + sum(HEADING + ROW * len(rows) for rows in GROUPS.values()) + 54


def data() -> dict[str, list[tuple[float, float]]]:
    """Return the least and the greatest time of each row."""
    page = PAGE.read_text("utf-8")
    return {group: [_figures(row, page) for row in rows] for group, rows in GROUPS.items()}


def _figures(row: Row, page: str) -> tuple[float, float]:
    if row.cell:
        (line,) = (line for line in page.splitlines() if line.startswith(row.begins))
        text = line.split("|")[row.cell]
    else:
        _, _, text = " ".join(page.split()).partition(row.begins)
        text = text[: text.index("x") + 1]
    ratios = [float(ratio) for ratio in re.findall(r"([\d.]+)x", text)]
    if "as many" in text:
        ratios = [1 / ratio for ratio in ratios]
    return min(ratios), max(ratios)


def _x(ratio: float) -> float:
    return ONE + log10(ratio) * DECADE


def draw(picture: Picture, data: dict[str, list[tuple[float, float]]]) -> None:
    """Draw a bar for each row, from 1 to the ratio; what is in between is lighter."""
    legend = ((10, THREAD, "thread"), (84, LOOP, "event loop"), (184, OTHER, "another library"))
    for x, colour, text in legend:
        picture.rect(x, 14, 14, 12, colour, radius=2)
        picture.text(x + 20, 24, text, size=13)
    picture.rect(330, 14, 14, 12, THREAD, opacity=0.5)
    picture.text(350, 24, "range of figures", size=13)
    for ratio in GRID:
        picture.text(_x(ratio), HEIGHT - 14, f"{ratio:g}x", "faint", size=11, anchor="middle")
    picture.text(ONE - 8, HEIGHT - 32, "less time", "faint", anchor="end")
    picture.text(ONE + 8, HEIGHT - 32, "more time", "faint")
    y = TOP
    for group, rows in GROUPS.items():
        y += HEADING
        picture.text(10, y - 8, group, bold=True)
        for ratio in GRID:
            colour, width = ("faint", 1.5) if ratio == 1 else ("line", 1)
            picture.line(_x(ratio), y, _x(ratio), y + ROW * len(rows), colour, width=width)
        for row, figures in zip(rows, data[group], strict=True):
            _bar(picture, y + 10, row, *figures)
            y += ROW


def _bar(picture: Picture, y: float, row: Row, least: float, greatest: float) -> None:
    picture.text(10, y + 4, row.label, "faint" if row.colour == OTHER else "ink")
    near, far = sorted((least, greatest), key=lambda ratio: abs(log10(ratio)))
    if least < 1 < greatest:
        near = 1
    for ratio, opacity in ((far, 0.5), (near, 1.0)):
        begin, end = sorted((ONE, _x(ratio)))
        picture.rect(begin, y - 6, end - begin, 12, row.colour, opacity=opacity)
    text = " to ".join(dict.fromkeys(map(_text, (least, greatest))))
    if far < 1:
        picture.text(ONE + 8, y + 4, text, size=11)
    else:
        picture.text(ONE - 8, y + 4, text, size=11, anchor="end")


def _text(ratio: float) -> str:
    return f"{ratio:.0f}x" if ratio >= 10 else f"{round(ratio, 2):g}x"
