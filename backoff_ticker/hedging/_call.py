"""One hedged call: when its attempts start, what ends it, and how."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from types import coroutine

from .._errors import CircuitOpen, RejectedResult
from ..channels import Channel, block_on, select_async
from ..clock import later, start_thread
from ..retries import SHORTEST_REFUSAL, StopReason, accepts_result, conclude, note_failure
from ..waiting import NO_DEADLINE, cancelled_error, checkpoint, current_loop
from ._attempt import Attempt, NotMade

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Executor
    from typing import Any

    from ..retries import Run

_CUT_FOR = {StopReason.CANCELLED, StopReason.DEADLINE}


class HedgedCall:
    """One call; if ``run.awaits``, its attempts are tasks, which can be cut, else threads.

    Attributes:
        running: The attempts whose end was not handled yet.
    """

    def __init__(self, run: Run, operation: Callable[[], Any], pool: Executor | None) -> None:
        self.running: dict[Attempt, None] = {}
        self._run = run
        self._operation = operation
        self._pool = pool
        self._source = "the start of a thread" if pool is None else "the pool"  # for notes
        self._ended: Channel[Attempt] = Channel(float("inf"), clock=run.clock)  # as they end
        self._due: float | None = None  # when the next attempt starts
        self._no_more: StopReason | None = None  # why no other one starts
        self._too_long: float = 0.0  # a wait that `max_elapsed_time` did not allow
        # A token that was cancelled before must not cut the first attempt.
        self._ignores_token: bool = run.token is not None and run.token.cancelled
        if self._ignores_token:
            self._no_more = StopReason.CANCELLED

    @coroutine  # not async: Python would warn if an interrupt kept it from its first step
    def perform(self) -> Generator[Any, Any, None]:
        """Bring the call to its end: to ``run.final``, the error to raise, or ``run.result``.

        A thread runs it to its end by one ``next()``: where a coroutine awaits, a thread calls.
        """
        run = self._run
        reason: StopReason | None = None
        try:
            self._start()
            while reason is None:
                reason = yield from self._handle((yield from self._next_end()))
            self._end(reason)
            if reason in _CUT_FOR and (yield from self._succeeds_late()):
                self._end(StopReason.SUCCEEDED)
        except Exception as failure:  # noqa: BLE001 - of the policy, the pool, or of what judges
            self._end(run.fail(failure))
        yield from self.finish()
        yield from conclude(run)

    def _end(self, reason: StopReason) -> None:
        run = self._run
        if reason is StopReason.MAX_ELAPSED_TIME and self._too_long:
            run.delay, run.is_waiting = self._too_long, True
        run.end(reason)
        if reason is StopReason.SUCCEEDED and run.options.budget is not None:
            run.options.budget.success()

    # The decisions

    def _start(self) -> None:
        """Start an attempt, and set when the next one is due."""
        run = self._run
        run.attempts += 1
        self._launch()
        self._due = None
        if self._no_more is None and run.attempts == run.max_attempts:
            self._no_more = StopReason.MAX_ATTEMPTS
        if self._no_more is None:
            self._plan(None)

    def _plan(self, demand: Any) -> None:
        """Set when the next attempt is due: in some seconds, or as a policy says; None: its own."""
        run = self._run
        self._due = None
        if isinstance(demand, float):
            run.delay = demand
        else:
            self._no_more = run.poll_policy(demand)
        if self._no_more is None:
            self._due = later(run.clock.monotonic(), run.delay)
            if run.latest_start is not None and self._due > run.latest_start:
                self._start_no_more(StopReason.MAX_ELAPSED_TIME)
                self._too_long = run.delay

    def _start_no_more(self, reason: StopReason) -> None:
        self._no_more, self._due = reason, None

    def _start_another(self) -> None:
        """Start an attempt that is due, if the limits and the budget allow it."""
        run, options = self._run, self._run.options
        reason = run.limit_reached()
        if reason is None and options.budget is not None and not options.awaits_budget:
            run.failing_component = "the budget"  # an attempt asks one that is awaited itself
            reason = None if options.budget.try_acquire() else StopReason.BUDGET
        if reason is None:
            self._start()
        else:
            self._start_no_more(reason)

    def _cut_for(self) -> StopReason | None:
        """Return why no attempt may run any more; None if they may."""
        run = self._run
        if self._ignores_token:
            is_late = run.deadline is not None and run.clock.monotonic() >= run.deadline
            return StopReason.DEADLINE if is_late else None
        reason = run.limit_reached()
        return reason if reason in _CUT_FOR else None

    def _after_wait(self) -> StopReason | None:
        """Start the attempt that is due; return why the call is over, None if it is not."""
        over = self._cut_for()
        if over is None and self._due is not None and self._run.clock.monotonic() >= self._due:
            self._start_another()
            if not self.running:
                return self._no_more  # nothing runs that could end
        return over

    def _after_none(self, reason: StopReason, failure: Any) -> StopReason | None:
        """Decide what follows an attempt that was not made: by ``failure``, or no other starts."""
        run = self._run
        run.attempts -= 1
        if failure is not None:
            run.failing_component = "the budget" if reason is StopReason.BUDGET else self._source
            return run.fail(failure)
        self._start_no_more(reason)
        return None if self.running else self._cut_for() or reason

    def _after_failure(self, demand: Any) -> StopReason | None:
        """Decide what follows a failure, of which ``Run.note_failure()`` returned ``demand``."""
        if demand is StopReason.CIRCUIT_OPEN and self.running:
            self._start_no_more(demand)
            return None  # those that run have begun before, and may still succeed
        if isinstance(demand, StopReason):
            return demand
        run = self._run
        is_refused = isinstance(run.error, CircuitOpen)
        over = self._cut_for()
        if over is None and self._no_more is None:
            if is_refused and self._due is not None:
                # As planned, but not before the circuit lets calls through.
                planned = self._due - run.clock.monotonic()
                self._plan(max(planned, run.error.seconds or SHORTEST_REFUSAL))
            elif demand is None:
                self._start_another()
            else:
                self._plan(demand)
        if self.running:
            return None  # these may still succeed
        due = self._due
        if over is None and due is not None and run.deadline is not None and due >= run.deadline:
            run.delay, run.is_waiting = due - run.clock.monotonic(), True
            over = StopReason.CIRCUIT_OPEN if is_refused else StopReason.DEADLINE
        return over or self._no_more

    # The way through the call

    async def _next_end(self) -> Attempt | None:
        """Wait until an attempt has ended and return it; None if a limit or a start is due."""
        run, ended, awaits = self._run, self._ended, self._run.awaits
        limits = [limit for limit in (self._due, run.deadline) if limit is not None]
        timeout = max(0.0, min(limits) - run.clock.monotonic()) if limits else None
        sources: tuple[Any, ...] = (ended,)
        if run.token is not None and not self._ignores_token:
            sources = ended, run.token
        try:
            if awaits:
                source, value = await select_async(*sources, timeout=timeout)
            else:
                seconds = NO_DEADLINE if timeout is None else timeout
                found = block_on(("hedge_call()", ""), sources, seconds)
                source, value = found.chosen, found.value
        except TimeoutError:
            source = None
        if source is ended:
            return value  # type: ignore[no-any-return]
        if awaits:
            await checkpoint()  # lets tasks end that are done at the same moment
            for attempt in self.running:
                if attempt.job is not None and attempt.job.done():
                    attempt.note_task(attempt.job)
        return ended.receive_nowait() if len(ended) else None

    async def _handle(self, attempt: Attempt | None) -> StopReason | None:
        """Act on the end of an attempt, or None; return why the call is over, if it is."""
        if attempt is None or attempt not in self.running:
            return self._after_wait()
        run = self._run
        error = attempt.take_error()
        try:
            reason = self._cut_for() if attempt.obeyed else None
            self.forget(attempt)
            if reason is not None:
                return reason
            if error is None:
                if await self._accepts(attempt.result):
                    return StopReason.SUCCEEDED
                run.error = RejectedResult(run.result)
                return self._after_failure(None)
            if isinstance(error, NotMade):
                return self._after_none(error.reason, error.__cause__)
            if not isinstance(error, Exception):
                raise error
            demand = await note_failure(run, error)
            return self._after_failure(demand)
        finally:
            del error  # its traceback refers to this frame: a reference cycle

    async def _accepts(self, result: Any) -> bool:
        """Whether what an attempt returned is good; it is the result of the run then."""
        self._run.result = result
        return await accepts_result(self._run)

    async def _succeeds_late(self) -> bool:
        """Whether an attempt has ended with a good result, or does so in spite of a cut."""
        awaits, ended, came = self._run.awaits, self._ended, False
        if awaits:
            self.dismiss()
        while not came and (len(ended) or (awaits and self.running)):
            attempt = await ended.receive_async() if awaits else ended.receive_nowait()
            if self.forget(attempt) and attempt.take_error() is None and not attempt.obeyed:
                came = await self._accepts(attempt.result)
        return came

    def _launch(self) -> None:
        """Start attempt number ``run.attempts``, and do not wait for it."""
        run, pool = self._run, self._pool
        attempt = Attempt(run, self._operation, self._ended)
        name = f"{run.name}, {run.attempts}"
        if run.awaits:
            attempt.job = current_loop().create_task(attempt.make(), name=name)
        self.running[attempt] = None
        if run.awaits:
            attempt.job.add_done_callback(attempt.note_task)
            return
        run.failing_component = self._source
        job = attempt.in_thread()
        next(job)
        call = partial(copy_context().run, next, job, None)
        try:
            if pool is None:
                start_thread(call, name)
            else:
                attempt.job = future = pool.submit(call)
                future.add_done_callback(attempt.note_future)
        except Exception:
            run.attempts -= attempt.withdraw()
            raise

    # The end of attempts

    def forget(self, attempt: Attempt) -> bool:
        """Note that the end of an attempt was handled; False: it was handled before."""
        attempt.token.cancel()
        return self.running.pop(attempt, self) is None

    def _drop(self, attempt: Attempt) -> None:
        self.forget(attempt)
        self._run.attempts -= isinstance(attempt.take_error(), NotMade)

    def dismiss(self) -> None:
        """Cancel the attempts; one that has not begun never begins. May be repeated."""
        awaits, ended = self._run.awaits, self._ended
        if not awaits:
            ended.close()
            while len(ended):
                self._drop(ended.receive_nowait())
        for attempt in list(self.running):
            is_prevented, job = attempt.withdraw(), attempt.job
            self._run.attempts -= is_prevented
            if not awaits:
                attempt.token.cancel("the hedged call has ended")
            # In a closed loop nobody goes on with a task, and cancel() would fail.
            if job is not None and (not job.get_loop().is_closed() if awaits else is_prevented):
                job.cancel()

    async def finish(self) -> None:
        """Dismiss all attempts, and wait until tasks have ended. May be repeated."""
        self.dismiss()
        if not self._run.awaits:
            return
        for attempt in self.running:
            # Again: an interrupt can have prevented it, or that the callback told the end.
            if attempt.job is not None:
                attempt.job.add_done_callback(attempt.note_task)
        try:
            while len(self._ended) or any(attempt.job is not None for attempt in self.running):
                await self._ended.receive_async()
        except cancelled_error():
            await self.finish()
            raise
        for attempt in list(self.running):
            self._drop(attempt)
