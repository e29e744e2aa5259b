"""Timelines of the four paces: the third tick's work takes longer than two delays."""

from typing import NamedTuple

from backoff_ticker import ConstantBackOff, Pace, Ticker
from backoff_ticker.testing import VirtualClock
from svg import WIDTH, Picture

TITLE = "What each pace does with a reader that is late once"
DELAY, QUICK, SLOW, END = 10.0, 2.0, 25.0, 70.0
"""Seconds."""

EXPLAINED = {
    Pace.RECEIPT: "the next delay begins when a tick is taken",
    Pace.RETURN: "the next delay begins when the work is done",
    Pace.BURST: "a fixed grid; late ticks come one after the other",
    Pace.SKIP: "a fixed grid; ticks that were missed are left out",
}

LEFT, TOP, ROW = 24, 56, 66
HEIGHT = TOP + 4 * ROW + 8
SCALE = (WIDTH - LEFT - 18) / END


class Taken(NamedTuple):
    """A tick: seconds from the start."""

    due: float
    taken: float
    done: float
    missed: int


def data() -> dict[Pace, list[Taken]]:
    """Return the ticks of each pace."""
    return {pace: _ticks(pace) for pace in Pace}


def _ticks(pace: Pace) -> list[Taken]:
    ticks = []
    with VirtualClock(auto=True) as clock:
        start = clock.monotonic()
        for tick in Ticker(ConstantBackOff(DELAY), pace=pace):
            taken = clock.monotonic() - start
            if taken >= END:
                break
            clock.sleep(SLOW if tick.number == 3 else QUICK)  # the work
            done = clock.monotonic() - start
            ticks.append(Taken(tick.due - start, taken, done, tick.missed))
    return ticks


def _x(time: float) -> float:
    return LEFT + time * SCALE


def draw(picture: Picture, data: dict[Pace, list[Taken]]) -> None:
    """Draw a row for each pace."""
    _legend(picture)
    for row, (pace, ticks) in enumerate(data.items()):
        y = TOP + row * ROW
        picture.text(10, y, f"Pace.{pace.name}", mono=True, bold=True, size=13)
        picture.text(114, y, EXPLAINED[pace], "faint", size=13)
        _timeline(picture, y + 34, ticks)
    picture.seconds(HEIGHT - 12, range(0, 71, 10), _x)


def _timeline(picture: Picture, y: float, ticks: list[Taken]) -> None:
    for time in range(0, int(END) + 1, 10):
        picture.line(_x(time), y - 22, _x(time), y + 12, "line")
    picture.line(_x(0), y, _x(END), y, "line")
    for tick in ticks:
        begin, end, high = _x(tick.taken), _x(min(tick.done, END)), y - 16
        if tick.taken > tick.due:
            waits = [(_x(tick.due), high), (begin + 2, high), (begin + 2, y - 7)]
            picture.lines(waits, "faint", dash="1 4", width=2)
        picture.rect(begin, y - 7, end - begin, 14, "thread", radius=2)
        if tick.missed:
            missed = range(1, tick.missed + 1)
            picture.crosses([(_x(tick.due - DELAY * back), high) for back in missed])
        _diamond(picture, _x(tick.due), high)


def _diamond(picture: Picture, x: float, y: float) -> None:
    picture.lines([(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y)], "ink", fill=True)


def _legend(picture: Picture) -> None:
    y = 24
    _diamond(picture, 16, y - 4)
    picture.text(28, y, "tick is due", size=13)
    picture.line(114, y - 4, 136, y - 4, "faint", dash="1 4", width=2)
    picture.text(144, y, "tick waits", size=13)
    picture.rect(226, y - 11, 22, 13, "thread", radius=2)
    picture.text(256, y, "reader works", size=13)
    picture.crosses([(364, y - 4)])
    picture.text(376, y, "missed tick", size=13)
