"""A bounded, deterministic explorer of thread schedules, for real code on real threads.

Exactly one thread of a model runs at a time. Wherever a watched file touches what may be shared,
another can be switched to; which one is a choice, and a schedule is its choices. All schedules
with up to so many preemptions are run, fewest first; where those are too many, a sample of them.

All objects of a model have the same claim: which ones share one would otherwise depend on their
addresses, and a claim that is taken inside another shows as a thread that waits for itself. A
thread that finds the claim taken gives way, which is no preemption.
"""

from __future__ import annotations

import gc
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from backoff_ticker._random import shared_random
from backoff_ticker.waiting import _claim
from tests.channels.explorer_points import switch_points
from tests.channels.explorer_schedule import Abandoned, Schedule
from tests.channels.explorer_waits import gate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from types import CodeType, FrameType

    from tests.channels.explorer_points import Grain

    Model = Callable[[Schedule], Callable[[], object] | None]

PATIENCE = 20.0
"""Real seconds after which a schedule hangs for a reason unknown to the explorer."""


class ScheduleFailure(AssertionError):
    """A schedule went wrong; the message tells how, and how to run it again."""


class Worker:
    """A thread that runs one body after the other, when told."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.go = gate()
        self.body: Callable[[], object] | None = None
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while True:
            self.go.acquire()
            if self.body is None:
                sys.settrace(None)  # CPython 3.12 crashes later on if a thread ends traced
                return
            # An exception out of the trace function ends the tracing of its thread.
            if sys.gettrace() is None:
                sys.settrace(self.explorer.enter)
            error: BaseException | None = None
            try:
                self.body()
            except Abandoned:
                pass
            except BaseException as raised:
                error = raised
            self.explorer.schedule.end(error)
            error = None


class Explorer:
    """Runs the schedules of models in one pool of threads.

    Args:
        watch: The files in which threads can be switched.
        grain: Where exactly: before each ``line`` or ``opcode`` that touches what may be shared,
            or, with ``call``, only where CPython with its lock switches threads: after calls, on
            entering a function, and between two turns of a loop.
    """

    def __init__(self, watch: Collection[str], grain: Grain = "line") -> None:
        self.watch = frozenset(watch)
        self.grain: Grain = grain
        self.workers: list[Worker] = []
        self.schedule: Schedule
        self._known: dict[CodeType, Any] = {}
        self._tracers: dict[int, tuple[CodeType, Any]] = {}

    def enter(self, frame: FrameType, event: str, argument: object) -> Any:
        """Trace function of all threads of the pool."""
        code = frame.f_code
        if code.co_filename not in self.watch:
            return None
        if self.grain != "line":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        known = self._tracers.get(id(code))
        if known is None:
            known = self._tracers[id(code)] = code, self._tracer(code)
        return known[1]

    def _tracer(self, code: CodeType) -> Any:
        points = switch_points(code, self.grain)
        by_line = self.grain == "line"

        def step(frame: FrameType, event: str, argument: object) -> Any:
            if by_line:
                if event == "line" and frame.f_lineno in points:
                    self.schedule.point(frame)
            elif event == "opcode" and frame.f_lasti in points:
                self.schedule.point(frame)
            return step

        return step

    def run(
        self,
        model: Model,
        choices: dict[int, int],
        bound: int,
        *,
        seed: int = 0,
        rate: float | None = None,
        keep_story: bool = False,
    ) -> Schedule:
        """Run one schedule to its end."""
        shared_random.__self__.seed(seed)
        schedule = self.schedule = Schedule(choices, bound, seed, rate, keep_story=keep_story)
        check = model(schedule)
        while len(self.workers) < len(schedule.members):
            self.workers.append(Worker(self))
        for worker, member in zip(self.workers, schedule.members, strict=False):
            worker.body, member.go = member.body, worker.go
        schedule.run(PATIENCE)
        if schedule.failure is not None:
            _claim._free_all()  # a thread that was abandoned in a change may hold it
        elif check is not None:
            try:
                check()
            except Exception as error:
                schedule.failure = f"{type(error).__name__}: {error}"
        return schedule

    def close(self) -> None:
        for worker in self.workers:
            worker.body = None
            worker.go.release()
        for worker in self.workers:
            worker.thread.join(PATIENCE)

    def fail(self, model: Model, failed: Schedule) -> None:
        """Run a failed schedule again, to tell its story."""
        again = self.run(model, failed.given(), failed.bound, seed=failed.seed, keep_story=True)
        same = again.failure == failed.failure
        raise ScheduleFailure(
            f"{failed.failure}\n"
            f"replay(model, watch, {failed.given()}, bound={failed.bound}, seed={failed.seed}, "
            f"grain={self.grain!r}); {failed.preemptions} preemptions"
            f"{'' if same else f', which then gave: {again.failure}'}\n{again.told_story()}"
        )


@contextmanager
def _exploring(watch: Collection[str], grain: Grain) -> Iterator[Explorer]:
    explorer = Explorer(watch, grain)
    kept = _claim._CLAIMS, _claim.let_other_threads_run
    _claim._CLAIMS = ({_claim.FREE: True},)
    _claim.let_other_threads_run = lambda: explorer.schedule.spin()
    gc.collect()
    gc.disable()
    try:
        yield explorer
    finally:
        _claim._CLAIMS, _claim.let_other_threads_run = kept
        shared_random.__self__.seed()
        gc.enable()
        explorer.close()


def explore(
    model: Model,
    watch: Collection[str],
    *,
    preemptions: int = 2,
    grain: Grain = "line",
    limit: int = 3000,
) -> int:
    """Run all schedules of a model with up to so many preemptions, or ``limit`` random ones.

    Args:
        model: Sets the stage, names the threads with ``schedule.thread()``, and returns what
            checks the outcome once all have ended.

    Returns:
        How many schedules were run.

    Raises:
        ScheduleFailure: One of them went wrong; of those found, one with fewest preemptions.
    """
    total = 0
    once = 1
    with _exploring(watch, grain) as explorer:
        for bound in range(preemptions + 1):
            # With each preemption their number grows by about the same factor.
            if bound > 1 and once * once // 2 > limit:
                return total + _sample(explorer, model, preemptions, limit)
            once, exhausted = _exhaust(explorer, model, bound, limit)
            total += once
            if not exhausted:
                return total + _sample(explorer, model, preemptions, limit)
    return total


def _exhaust(explorer: Explorer, model: Model, bound: int, limit: int) -> tuple[int, bool]:
    choices: dict[int, int] | None = {}
    for total in range(limit):
        if choices is None:
            return total, True
        schedule = explorer.run(model, choices, bound)
        if schedule.failure is not None:
            explorer.fail(model, schedule)
        choices = schedule.following()
        if total % 500 == 499:
            gc.collect()
    return limit, False


def _sample(explorer: Explorer, model: Model, bound: int, count: int) -> int:
    length = len(explorer.run(model, {}, bound).taken)
    for seed in range(1, count + 1):
        rate = bound / max(bound, length) * (0.5 + seed % 4)
        schedule = explorer.run(model, {}, bound, seed=seed, rate=rate)
        if schedule.failure is not None:
            explorer.fail(model, schedule)
        if seed % 500 == 499:
            gc.collect()
    return count


def replay(
    model: Model,
    watch: Collection[str],
    choices: dict[int, int],
    *,
    bound: int,
    seed: int = 0,
    grain: Grain = "line",
) -> Schedule:
    """Run one schedule again, as a failure told it; its story is kept."""
    with _exploring(watch, grain) as explorer:
        return explorer.run(model, choices, bound, seed=seed, keep_story=True)
