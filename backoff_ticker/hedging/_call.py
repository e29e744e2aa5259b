"""One hedged call and its attempts, in tasks or in threads."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from types import CoroutineType, coroutine

from .._errors import BackoffTickerError, Cancelled, ChannelClosed, Permanent, RejectedResult
from .._operation import coroutine_returned, is_awaitable, not_awaitable
from ..channels import Channel, block_on, select_async
from ..clock import start_thread
from ..retries import Awaiting, StopReason, concluded, show_attempt, token_of_attempts
from ..waiting import (
    FREE,
    NO_DEADLINE,
    acquire,
    cancelled_error,
    checkpoint,
    claim_of,
    complete,
    current_loop,
)
from ._hedging import Hedging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Generator
    from concurrent.futures import Executor, Future
    from typing import Any

    from ..cancellation import CancellationToken
    from ..retries import Run


_CUT_FOR = {StopReason.CANCELLED, StopReason.DEADLINE}


class NotMade(BackoffTickerError):
    """Ends an attempt that is not made after all; its cause is the error that prevented it."""

    def __init__(self, reason: StopReason) -> None:
        self.reason: StopReason = reason


class Attempt:
    """One attempt, where it is made and for the caller.

    It refers to no frame of the caller, which may return before an attempt in a thread ends.

    Attributes:
        is_late: Whether a thread returned it after ``token`` was cancelled: perhaps just as told.
    """

    def __init__(self, run: Run, operation: Callable[[], Any], ended: Channel[Attempt]) -> None:
        self._run = run
        self._operation = operation
        self._ended = ended
        self._number = run.attempts
        self._asks_budget: bool = run.attempts > 1 and run.options.awaits_budget
        self._is_paid: bool = run.attempts > 1 and not self._asks_budget
        self._error: Any = None
        self.is_begun: bool | None = None  # None: whether it is made is not decided
        self.job: Any = None  # its task, or its future in a pool, until its end was told
        # Cancelled when the attempt has ended, and when the call has.
        self.token: CancellationToken = token_of_attempts(run)
        self.result: Any = None
        self.is_late: bool = False

    async def make(self) -> None:
        """Make the attempt, unless it was withdrawn, and keep how it ended."""
        if not self._take(begins=True):
            return
        try:
            show_attempt(self._run, self._number, self.token)
            if self._asks_budget:
                await self._pay()
            # Not raised: a coroutine cannot raise the StopIteration of an operation.
            self._error = await self._call_through(self._run.options.breaker)
        except BaseException as error:
            self._error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self._refund()

    async def _pay(self) -> None:
        run, budget = self._run, self._run.options.budget
        try:
            self._is_paid = await budget.try_acquire_async() if run.awaits else budget.try_acquire()
        except Exception as failure:
            raise NotMade(StopReason.BUDGET) from failure
        # The answer may have taken long.
        reason = run.limit_reached() if self._is_paid else StopReason.BUDGET
        if reason is not None:
            raise NotMade(reason)

    async def _call(self) -> Exception | None:
        """Call the operation and keep its result; return its error."""
        run = self._run
        # Right before the call: later than that, nothing can prevent it.
        if self._number > 1 and self.token.cancelled:
            return NotMade(StopReason.CANCELLED)
        self._is_paid = False
        try:
            result = self._operation()
            if run.awaits:
                if not is_awaitable(result):
                    return Permanent(not_awaitable(run.name, result))
                result = await result
        except Exception as error:  # noqa: BLE001 - the caller decides about it
            return error
        if result.__class__ is CoroutineType and not run.awaits:
            wrong = coroutine_returned(run.name, result, "use await hedge_call_async()")
            return Permanent(wrong)
        self.result = result
        self.is_late = self.token.cancelled and not run.awaits
        return None

    async def _call_through(self, breaker: Any) -> Exception | None:
        if breaker is None:
            return await self._call()
        ticket = breaker.allow()
        try:
            error = await self._call()
            if isinstance(error, NotMade) or self.ends_as_told(error):
                breaker.release(ticket)  # it says nothing about the service
            else:
                breaker.record(ticket, error)
        except BaseException:
            complete(breaker.release, ticket)  # no effect if the result was counted
            raise
        return error

    def ends_as_told(self, error: BaseException | None) -> bool:
        """Whether ``error`` says that the token of this attempt was cancelled."""
        return isinstance(error, Cancelled) and self.token.cancelled

    def tell(self, error: BaseException | None = None) -> None:
        """Tell the caller that it has ended, by ``error`` if that is given."""
        if error is not None:
            self._error = error
        try:
            self._ended.send_nowait(self)
        except ChannelClosed:
            self._error = None  # its traceback refers to this attempt: a reference cycle

    def tell_if_not_begun(self, cause: BaseException) -> None:
        """Tell the caller what has prevented the attempt, unless it has begun or was withdrawn."""
        if self.withdraw():
            if isinstance(cause, GeneratorExit):  # of a generator that was dropped
                cause = RuntimeError("no thread has made the attempt")
            error = NotMade(StopReason.FAILED)
            error.__cause__ = cause
            self.tell(error if isinstance(cause, Exception) else cause)

    def take_error(self) -> Any:
        """Return what it raised, and forget it."""
        error, self._error = self._error, None
        return error

    def withdraw(self) -> bool:
        """Prevent an attempt that has not begun; True if this is what prevented it."""
        prevented = self._take(begins=False)
        if prevented:
            self._refund()
        return prevented

    def _take(self, *, begins: bool) -> bool:
        """Whether it is this call that decides whether the attempt is made: the first one."""
        claim = claim_of(self)
        acquire(claim)
        try:
            is_first = self.is_begun is None
            if is_first:
                self.is_begun = begins
        finally:
            claim[FREE] = True
        return is_first

    def _refund(self) -> None:
        budget, is_paid, self._is_paid = self._run.options.budget, self._is_paid, False
        if is_paid and budget is not None:
            budget.release()


class HedgedCall(Hedging):
    """One call; if ``run.awaits``, its attempts are tasks, which can be cut, else threads."""

    def __init__(self, run: Run, operation: Callable[[], Any], pool: Executor | None) -> None:
        super().__init__(run, "the start of a thread" if pool is None else "the pool")
        self._operation = operation
        self._pool = pool
        self.ended: Channel[Attempt] = Channel(float("inf"), clock=run.clock)  # as they end

    @coroutine  # not async: Python would warn if an interrupt kept it from its first step
    def perform(self) -> Generator[Any, Any, BaseException | None]:
        """Bring the call to its end; return the error to raise; None: ``run.result`` is good.

        A thread runs it to its end by one ``send()``: where a coroutine awaits, a thread calls.
        """
        run = self.run
        reason: StopReason | None = None
        try:
            self.start()
            while reason is None:
                reason = yield from self._handle((yield from self._next_end()))
            self.end(reason)
            if reason in _CUT_FOR and (yield from self._succeeds_late()):
                self.end(StopReason.SUCCEEDED)
        except Exception as failure:  # noqa: BLE001 - of the policy, the pool, or of what judges
            self.end(run.fail(failure))
        yield from self.finish()
        final: BaseException | None = yield from concluded(run)
        return final

    async def _next_end(self) -> Attempt | None:
        """Wait until an attempt has ended and return it; None if a limit or a start is due."""
        ended, awaits, timeout = self.ended, self.run.awaits, self.seconds_left()
        sources: tuple[Any, ...] = (ended,) if self.token is None else (ended, self.token)
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
                    _note_task(attempt, attempt.job)
        return ended.receive_nowait() if len(ended) else None

    async def _handle(self, attempt: Attempt | None) -> StopReason | None:
        """Act on the end of an attempt, or None; return why the call is over, if it is."""
        if attempt is None or attempt not in self.running:
            return self.after_wait()
        run = self.run
        error = attempt.take_error()
        try:
            # To end as told is neither a failure nor a success.
            ends_as_told = attempt.is_late or attempt.ends_as_told(error)
            reason = self.limit_reached() if ends_as_told else None
            self.forget(attempt)
            if reason is not None:
                return reason
            if error is None:
                if await self._accepts(attempt.result):
                    return StopReason.SUCCEEDED
                run.error = RejectedResult(run.result)
                return self.after_failure(None)
            if isinstance(error, NotMade):
                return self.after_none(error.reason, error.__cause__)
            if not isinstance(error, Exception):
                raise error
            demand = run.note_failure(error)
            if isinstance(demand, Awaiting):
                demand = run.parse_answer(await demand())
            return self.after_failure(demand)
        finally:
            del error  # its traceback refers to this frame: a reference cycle

    async def _accepts(self, result: Any) -> bool:
        """Whether what an attempt returned is good; it is the result of the run then."""
        self.run.result = result
        accepted = self.run.accepts_result()
        if isinstance(accepted, Awaiting):
            accepted = self.run.options.parse_judgement(await accepted())
        return accepted

    async def _succeeds_late(self) -> bool:
        """Whether an attempt has ended with a good result, or does so in spite of a cut."""
        awaits, ended, came = self.run.awaits, self.ended, False
        if awaits:
            self.dismiss()
        while not came and (len(ended) or (awaits and self.running)):
            attempt = await ended.receive_async() if awaits else ended.receive_nowait()
            if self.forget(attempt) and attempt.take_error() is None and not attempt.is_late:
                came = await self._accepts(attempt.result)
        return came

    def launch(self) -> None:
        run, pool = self.run, self._pool
        attempt = Attempt(run, self._operation, self.ended)
        name = f"{run.name}, {run.attempts}"
        if run.awaits:
            attempt.job = current_loop().create_task(attempt.make(), name=name)
        self.running[attempt] = None
        if run.awaits:
            attempt.job.add_done_callback(partial(_note_task, attempt))
            return
        run.failing_component = self.source
        job = _job(attempt)
        next(job)
        call = partial(copy_context().run, next, job, None)
        try:
            if pool is None:
                start_thread(call, name)
            else:
                attempt.job = future = pool.submit(call)
                future.add_done_callback(partial(_note_future, attempt))
        except Exception:
            run.attempts -= attempt.withdraw()
            raise

    def forget(self, attempt: Attempt) -> bool:
        """Note that the end of an attempt was handled; False: it was handled before."""
        attempt.token.cancel()
        return self.running.pop(attempt, self) is None

    def _drop(self, attempt: Attempt) -> None:
        self.forget(attempt)
        self.run.attempts -= isinstance(attempt.take_error(), NotMade)

    def dismiss(self) -> None:
        """Cut tasks, and tell threads to end; what has not begun never begins. May be repeated."""
        awaits, ended = self.run.awaits, self.ended
        if not awaits:
            ended.close()
            while len(ended):
                self._drop(ended.receive_nowait())
        for attempt in list(self.running):
            is_prevented, job = attempt.withdraw(), attempt.job
            self.run.attempts -= is_prevented
            if not awaits:
                attempt.token.cancel("the hedged call has ended")
            # In a closed loop nobody goes on with a task, and cancel() would fail.
            if job is not None and (not job.get_loop().is_closed() if awaits else is_prevented):
                job.cancel()

    async def finish(self) -> None:
        """Dismiss all attempts, and wait until tasks have ended. May be repeated."""
        self.dismiss()
        if not self.run.awaits:
            return
        for attempt in self.running:
            # Again: an interrupt can have prevented it, or that the callback told the end.
            if attempt.job is not None:
                attempt.job.add_done_callback(partial(_note_task, attempt))
        try:
            while len(self.ended) or any(attempt.job is not None for attempt in self.running):
                await self.ended.receive_async()
        except cancelled_error():
            await self.finish()
            raise
        for attempt in list(self.running):
            self._drop(attempt)


def _note_task(attempt: Attempt, task: Task[None]) -> None:
    """Tell the caller, once, that the task of an attempt has ended."""
    if attempt.job is not None:
        if not task.cancelled():
            task.exception()  # retrieve it, or asyncio would report it
        # A task that is cancelled before its first step does not make its attempt.
        attempt.tell(None if attempt.is_begun else cancelled_error()())
        attempt.job = None


@coroutine
def _job(attempt: Attempt) -> Generator[Any, Any, None]:
    """Make an attempt in its thread, and tell the caller how it ended, whatever is raised.

    The caller takes the first step, so that in the thread no instruction is outside the ``try``.
    """
    try:
        yield
        yield from attempt.make()
        attempt.tell()
    except BaseException as error:  # noqa: BLE001 - the caller decides about it
        tell = attempt.tell if attempt.is_begun else attempt.tell_if_not_begun
        tell(error)


def _note_future(attempt: Attempt, future: Future[None]) -> None:
    """Tell the caller if a pool has not begun an attempt."""
    attempt.job = None
    if not attempt.is_begun:
        error = None if future.cancelled() else future.exception()
        text = "the pool cancelled an attempt that had not begun: was it shut down?"
        attempt.tell_if_not_begun(error or RuntimeError(text))
