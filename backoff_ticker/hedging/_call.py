"""One hedged call and its attempts, in tasks or in threads."""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from types import coroutine

from .._errors import RejectedResult
from ..channels import Channel, select, select_async
from ..clock import start_thread
from ..retries import Awaiting, StopReason, concluded
from ..waiting import cancelled_error, checkpoint, current_loop
from ._attempt import Attempt, NotMade
from ._hedging import Hedging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Generator
    from concurrent.futures import Executor, Future
    from typing import Any

    from ..retries import Run


class HedgedCall(Hedging):
    """One call; if ``run.awaits``, its attempts are tasks, which can be cut, else threads.

    Attributes:
        ended: Receives each attempt as it ends.
    """

    def __init__(
        self, run: Run, operation: Callable[[], Any], pool: Executor | None = None
    ) -> None:
        super().__init__(run, "the start of a thread" if pool is None else "the pool")
        self._operation = operation
        self._pool = pool
        self.ended: Channel[Attempt] = Channel(float("inf"), clock=run.clock)

    # The way through it. A thread runs it to its end by one send(): where a coroutine awaits, a
    # thread calls.

    @coroutine  # not async: Python would warn if an interrupt kept it from its first step
    def perform(self) -> Generator[Any, Any, BaseException | None]:
        """Bring the call to its end; return the error to raise; None: ``run.result`` is good."""
        run = self.run
        try:
            self.end((yield from self._decide()))
            is_cut = run.reason is StopReason.CANCELLED or run.reason is StopReason.DEADLINE
            if is_cut and (yield from self._succeeds_late()):
                self.end(StopReason.SUCCEEDED)
        except Exception as failure:  # noqa: BLE001 - of the policy, the pool, or of what judges
            self.end(run.fail(failure))
        yield from self.finish()
        final: BaseException | None = yield from concluded(run)
        return final

    async def _decide(self) -> StopReason:
        self.start()
        reason = None
        while reason is None:
            reason = await self._handle(await self._next_end())
        return reason

    async def _next_end(self) -> Attempt | None:
        """Wait until an attempt has ended and return it; None if a limit or a start is due."""
        ended, awaits, timeout = self.ended, self.run.awaits, self.seconds_left()
        sources: tuple[Any, ...] = (ended,) if self.token is None else (ended, self.token)
        try:
            if awaits:
                source, value = await select_async(*sources, timeout=timeout)
            else:
                source, value = select(*sources, timeout=timeout)
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
            is_told = attempt.ends_as_told(error)
            self.forget(attempt)
            over = self.limit_reached() if is_told else None  # to end as told is no failure
            if over is not None:
                return over
            if error is None:
                if await self._accepts(attempt.result):
                    return StopReason.SUCCEEDED
                run.error = RejectedResult(run.result)
                return self.after_failure(None)
            if isinstance(error, NotMade):
                return self.after_none(error)
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
            if self.forget(attempt) and attempt.take_error() is None:
                came = await self._accepts(attempt.result)
        return came

    # The attempts

    def launch(self) -> None:
        """Start attempt number ``run.attempts``, and do not wait for it."""
        run, pool = self.run, self._pool
        attempt = Attempt(run, self._operation, self.ended)
        name = f"{run.name}, {run.attempts}"
        if run.awaits:
            attempt.job = current_loop().create_task(attempt.make(), name=name)
            self.running[attempt] = None
            attempt.job.add_done_callback(partial(_note_task, attempt))
            return
        self.running[attempt] = None
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
        """Note that the end of an attempt was handled; False: it was before."""
        if attempt.token is not None:
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
            self.run.attempts -= attempt.withdraw()
            if attempt.token is not None and not awaits:
                attempt.token.cancel("the hedged call has ended")
            job = attempt.job
            # In a closed loop nobody goes on with the task, and cancel() would fail.
            if job is not None and not (awaits and job.get_loop().is_closed()):
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
    """Tell the caller that the task of an attempt has ended, unless that was done before."""
    if attempt.job is not None:
        if not task.cancelled():
            task.exception()  # retrieve it, or asyncio would report it
        # A task that is cancelled before its first step does not make its attempt.
        attempt.tell(None if attempt.is_begun else cancelled_error()())
        attempt.job = None


@coroutine
def _job(attempt: Attempt) -> Generator[Any, Any, None]:
    """Make an attempt in its thread, and tell the caller how it ended, whatever is raised.

    The caller takes the first step, so that in the thread no instruction is outside the ``try``. If
    the thread never takes the second one, the caller learns of that, too.
    """
    try:
        yield
        yield from attempt.make()
        attempt.tell()
    except BaseException as error:  # noqa: BLE001 - the caller decides about it
        if attempt.is_begun:
            attempt.tell(error)
        else:
            is_lost = isinstance(error, GeneratorExit)
            lost = RuntimeError("no thread has made the attempt")
            attempt.tell_if_not_begun(lost if is_lost else error)


def _note_future(attempt: Attempt, future: Future[None]) -> None:
    """Tell the caller if a pool has not begun an attempt."""
    attempt.job = None
    if not attempt.is_begun:
        if future.cancelled():
            text = "the pool cancelled an attempt that had not begun: was it shut down?"
            error: BaseException = RuntimeError(text)
        else:
            error = future.exception() or RuntimeError("the pool made no attempt")
        attempt.tell_if_not_begun(error)
