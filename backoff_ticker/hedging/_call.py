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
from ._attempt import Attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Executor
    from typing import Any

    from ..retries import Run

_CUT_FOR = {StopReason.CANCELLED, StopReason.DEADLINE}


class HedgedCall:
    """One call; if ``run.awaits``, its attempts are tasks, which can be cut, else threads."""

    def __init__(self, run: Run, operation: Callable[[], Any], pool: Executor | None) -> None:
        self._run = run
        self._operation = operation
        self._pool = pool
        self._source = "the start of a thread" if pool is None else "the pool"  # for notes
        self._running: dict[Attempt, None] = {}  # whose end was not handled yet
        self._ended: Channel[Attempt] = Channel(float("inf"), clock=run.clock)  # as they end
        # A token that was cancelled before must not cut the first attempt.
        self._ignores_token: bool = run.token is not None and run.token.cancelled
        # When the next attempt starts, or why no other one does.
        self._next: float | StopReason = StopReason.CANCELLED if self._ignores_token else 0.0
        self._waits_too_long = False  # the next wait is longer than `max_elapsed_time` allows

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
            if (yield from self.finish(is_cut=reason in _CUT_FOR)):
                self._end(StopReason.SUCCEEDED)
        except Exception as failure:  # noqa: BLE001 - of the policy, the pool, or of what judges
            self._end(run.fail(failure))
            yield from self.finish()
        yield from conclude(run)

    def _end(self, reason: StopReason) -> None:
        run = self._run
        if reason is StopReason.MAX_ELAPSED_TIME and self._waits_too_long:
            run.is_waiting = True
        run.end(reason)
        if reason is StopReason.SUCCEEDED and run.options.budget is not None:
            run.options.budget.success()

    # The decisions

    def _plan(self, demand: Any) -> None:
        """Set when the next attempt is due: in some seconds, or as a policy says; None: its own."""
        run, reason = self._run, None
        if isinstance(demand, float):
            run.delay = demand
        else:
            reason = run.poll_policy(demand)
        due = later(run.clock.monotonic(), run.delay)
        if reason is None and run.latest_start is not None and due > run.latest_start:
            reason, self._waits_too_long = StopReason.MAX_ELAPSED_TIME, True
        self._next = due if reason is None else reason

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
        over, due = self._cut_for(), self._next
        if over is None and isinstance(due, float) and self._run.clock.monotonic() >= due:
            self._start()
        if over is None and not self._running and isinstance(self._next, StopReason):
            return self._next  # nothing runs that could end
        return over

    def _after_none(self, reason: StopReason, failure: Any) -> StopReason | None:
        """Decide what follows an attempt that was not made: by ``failure``, or no other starts."""
        if failure is not None:
            run = self._run
            run.failing_component = "the budget" if reason is StopReason.BUDGET else self._source
            return run.fail(failure)
        self._next = reason
        return None if self._running else self._cut_for() or reason

    def _after_failure(self, demand: Any) -> StopReason | None:  # noqa: PLR0911 - one for each rule
        """Decide what follows a failure, of which ``note_failure()`` returned ``demand``."""
        if demand is StopReason.CIRCUIT_OPEN and self._running:
            self._next = demand
            return None  # those that run have begun before, and may still succeed
        if isinstance(demand, StopReason):
            return demand
        run = self._run
        is_refused = isinstance(run.error, CircuitOpen)
        over = self._cut_for()
        if over is None and isinstance(self._next, float):
            if is_refused:
                # As planned, but not before the circuit lets calls through.
                planned = self._next - run.clock.monotonic()
                self._plan(max(planned, run.error.seconds or SHORTEST_REFUSAL))
            elif demand is None:
                self._start()
            else:
                self._plan(demand)
        if self._running:
            return None  # these may still succeed
        due = self._next
        if over is not None:
            return over
        if isinstance(due, StopReason):
            return due
        if run.deadline is None or due < run.deadline:
            return None
        run.delay, run.is_waiting = due - run.clock.monotonic(), True
        return StopReason.CIRCUIT_OPEN if is_refused else StopReason.DEADLINE

    # The way through the call

    def _start(self) -> None:
        """Start an attempt if the limits allow it, and set when the next one is due.

        The first attempt is always made; each other one asks the budget itself.
        """
        run = self._run
        reason = run.limit_reached() if run.attempts else None
        if reason is not None:
            self._next = reason
            return
        run.attempts += 1
        attempt = Attempt(run, self._operation, self._ended)
        name = f"{run.name}, {run.attempts}"
        if run.awaits:
            attempt.job = current_loop().create_task(attempt.make(), name=name)
        self._running[attempt] = None
        if run.awaits:
            attempt.job.add_done_callback(attempt.note_task)
        else:
            run.failing_component = self._source
            job = attempt.in_thread()
            next(job)
            call = partial(copy_context().run, next, job, None)
            if self._pool is None:
                start_thread(call, name)
            else:
                attempt.job = future = self._pool.submit(call)
                future.add_done_callback(attempt.note_future)
        if isinstance(self._next, float) and run.attempts == run.max_attempts:
            self._next = StopReason.MAX_ATTEMPTS
        if isinstance(self._next, float):
            self._plan(None)

    async def _next_end(self) -> Attempt | None:
        """Wait until an attempt has ended and return it; None if a limit or a start is due."""
        run, ended, awaits = self._run, self._ended, self._run.awaits
        limits = [limit for limit in (self._next, run.deadline) if isinstance(limit, float)]
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
            await checkpoint()  # lets tasks end that are done at the same moment,
            await checkpoint()  # and tell it
        return ended.receive_nowait() if len(ended) else None

    async def _handle(self, attempt: Attempt | None) -> StopReason | None:
        """Act on the end of an attempt, or None; return why the call is over, if it is."""
        if attempt is None or attempt not in self._running:
            return self._after_wait()
        run, error = self._run, attempt.error
        try:
            reason = self._cut_for() if attempt.obeyed else None
            self._forget(attempt)
            if reason is not None:
                return reason
            if error is not None and not isinstance(error, Exception):
                raise error
            if attempt.not_made is not None:
                return self._after_none(attempt.not_made, error)
            if error is not None:
                return self._after_failure(await note_failure(run, error))
            if await self._accepts(attempt.result):
                return StopReason.SUCCEEDED
            run.error = RejectedResult(run.result)
            return self._after_failure(None)
        finally:
            del error  # its traceback refers to this frame: a reference cycle

    async def _accepts(self, result: Any) -> bool:
        """Whether what an attempt returned is good; it is the result of the run then."""
        self._run.result = result
        return await accepts_result(self._run)

    # The end of attempts

    def _forget(self, attempt: Attempt) -> bool:
        """Note that the end of an attempt was handled; False: it was handled before."""
        attempt.token.cancel()
        attempt.error = None
        is_known = self._running.pop(attempt, self) is None
        self._run.attempts -= is_known and attempt.not_made is not None
        return is_known

    def dismiss(self) -> None:
        """Cancel the attempts; one that has not begun never begins. May be repeated."""
        awaits = self._run.awaits
        if not awaits:
            self._ended.close()
        for attempt in list(self._running):
            is_prevented, job = attempt.decide(begins=False), attempt.job
            self._run.attempts -= is_prevented
            # In a closed loop nobody goes on with a task, and cancel() would fail.
            if job is not None and (not job.get_loop().is_closed() if awaits else is_prevented):
                job.cancel()
            attempt.token.cancel("the hedged call has ended")

    async def finish(self, *, is_cut: bool = False) -> bool:
        """Dismiss all attempts, and wait until tasks have ended. May be repeated.

        Returns:
            Whether an attempt has ended well in spite of a cut.
        """
        self.dismiss()
        awaits, ended, came = self._run.awaits, self._ended, False
        tasks = [each for each in self._running if awaits and each.job is not None]
        for attempt in tasks:
            # Again: an interrupt can have prevented it, or that the callback told the end.
            attempt.job.add_done_callback(attempt.note_task)
        try:
            while len(ended) or any(each.job is not None for each in tasks):
                attempt = await ended.receive_async() if awaits else ended.receive_nowait()
                is_good = attempt.error is None and attempt.not_made is None and not attempt.obeyed
                if self._forget(attempt) and is_good and is_cut and not came:
                    came = await self._accepts(attempt.result)
        except cancelled_error():
            await self.finish()
            raise
        return came
