"""The order in which schedules are run.

All with no preemption come first, then all with one, and so on: faults need few (M. Musuvathi and
S. Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", PLDI
2007). Where that would be too many, they are drawn: each thread has a priority of chance, the first
that can run does, and at d - 1 moments of chance whoever runs becomes the last (S. Burckhardt,
P. Kothari, M. Musuvathi, S. Nagarakatte, "A randomized scheduler with probabilistic guarantees of
finding bugs", ASPLOS 2010).
"""

from __future__ import annotations

from collections import deque
from math import prod
from typing import TYPE_CHECKING, Any

from ._schedule import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from ._schedule import Choose, Schedule

    Deviations = tuple[tuple[int, int], ...]

_MOST = 1e300  # that an estimate says, as no float is much more


def following(deviations: Deviations) -> Choose:
    """Return what chooses a known schedule."""
    chosen = dict(deviations)

    def choose(number: int, able: Sequence[Any], default: Any) -> Any:
        if number not in chosen:
            return default
        return next((one for one in able if one.number == chosen[number]), None)

    return choose


def drawing(random: Random, moments: int, decisions: int) -> Choose:
    """Return what draws a schedule in which priorities change at that many moments."""
    changes = {random.randrange(decisions): -moment for moment in range(1, moments + 1)}
    priorities: dict[int, float] = {}

    def choose(number: int, able: Sequence[Any], default: Any) -> Any:
        if isinstance(default, Option):
            return random.choice(able) if random.random() * decisions < moments else default
        for one in able:
            priorities.setdefault(one.number, random.random())
        if number in changes:
            priorities[default.number] = changes[number]
        return max(able, key=lambda one: priorities[one.number])

    return choose


class Tree:
    """All schedules with at most the given number of preemptions, in order.

    Each schedule but the first is another one and one more deviation, later than all of its own;
    so none comes twice.
    """

    def __init__(self, preemptions: int) -> None:
        self.bound: int = 0  # how many those have that come now
        self._levels: list[deque[Iterator[Deviations]]] = [deque() for _ in range(preemptions + 1)]
        self._sizes = [1] + [0] * preemptions
        self._levels[0].append(iter([()]))
        self._switches: list[int] = []
        self._orders: list[float] = []

    def left(self) -> int:
        """Return how many with this bound, or else the next, are known and have not come."""
        while not self._sizes[self.bound] and self.bound < len(self._sizes) - 1:
            self.bound += 1
        return self._sizes[self.bound]

    def next(self) -> Deviations:
        """Return one of those that are left."""
        groups = self._levels[self.bound]
        self._sizes[self.bound] -= 1
        while (found := next(groups[0], None)) is None:
            groups.popleft()
        return found

    def add(self, deviations: Deviations, run: Schedule) -> None:
        """Note the schedules that one which has run leads to."""
        first = deviations[-1][0] + 1 if deviations else 0
        kinds = [(len(others), preemptive) for others, preemptive in run.decisions]
        for kind in range(min(2, len(self._levels) - self.bound)):
            level = self.bound + kind
            able = [
                (number, others)
                for number, (others, preemptive) in enumerate(run.decisions)
                if number >= first and preemptive == kind
            ]
            if able:  # else nothing of it is kept
                self._sizes[level] += sum(len(others) for _, others in able)
                self._levels[level].append(
                    (*deviations, (number, other)) for number, others in able for other in others
                )
        self._switches.append(sum(count for count, preemptive in kinds if preemptive))
        self._orders.append(prod(count + 1.0 for count, preemptive in kinds if not preemptive))

    def estimate(self) -> float:
        """Return about how many schedules there are, if those that have run are like the others."""
        switches = sum(self._switches) / len(self._switches)
        found = part = sum(self._orders) / len(self._orders)
        known = len(self._orders) + sum(self._sizes)
        for count in range(1, len(self._levels)):
            part *= switches / count
            found += part
        return max(known, min(found, _MOST))


def shrunk(deviations: Deviations, fails: Callable[[Deviations], Deviations | None]) -> Deviations:
    """Return a failing schedule with as few deviations as leaving some out can find."""
    size = max(len(deviations) // 2, 1)
    while size:
        start = 0
        while start < len(deviations):
            fewer = fails(deviations[:start] + deviations[start + size :])
            if fewer is not None and len(fewer) < len(deviations):
                deviations = fewer
            else:
                start += size
        size //= 2
    return deviations
