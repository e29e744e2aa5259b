"""Jitters side by side: where the delays before each retry fall, of many runs with one policy."""

import random
from itertools import islice

from backoff_ticker import (
    BackOff,
    DecorrelatedJitterBackOff,
    EqualJitterBackOff,
    ExponentialBackOff,
    FullJitterBackOff,
    TruncatedExponentialBackOff,
    delays,
)
from svg import Picture

TITLE = "Where the delays of 100 runs fall with several jitters"
RUNS, RETRIES, MOST = 100, 6, 30

LEFT, TOP, PANEL, ROW = 30, 68, 204, 146
HIGH = 84
HEIGHT = TOP + 3 * ROW - 14


def _policies(rng: random.Random) -> dict[tuple[str, str], BackOff]:
    """Return policies by class and jitter: all double one second, up to 20 s."""
    return {
        ("ExponentialBackOff", "no jitter: the interval"): ExponentialBackOff(1, 0, 2, 20, rng=rng),
        ("ExponentialBackOff", "0.5 to 1.5 times the interval"): ExponentialBackOff(
            1, 0.5, 2, 20, rng=rng
        ),
        ("TruncatedExponentialBackOff", "the interval and up to 1 s"): TruncatedExponentialBackOff(
            20, rng=rng
        ),
        ("FullJitterBackOff", "0 to the interval"): FullJitterBackOff(1, 20, rng),
        ("EqualJitterBackOff", "half the interval to all of it"): EqualJitterBackOff(1, 20, rng),
        ("DecorrelatedJitterBackOff", "1 s to 3 times the last delay"): DecorrelatedJitterBackOff(
            1, 20, rng
        ),
    }


def data() -> dict[tuple[str, str], list[list[float]]]:
    """Return the delays of each run with each policy."""
    policies = _policies(random.Random(1))
    return {
        name: [list(islice(delays(policy), RETRIES)) for _ in range(RUNS)]
        for name, policy in policies.items()
    }


def draw(picture: Picture, data: dict[tuple[str, str], list[list[float]]]) -> None:
    """Draw a panel for each policy: a dot for each delay."""
    picture.text(10, 22, "Seconds before retries 1 to 6, in 100 runs with each policy.", size=13)
    picture.text(10, 40, "The interval is 1 s, then 2, 4, 8, 16 and 20 s.", size=13)
    place = random.Random(2)
    for number, ((name, jitter), runs) in enumerate(data.items()):
        x = LEFT + number % 2 * (PANEL + 32)
        y = TOP + number // 2 * ROW
        picture.text(x - 20, y, name, mono=True, bold=True)
        picture.text(x - 20, y + 16, jitter, "faint")
        _panel(picture, x, y + 28 + HIGH, runs, place)


def _panel(
    picture: Picture, x: float, bottom: float, runs: list[list[float]], place: random.Random
) -> None:
    for seconds in range(0, MOST + 1, 10):
        y = bottom - seconds / MOST * HIGH
        picture.line(x, y, x + PANEL, y, "line")
        picture.text(x - 5, y + 4, str(seconds), "faint", size=11, anchor="end")
    column = PANEL / RETRIES
    for retry in range(RETRIES):
        left = x + retry * column
        points = [
            (left + (0.18 + 0.64 * place.random()) * column, bottom - run[retry] / MOST * HIGH)
            for run in runs
        ]
        picture.dots(points, "thread", size=2.2)
        picture.text(
            left + column / 2, bottom + 13, str(retry + 1), "faint", size=11, anchor="middle"
        )
