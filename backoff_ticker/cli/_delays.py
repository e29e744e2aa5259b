"""The delays of a policy that nobody waits for, and their forms as data: JSON, CSV, lines."""

from __future__ import annotations

import csv
import io
import json
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..policies import (
    BackOffWrapper,
    RandomizedWrapper,
    draw_next,
    start_policy,
    successive_bounds,
)
from ._text import exact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..policies import BackOff, FrozenClock


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


def delays_of(policy: BackOff, count: int, clock: FrozenClock) -> list[Delay]:
    """Return the first ``count`` delays of a policy, fewer where it stops.

    Args:
        policy: Whose; a copy of it runs.
        count: How many at most.
        clock: What the policy measures elapsed time on; each delay moves it on.
    """
    run = start_policy("policy", policy, clock)
    return list(_delays(run, count, clock))


def _delays(run: BackOff, count: int, clock: FrozenClock) -> Iterator[Delay]:
    for retry, bounds in enumerate(islice(successive_bounds(run), count), 1):
        current = _interval_of(run)
        drawn = draw_next(run, clock)
        if drawn is None or bounds is None:
            return
        least, greatest = bounds
        interval = least + (greatest - least) / 2.0 if current is None else current
        yield Delay(retry, interval, least, greatest, drawn, clock.now)


def _interval_of(policy: BackOff) -> float | None:
    """Return the interval of a policy, or of the one inside its limits; None: it has none."""
    while isinstance(policy, BackOffWrapper) and not isinstance(policy, RandomizedWrapper):
        policy = policy.backoff
    interval: float | None = getattr(policy, "current_interval", None)
    return interval


def as_json(name: str, delays: list[Delay]) -> str:
    """Return ``{"policy": name, "delays": [...]}``."""
    return f"{json.dumps({'policy': name, 'delays': [delay._asdict() for delay in delays]})}\n"


def as_lines(delays: list[Delay]) -> str:
    """Return what was drawn, a line for each delay."""
    return "".join(f"{exact(delay.drawn)}\n" for delay in delays)


def as_csv(delays: list[Delay]) -> str:
    """Return a line of names and a line for each delay."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Delay._fields)
    writer.writerows(delays)
    return text.getvalue()
