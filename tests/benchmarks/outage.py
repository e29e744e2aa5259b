"""A thousand callers, a service, and its outage: the load that retries make, with a budget or not.

980 coroutines and 20 threads make a request each 10 seconds or so. Each request is one call of the
service and up to four retries, after growing, jittered waits. The service answers 99 of 100 calls;
then, for two minutes, none; then as before. All on the virtual clock, with seeded generators: the
figures are the same each time, and another seed for each round. Run as
``python -m tests.benchmarks.outage`` from the project's root.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from backoff_ticker import (
    ExponentialBackOff,
    RetryBudget,
    retry_call,
    retry_call_async,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock
from tests.benchmarks._table import options, say, show

if TYPE_CHECKING:
    from collections.abc import Iterable

HEALTHY, OUTAGE, RECOVERY = "healthy", "outage", "recovery"
PAUSE = 10.0
"""Seconds between two requests of a caller, about."""

RETRIES = 4
FLAWS = 0.01
"""The share of calls that fail while the service is up."""

LATENCY = 0.05
WINDOW = 10.0
"""Counts are kept for so many seconds each."""


@dataclass(frozen=True)
class Plan:
    """Who calls, and for how many seconds the service is up, down, and up again."""

    seed: int
    tasks: int = 980
    threads: int = 20
    healthy: float = 60.0
    outage: float = 120.0
    recovery: float = 120.0

    @property
    def up_again(self) -> float:
        return self.healthy + self.outage

    @property
    def end(self) -> float:
        """When the last requests begin."""
        return self.up_again + self.recovery

    def phase(self, when: float) -> str:
        if when < self.healthy:
            return HEALTHY
        return RECOVERY if when >= self.up_again else OUTAGE


class Course:
    """What happened.

    Attributes:
        requests: Those that began in each window, each with its first call.
        calls: All calls that the service got in each window, retries included.
        answered: The requests of each window that succeeded in the end.
        retries: The calls that were not the first of a request.
        successes: The calls that succeeded.
        is_kept: Whether there was no retry that the promised budget does not allow.
        full_at: When the bucket was full again after the outage; None: never, or there is none.
    """

    def __init__(self, plan: Plan, budget: RetryBudget | None, promise: RetryBudget) -> None:
        self.plan, self.budget, self._promise = plan, budget, promise
        self.requests: Counter[int] = Counter()
        self.calls: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()
        self.retries = self.successes = 0
        self.is_kept = True
        self.full_at: float | None = None

    def of(self, phase: str, counts: Counter[int]) -> int:
        return sum(n for window, n in counts.items() if self.plan.phase(window * WINDOW) == phase)

    def most_retries(self) -> Fraction:
        """Return how many retries the promise allows beside the successes so far, exactly."""
        promise = self._promise
        most, ratio, cost = (
            Fraction(str(each))
            for each in (promise.max_tokens, promise.token_ratio, promise.retry_cost)
        )
        return (most + ratio * self.successes) / cost

    def figures(self) -> dict[str, float]:
        calls, requests = (self.of(OUTAGE, each) for each in (self.calls, self.requests))
        shares = {
            f"{phase}: % answered": 100 * self.of(phase, self.answered) / count
            for phase in (HEALTHY, OUTAGE, RECOVERY)
            if (count := self.of(phase, self.requests))
        }
        return {
            "requests (first calls)": self.requests.total(),
            "retries": self.retries,
            "retries in the outage": calls - requests,
            "calls a request in the outage": calls / requests,
            "calls a second before it": self.of(HEALTHY, self.calls) / self.plan.healthy,
            "most calls a second": max(self.calls.values()) / WINDOW,
            **shares,
        }


class Caller:
    """One who makes requests; each has a generator of its own, so that all is as the seed says."""

    def __init__(self, course: Course, clock: VirtualClock, number: int) -> None:
        self.course, self.plan, self.clock = course, course.plan, clock
        self.rng = random.Random(self.plan.seed * 1_000_003 + number)
        policy = ExponentialBackOff(max_interval=10, max_elapsed_time=None, rng=self.rng)
        self.policy = with_max_retries(policy, RETRIES)
        self.is_first = True

    def requests(self) -> Iterable[float]:
        """Yield the seconds until each request; on return a request begins, or it is too late."""
        yield self.rng.random() * PAUSE
        while self.clock.monotonic() < self.plan.end:
            yield self.rng.uniform(0.5, 1.5) * PAUSE

    def begin(self) -> int | None:
        """Begin a request, and return its window; None: it is too late for one."""
        now = self.clock.monotonic()
        if now >= self.plan.end:
            return None
        self.is_first = True
        self.course.requests[int(now // WINDOW)] += 1
        return int(now // WINDOW)

    def call(self) -> None:
        """Count a call as it reaches the service, and look whether it is one too many."""
        course = self.course
        course.calls[int(self.clock.monotonic() // WINDOW)] += 1
        course.retries += not self.is_first
        course.is_kept = course.is_kept and course.retries <= course.most_retries()
        self.is_first = False

    def answer(self) -> None:
        """Return as the service answers in the end, if it does."""
        is_down = self.plan.phase(self.clock.monotonic()) == OUTAGE
        if is_down or self.rng.random() < FLAWS:
            raise ConnectionError("no answer")
        self.course.successes += 1

    def done(self, window: int) -> None:
        """Count a request that had its answer, and look whether the bucket is full again."""
        course, budget, now = self.course, self.course.budget, self.clock.monotonic()
        course.answered[window] += 1
        if budget and course.full_at is None and now >= self.plan.up_again:
            course.full_at = now if budget.tokens == budget.max_tokens else None

    def in_thread(self) -> None:
        def call() -> None:
            self.call()
            self.clock.sleep(LATENCY)
            self.answer()

        for pause in self.requests():
            self.clock.sleep(pause)
            window = self.begin()
            if window is not None:
                try:
                    retry_call(call, self.policy, budget=self.course.budget)
                except ConnectionError:
                    continue
                self.done(window)

    async def in_task(self) -> None:
        async def call() -> None:
            self.call()
            await asyncio.sleep(LATENCY)
            self.answer()

        for pause in self.requests():
            await asyncio.sleep(pause)
            window = self.begin()
            if window is not None:
                try:
                    await retry_call_async(call, self.policy, budget=self.course.budget)
                except ConnectionError:
                    continue
                self.done(window)


def run(plan: Plan, budget: RetryBudget | None, promise: RetryBudget) -> Course:
    """Let all of them call.

    Nobody runs at the same moment as another, unless two times drawn are equal, so plain counters
    do.
    """
    course = Course(plan, budget, promise)
    with VirtualClock(auto=True) as clock:
        callers = [Caller(course, clock, number) for number in range(plan.threads + plan.tasks)]

        async def all_tasks() -> None:
            await asyncio.gather(*(caller.in_task() for caller in callers[plan.threads :]))

        threads = [clock.spawn(caller.in_thread) for caller in callers[: plan.threads]]
        asyncio.run(all_tasks())
        for thread in threads:
            thread.join()
    return course


def main() -> None:
    """Print the two ways side by side, and what came of the promise."""
    chosen = options(__doc__, rounds=1)
    small = {"tasks": 18, "threads": 2, "healthy": 20, "outage": 60, "recovery": 100}
    measured = []
    for seed in range(1, chosen.rounds + 1):
        plan = Plan(seed, **(small if chosen.quick else {}))
        budget = RetryBudget(max_tokens=5) if chosen.quick else RetryBudget()
        without, limited = run(plan, None, budget), run(plan, budget, budget)
        measured.append({"no budget": without.figures(), "one RetryBudget": limited.figures()})
        most = float(limited.most_retries())
        kept = "kept at each retry" if limited.is_kept else "BROKEN"
        say(f"{budget}, promise {kept}")
        say(f"{limited.retries:,} retries <= {most:,.1f} beside {limited.successes:,} successes")
        full_at = limited.full_at
        late = "never" if full_at is None else f"{full_at - plan.up_again:.1f} s after the outage"
        say(f"full again: {late}")
    show(f"{plan.tasks + plan.threads:,} callers", measured)


if __name__ == "__main__":
    main()
