"""The polls of a fleet that is down for two minutes, whose devices are added at once or spread."""

import random

from backoff_ticker import CancellationToken, ExponentialBackOff, Schedule
from backoff_ticker.testing import VirtualClock
from svg import WIDTH, Picture

TITLE = (
    "Polls of 1,000 devices in an outage: all at once, spread, and spread with a longer first rest"
)
DEVICES, EVERY = 1000, 10.0
DOWN, UP, END = 60, 180, 300
"""Seconds."""

ROWS = (  # whether add_all() adds them, the first rest, what to see
    (False, 1, "add() for each", "a crowd every ten seconds, before and after"),
    (True, 1, "add_all()", "spread; but {most} polls a second at the start"),
    (True, 10, "add_all(), rests from 10 s on", "no crowd: at most {most} a second"),
)
LEFT, TOP, ROW, HIGH = 40, 68, 118, 80
HEIGHT = TOP + len(ROWS) * ROW + 4
MOST = 1500
"""Polls a second."""
SCALE = (WIDTH - LEFT - 22) / END


def data() -> list[list[int]]:
    """Return the polls in each second, for each row."""
    return [_polls(rest, spread=spread) for spread, rest, *_ in ROWS]


def _polls(rest: float, *, spread: bool) -> list[int]:
    polls = [0] * END
    rng = random.Random(1)
    rests = ExponentialBackOff(rest, max_interval=60, max_elapsed_time=None, rng=rng)
    with VirtualClock(auto=True) as clock:
        stop = CancellationToken(timeout=END - 0.001)
        devices = Schedule[int](
            every=EVERY, backoff=rests, on=OSError, token=stop, notify=lambda *_: None
        )
        devices.add_all(range(DEVICES), over=EVERY if spread else 0)
        for job in devices:
            with job:
                second = int(clock.monotonic())
                polls[second] += 1
                if DOWN <= second < UP:
                    raise OSError
    return polls


def _x(time: float) -> float:
    return LEFT + time * SCALE


def draw(picture: Picture, data: list[list[int]]) -> None:
    """Draw a row for each way to add the devices."""
    picture.text(
        10, 22, "Polls a second of 1,000 devices, each due every 10 seconds. All are", size=13
    )
    picture.text(
        10, 40, "down for two minutes, and rest for up to a minute after failures.", size=13
    )
    for number, (row, polls) in enumerate(zip(ROWS, data, strict=True)):
        y = TOP + number * ROW
        code, explained = row[2:]
        picture.text(10, y, code, mono=True, bold=True)
        text = explained.format(most=max(polls[DOWN:]))
        picture.text(20 + 7.3 * len(code), y, text, "faint", size=13)
        _panel(picture, y + 12 + HIGH, polls)
    for minute in range(END // 60 + 1):
        picture.text(
            _x(minute * 60), HEIGHT - 10, f"{minute} min", "faint", size=11, anchor="middle"
        )


def _panel(picture: Picture, bottom: float, polls: list[int]) -> None:
    top = bottom - HIGH
    picture.rect(_x(DOWN), top, (UP - DOWN) * SCALE, HIGH, "bad", opacity=0.12)
    for mark in (0, 500, 1000, 1500):
        y = bottom - mark / MOST * HIGH
        picture.line(LEFT, y, _x(END), y, "line")
        picture.text(LEFT - 6, y + 4, str(mark), "faint", size=11, anchor="end")
    points = [(_x(0), bottom)]
    for second, number in enumerate(polls):
        y = bottom - number / MOST * HIGH
        points += [(_x(second), y), (_x(second + 1), y)]
    picture.lines([*points, (_x(END), bottom)], "thread", fill=True)
    picture.text(_x((DOWN + UP) / 2), top + 16, "all are down", "bad", anchor="middle")
