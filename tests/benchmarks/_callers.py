"""Callers of a service that has an outage, in coroutines and threads, on the virtual clock."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from backoff_ticker import ExponentialBackOff, retry_call, retry_call_async, with_max_retries
from backoff_ticker.testing import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backoff_ticker import BackOff, RetryBudget

HEALTHY, OUTAGE, RECOVERY = "healthy", "outage", "recovery"


@dataclass(frozen=True)
class Plan:
    """Who calls, how often, and how the service answers.

    Attributes:
        tasks: Callers that are coroutines.
        threads: Callers that are threads.
        healthy: Seconds at first in which the service is up.
        outage: Seconds after that in which no call succeeds.
        recovery: Seconds after that in which it is up again; 0: it stays down.
        pause: Seconds between two requests of a caller, about.
        retries: How often a caller tries a request again, at the most.
        flaws: The share of calls that fail while the service is up.
        latency: Seconds that a call takes.
        window: Counts are kept for so many seconds each.
        seed: Of all that is drawn.
    """

    tasks: int = 980
    threads: int = 20
    healthy: float = 60.0
    outage: float = 120.0
    recovery: float = 120.0
    pause: float = 10.0
    retries: int = 4
    flaws: float = 0.01
    latency: float = 0.05
    window: float = 10.0
    seed: int = 1

    @property
    def up_again(self) -> float:
        """When the outage ends."""
        return self.healthy + self.outage

    @property
    def end(self) -> float:
        """When the last requests begin."""
        return self.up_again + self.recovery

    def phase(self, when: float) -> str:
        """Return what the service does at that time."""
        if when < self.healthy:
            return HEALTHY
        return RECOVERY if when >= self.up_again and self.recovery else OUTAGE


@dataclass
class Count:
    """What was counted in a time.

    Attributes:
        requests: Those that began in it, each with its first call.
        calls: All calls that the service got in it, retries included.
        answered: The requests of that time that succeeded in the end.
        tokens: What the bucket held at the end of it.
    """

    requests: int = 0
    calls: int = 0
    answered: int = 0
    tokens: float | None = None

    @property
    def retries(self) -> int:
        """The calls that were not the first of a request."""
        return self.calls - self.requests

    @property
    def load(self) -> float:
        """The calls that the service got for each request."""
        return self.calls / self.requests

    @property
    def share(self) -> float:
        """The share of the requests that succeeded in the end."""
        return self.answered / self.requests

    @classmethod
    def sum(cls, counts: Iterable[Count]) -> Count:
        """Return all of them together."""
        total = cls()
        for each in counts:
            total.requests += each.requests
            total.calls += each.calls
            total.answered += each.answered
        return total


@dataclass
class Course:
    """What happened.

    Attributes:
        plan: By which it happened.
        promise: The budget whose promise is looked at, whether it is used or not.
        by_window: Counts by the number of the window.
        broken_at: When a retry was made that the budget promises not to make; None: never.
        full_at: When the bucket was full again after the outage; None: never, or there is none.
        since_full: Counts of the time after that.
    """

    plan: Plan
    promise: RetryBudget
    by_window: dict[int, Count] = field(default_factory=lambda: defaultdict(Count))
    broken_at: float | None = None
    full_at: float | None = None
    since_full: Count = field(default_factory=Count)
    _retries: int = 0
    _successes: int = 0

    def of(self, phase: str) -> Count:
        """Return the counts of a phase."""
        plan = self.plan
        return Count.sum(
            count for n, count in self.by_window.items() if plan.phase(n * plan.window) == phase
        )

    @property
    def total(self) -> Count:
        """The counts of all the time."""
        return Count.sum(self.by_window.values())

    def most_retries(self, successes: int) -> Fraction:
        """Return how many retries the budget allows beside so many successes, exactly."""
        promise = self.promise
        most, ratio, cost = (
            Fraction(str(each))
            for each in (promise.max_tokens, promise.token_ratio, promise.retry_cost)
        )
        return (most + ratio * successes) / cost

    def called(self, now: float, *, again: bool) -> None:
        """Count a call, and look whether it is one too many."""
        self.by_window[int(now // self.plan.window)].calls += 1
        self._retries += again
        if self.broken_at is None and self._retries > self.most_retries(self._successes):
            self.broken_at = now

    def succeeded(self) -> None:
        """Count a call that succeeded."""
        self._successes += 1


class _Caller:
    """One who makes requests; each has a generator of its own, so that all is as the seed says."""

    def __init__(self, course: Course, clock: VirtualClock, number: int) -> None:
        self.course, self.plan, self.clock = course, course.plan, clock
        self.rng = random.Random(self.plan.seed * 1_000_003 + number)
        self.policy: BackOff = with_max_retries(
            ExponentialBackOff(max_interval=10, max_elapsed_time=None, rng=self.rng),
            self.plan.retries,
        )
        self.calls = 0

    def pauses(self) -> Iterable[float]:
        """Yield the seconds until each request, for as long as there are any."""
        yield self.rng.random() * self.plan.pause
        while self.clock.monotonic() < self.plan.end:
            yield self.rng.uniform(0.5, 1.5) * self.plan.pause

    def begin(self) -> list[Count] | None:
        """Return where the request is to be counted; None: it is too late for one."""
        now = self.clock.monotonic()
        if now >= self.plan.end:
            return None
        counts = [self.course.by_window[int(now // self.plan.window)]]
        if self.course.full_at is not None:
            counts.append(self.course.since_full)
        for count in counts:
            count.requests += 1
        self.calls = 0
        return counts

    def call(self) -> None:
        """Count a call as it reaches the service."""
        self.course.called(self.clock.monotonic(), again=self.calls > 0)
        self.calls += 1

    def answer(self) -> str:
        """Return what the service answers in the end, if it does."""
        now = self.clock.monotonic()
        if self.plan.phase(now) == OUTAGE or self.rng.random() < self.plan.flaws:
            raise ConnectionError("no answer")
        self.course.succeeded()
        return "done"

    def done(self, counts: list[Count], budget: RetryBudget | None) -> None:
        """Count a request that had its answer."""
        for count in counts:
            count.answered += 1
        now, course = self.clock.monotonic(), self.course
        if (
            budget is not None
            and course.full_at is None
            and now >= self.plan.up_again
            and budget.tokens == budget.max_tokens
        ):
            course.full_at = now


def _in_thread(caller: _Caller, budget: RetryBudget | None) -> None:
    def call() -> str:
        caller.call()
        caller.clock.sleep(caller.plan.latency)
        return caller.answer()

    for pause in caller.pauses():
        caller.clock.sleep(pause)
        counts = caller.begin()
        if counts is not None:
            try:
                retry_call(call, caller.policy, budget=budget)
            except ConnectionError:
                continue
            caller.done(counts, budget)


async def _in_task(caller: _Caller, budget: RetryBudget | None) -> None:
    async def call() -> str:
        caller.call()
        await asyncio.sleep(caller.plan.latency)
        return caller.answer()

    for pause in caller.pauses():
        await asyncio.sleep(pause)
        counts = caller.begin()
        if counts is not None:
            try:
                await retry_call_async(call, caller.policy, budget=budget)
            except ConnectionError:
                continue
            caller.done(counts, budget)


def run(plan: Plan, budget: RetryBudget | None, promise: RetryBudget | None = None) -> Course:
    """Let all of them call.

    Nobody runs at the same moment as another, unless two times drawn are equal, so plain counters
    do.

    Args:
        plan: What happens.
        budget: What all callers share; None: nothing.
        promise: The budget whose promise is looked at; None: ``budget``.
    """
    course = Course(plan, promise or budget)
    with VirtualClock(auto=True) as clock:

        async def look() -> None:
            number = 0
            while (until := (number + 1) * plan.window) <= plan.end:
                await asyncio.sleep(until - clock.monotonic())
                course.by_window[number].tokens = budget.tokens
                number += 1

        async def all_tasks() -> None:
            async with asyncio.TaskGroup() as group:
                if budget is not None:
                    group.create_task(look())
                for number in range(plan.tasks):
                    caller = _Caller(course, clock, plan.threads + number)
                    group.create_task(_in_task(caller, budget))

        threads = [
            clock.spawn(_in_thread, _Caller(course, clock, number), budget)
            for number in range(plan.threads)
        ]
        asyncio.run(all_tasks())
        for thread in threads:
            thread.join()
    return course
