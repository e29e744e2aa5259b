"""The delays of the policies side by side: one run of each, and how far its delays can go."""

import random
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import backoff_ticker as b
from svg import Picture

TITLE = "The first ten delays of the policies"
RETRIES, FAILURES, MOST = 10, 6, 30

LEFT, PANEL, SPACE = 30, 204, 30
TOP, HEADING, ROW, HIGH = 30, 54, 73, 38


class Run(NamedTuple):
    """The delays of a run, and the least and the greatest that each could have been."""

    delays: list[float]
    bounds: list[tuple[float, float]]
    is_fed: bool


def _plain(rng: random.Random) -> dict[str, Any]:
    """Return policies by how they are made, but for the generator."""
    return {
        "ConstantBackOff(5)": b.ConstantBackOff(5),
        "ExponentialBackOff()": b.ExponentialBackOff(rng=rng),
        "ZeroBackOff()": b.ZeroBackOff(),
        "FullJitterBackOff(1, 20)": b.FullJitterBackOff(1, 20, rng),
        "StopBackOff()": b.StopBackOff(),
        "EqualJitterBackOff(1, 20)": b.EqualJitterBackOff(1, 20, rng),
        "TruncatedExponentialBackOff(20)": b.TruncatedExponentialBackOff(20, rng=rng),
        "DecorrelatedJitterBackOff(1, 20)": b.DecorrelatedJitterBackOff(1, 20, rng),
    }


def _with_feedback(_rng: random.Random) -> dict[str, Any]:
    return {
        "ConstantFeedbackBackOff(5, 1)": b.ConstantFeedbackBackOff(5, 1),
        "LILDBackOff(2, 4, -5)": b.LILDBackOff(2, 4, -5),
        "ExponentialFeedbackBackOff(0.8)": b.ExponentialFeedbackBackOff(0.8),
        "LIMDBackOff(2, 4, 0.5)": b.LIMDBackOff(2, 4, 0.5),
        "FibonacciBackOff(2, 3)": b.FibonacciBackOff(2, 3),
        "MILDBackOff(2, 1.6, -5)": b.MILDBackOff(2, 1.6, -5),
        "MIMDBackOff(2, 1.6, 0.5)": b.MIMDBackOff(2, 1.6, 0.5),
    }


def _around_others(rng: random.Random) -> dict[str, Any]:
    p, q = b.TruncatedExponentialBackOff(16, 0), b.ConstantBackOff(20)
    return {
        "with_max_retries(p, 6)": b.with_max_retries(p, 6),
        'with_jitter(p, "full")': b.with_jitter(p, "full", rng),
        "with_max_elapsed_time(p, 20)": b.with_max_elapsed_time(p, 20),
        "with_added_jitter(p, 5)": b.with_added_jitter(p, 5, rng),
        "with_max_interval(p, 6)": b.with_max_interval(p, 6),
        "chain(with_max_retries(p, 6), q)": b.chain(b.with_max_retries(p, 6), q),
    }


SECTIONS: dict[str, tuple[Callable[[random.Random], dict[str, Any]], str]] = {
    "Without feedback": (_plain, "one delay after the other"),
    "With feedback": (_with_feedback, "after each of six failures, then of four successes"),
    "Around others": (
        _around_others,
        "p = TruncatedExponentialBackOff(16, 0), q = ConstantBackOff(20)",
    ),
}
ROWS = {section: (len(make(random.Random())) + 1) // 2 for section, (make, _) in SECTIONS.items()}
HEIGHT = TOP + sum(HEADING + ROW * rows for rows in ROWS.values())


def data() -> dict[str, dict[str, Run]]:
    """Return a run of each policy, in sections."""
    rng = random.Random(8)
    return {
        section: {name: _run(policy) for name, policy in make(rng).items()}
        for section, (make, _) in SECTIONS.items()
    }


def _run(policy: Any) -> Run:
    if isinstance(policy, b.AlgorithmBackOff):
        fed: Any = [policy.failure() if n < FAILURES else policy.success() for n in range(RETRIES)]
        return Run(fed, [(delay, delay) for delay in fed], is_fed=True)
    run = list(islice(b.delays(policy), RETRIES))
    return Run(run, [policy.bounds(n + 1) for n in range(len(run))], is_fed=False)


def draw(picture: Picture, data: dict[str, dict[str, Run]]) -> None:
    """Draw a panel for each policy."""
    picture.rect(10, 12, 12, 16, "thread", opacity=0.3)
    picture.dots([(16, 20)], "thread")
    picture.text(30, 24, "a delay in seconds, and its range", size=13)
    picture.crosses([(290, 20)], "wait", size=3)
    picture.text(302, 24, "STOP: no more retries", size=13)
    y = TOP
    for section, runs in data.items():
        picture.text(10, y + 24, section, bold=True, size=13)
        picture.text(10, y + 41, SECTIONS[section][1], "faint", size=11)
        for number, (name, run) in enumerate(runs.items()):
            x, top = LEFT + number % 2 * (PANEL + SPACE), y + HEADING + number // 2 * ROW
            picture.text(x - 20, top + 8, name, mono=True, size=11)
            _panel(picture, x, top + 22 + HIGH, run)
        y += HEADING + ROWS[section] * ROW


def _panel(picture: Picture, x: float, bottom: float, run: Run) -> None:
    scale, column = HIGH / MOST, PANEL / RETRIES
    for seconds in (0, 10, 20, MOST):
        y = bottom - seconds * scale
        picture.line(x, y, x + PANEL, y, "line")
    for seconds in (0, MOST):
        y = bottom - seconds * scale
        picture.text(x - 5, y + 4, str(seconds), "faint", size=11, anchor="end")
    for number, (least, greatest) in enumerate(run.bounds):
        if least < greatest:
            top, high = bottom - greatest * scale, (greatest - least) * scale
            picture.rect(x + number * column + 4, top, column - 8, high, "thread", opacity=0.3)
    points = [
        (x + (number + 0.5) * column, bottom - delay * scale)
        for number, delay in enumerate(run.delays)
    ]
    if run.is_fed:
        picture.dots(points[:FAILURES], "bad")
        picture.dots(points[FAILURES:], "good")
    elif points:
        picture.dots(points, "thread")
    if len(points) < RETRIES:
        picture.crosses([(x + (len(points) + 0.5) * column, bottom - 3)], "wait", size=3)
