"""``simulate contention``: clients that all want to write the same row, as in AWS's simulator.

Each client reads the version of the row, then writes it with that version; a write fails if
another one came in between, and the client backs off and reads again. Each message takes a time of
its own; the row answers at once.

Source: https://github.com/aws-samples/aws-arch-backoff-simulator. It has an event for each message.
Here there is one for each write, in the order in which they arrive: that order decides which
succeed, since a write succeeds if none has since the row was read for it. Two messages in a row are
one draw: the sum of two normal numbers is a normal number.
"""

from __future__ import annotations

import random
from heapq import heapify, heappop, heapreplace
from math import cos, log, pi, sin, sqrt
from sys import float_info
from typing import TYPE_CHECKING, NamedTuple

from .._sentinels import STOP
from ..policies import FrozenClock, draw_next, start_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..policies import BackOff
    from ._policy_names import PolicyArgument

_DEVIATION = 0.2
"""The standard deviation of the time that a message takes, by its mean."""


class Contention(NamedTuple):
    """What clients with one policy need until all have written, in means over the trials.

    ``calls`` are the writes that were tried, ``time`` the seconds until the last client has ended.
    """

    clients: int
    policy: str
    calls: float
    time: float
    gave_up: float


class Crowd(NamedTuple):
    """The options of the command: numbers of clients, how often each is repeated, the latency."""

    clients: Sequence[int]
    trials: int
    latency: float


def simulate_contention(
    policies: Sequence[PolicyArgument],
    crowd: Crowd,
    seed: int | None,
    progress: Callable[[float], object],
) -> list[Contention]:
    """Return a row for each number of clients and each policy; a row depends on no other."""
    rows = []
    trials = crowd.trials
    done, all_work = 0, len(policies) * trials * sum(count**2 for count in crowd.clients)
    for count in crowd.clients:
        for policy in policies:
            rng, clock = random.Random(seed), FrozenClock()  # noqa: S311 - no secret
            made = policy.make(rng, clock)
            runs = [start_policy("policy", made, clock) for _ in range(count)]
            calls = gave_up = 0
            time = 0.0
            for _ in range(trials):
                called, seconds, failed = _trial(runs, clock, rng, crowd.latency)
                calls, gave_up = calls + called, gave_up + failed
                time += seconds / trials  # no sum overflows
                done += count**2
                progress(done / all_work)
            rows.append(Contention(count, policy.label, calls / trials, time, gave_up / trials))
    return rows


def _trial(
    runs: Sequence[BackOff], clock: FrozenClock, rng: random.Random, latency: float
) -> tuple[int, float, int]:
    """Return the calls, the time of the end, and how many clients gave up.

    ``runs`` has the started policy of each client; ``clock`` is what they read the time from.
    """
    deviation = latency * _DEVIATION
    both_ways, spread, turn = 2.0 * latency, sqrt(2.0) * deviation, 2.0 * pi
    uniform, gauss = rng.random, rng.gauss
    clock.now = 0.0
    queue = []  # of clients: when the write arrives, when the row was read for it, the number
    for number, run in enumerate(runs):
        run.reset()
        read = abs(gauss(latency, deviation))
        queue.append((read + abs(gauss(both_ways, spread)), read, number))
    heapify(queue)
    written_at = -1.0
    calls = gave_up = 0
    end = 0.0
    while queue:
        arrived, read, number = queue[0]
        calls += 1
        if written_at <= read:
            written_at = arrived
        else:
            clock.now = arrived + latency
            delay = draw_next(runs[number], clock)
            if delay is not STOP:
                # Two normal numbers by Box and Muller: the answer and the next read; then the
                # answer to that and the next write.
                length, angle = spread * sqrt(-2.0 * log(1.0 - uniform())), turn * uniform()
                read = arrived + delay + abs(both_ways + length * cos(angle))
                heapreplace(queue, (read + abs(both_ways + length * sin(angle)), read, number))
                continue
            gave_up += 1
        heappop(queue)
        end = max(end, arrived + abs(gauss(latency, deviation)))
    return calls, min(end, float_info.max), gave_up
