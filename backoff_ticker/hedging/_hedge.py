"""``hedge_call_async``: attempts start while others still run; the first good result wins."""

from __future__ import annotations

from functools import partial

from ..retries import NO_FALLBACK, raised, shows
from ..waiting import cancelled_error, current_loop
from ._attempt import Attempt
from ._perform import Attempts, new_run, perform

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any, TypeVar, Unpack, overload

    from ..cancellation import CancellationToken
    from ..clock import Clock
    from ..policies import BackOff
    from ..retries import (
        AsyncHedgeOptions,
        AsyncResultCheck,
        AsyncRetryOn,
        BudgetLike,
        CircuitBreaker,
        NoFallback,
        Outcome,
        Seconds,
    )

    T = TypeVar("T")
    D = TypeVar("D")
else:
    from ..retries import overload


if TYPE_CHECKING:

    @overload
    def hedge_call_async(
        operation: Callable[[], Awaitable[T]],
        backoff: BackOff | None = None,
        *,
        fallback: Callable[[Outcome], Awaitable[D]],
        **options: Unpack[AsyncHedgeOptions],
    ) -> Coroutine[Any, Any, T | D]: ...
    @overload
    def hedge_call_async(
        operation: Callable[[], Awaitable[T]],
        backoff: BackOff | None = None,
        *,
        fallback: Callable[[Outcome], D],
        **options: Unpack[AsyncHedgeOptions],
    ) -> Coroutine[Any, Any, T | D]: ...
    @overload
    def hedge_call_async(
        operation: Callable[[], Awaitable[T]],
        backoff: BackOff | None = None,
        *,
        fallback: D,
        **options: Unpack[AsyncHedgeOptions],
    ) -> Coroutine[Any, Any, T | D]: ...


@overload
def hedge_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    *,
    on: AsyncRetryOn = Exception,
    until: AsyncResultCheck | None = None,
    retry_if: AsyncResultCheck | None = None,
    token: CancellationToken | None = None,
    timeout: Seconds | None = None,
    max_elapsed_time: Seconds | None = None,
    max_attempts: int | None = 5,
    max_retry_after: Seconds | None = 21_600.0,
    fallback: NoFallback = NO_FALLBACK,
    budget: BudgetLike | None = None,
    breaker: CircuitBreaker | None = None,
    clock: Clock | None = None,
) -> Coroutine[Any, Any, T]: ...
@shows(hedge_call_async)
async def hedge_call_async(operation: Any, backoff: Any = None, **options: Any) -> Any:
    """Await ``operation()``, start it again while it is slow, and return the first good result.

    This is a *hedged call*: it trades extra calls for a shorter wait when one server is slow. Use
    it only for operations that may safely run twice at the same time.

    Each attempt runs in a task of its own. The next attempt starts when the next delay of the
    policy has passed since the last start, or at once when a running attempt fails. The first good
    result cancels the other attempts. An error that is permanent, or that ``on`` does not retry,
    cancels all of them and is raised. No more attempts start once the policy has returned ``STOP``,
    ``max_attempts`` have started or the budget is spent; then the attempts that are running decide.

    The call returns or raises only after all its tasks have ended. If an attempt still returns a
    good result after a cancel or after ``timeout``, that result is returned.

    Source: hedging as in gRPC (gRFC A6).

    Example:
        >>> import asyncio
        >>> from backoff_ticker import ConstantBackOff, hedge_call_async
        >>> servers = iter(["slow", "fast"])
        >>> async def fetch():
        ...     server = next(servers)
        ...     await asyncio.sleep(10 if server == "slow" else 0)
        ...     return server
        >>> asyncio.run(hedge_call_async(fetch, ConstantBackOff(0.001), max_attempts=2))
        'fast'

    Thread safety: each call is a run of its own, on a copy of the policy, in one event loop.
    Wakes when: an attempt ends, the next is due, ``timeout`` is reached, or a token is cancelled.
    If cancelled: all attempts are cancelled and awaited, then ``asyncio.CancelledError`` is raised.

    Args:
        operation: A callable without arguments that returns an awaitable, such as a coroutine
            function. It is called once for each attempt.
        backoff: The policy of the delays between starts. None means ``ExponentialBackOff()``.
        **options: ``on``, ``until``, ``retry_if``, ``token``, ``timeout``, ``max_elapsed_time``,
            ``max_attempts`` (5 by default), ``max_retry_after``, ``fallback``, ``budget``,
            ``breaker`` and ``clock``, as ``retry`` describes them. Each attempt after the first
            takes from the budget. A ``RetryAfter`` says when the next attempt starts.

    Raises:
        Exception: The last error, if all attempts fail, with a note that says why no more started.
        Cancelled: A token was cancelled. Its ``__cause__`` is the last error, if there was one.
        DeadlineExceeded: ``timeout``, or the deadline of a token, was reached; likewise.
        TypeError, ValueError: An argument is invalid.
    """
    run = new_run("hedge_call_async()", operation, backoff, options)
    if run is None:
        return await operation()
    run.awaits = True
    tasks = _Tasks(run, operation)
    try:
        final = await perform(tasks)
        if final is None:
            return run.result
    except GeneratorExit:  # this coroutine was closed: nothing can be awaited
        tasks.dismiss()
        for attempt in list(tasks.running):
            tasks.forget(attempt)
        raise
    except BaseException:
        await tasks.finish()
        raise
    finally:
        run.error = None  # its traceback refers to this frame: a reference cycle
        run.close()
    try:
        raised(final)
    finally:
        final = None


class _Tasks(Attempts):
    """The attempts of one call, in tasks."""

    def launch(self) -> None:
        run = self.run
        attempt = Attempt(run, self.operation, self.ended)
        name = f"{run.name}, {run.attempts}"
        attempt.job = current_loop().create_task(attempt.make(), name=name)
        self.running[attempt] = None
        attempt.job.add_done_callback(partial(_note_end, attempt))

    def about_to_end(self) -> bool:
        return any(attempt.job is not None and attempt.job.done() for attempt in self.running)

    def dismiss(self) -> None:
        for attempt in list(self.running):
            self.run.attempts -= attempt.withdraw()
            # In a closed loop nobody goes on with the task, and cancel() would fail.
            if attempt.job is not None and not attempt.job.get_loop().is_closed():
                attempt.job.cancel()

    async def finish(self) -> None:
        interrupt: BaseException | None = None
        self.dismiss()
        for attempt in self.running:
            # Again: an interrupt can have prevented it, or that the callback told the end.
            if attempt.job is not None:
                attempt.job.add_done_callback(partial(_note_end, attempt))
        while len(self.ended) or any(attempt.job is not None for attempt in self.running):
            try:
                await self.ended.receive_async()
            except cancelled_error() as error:
                interrupt = error
                self.dismiss()
        for attempt in list(self.running):
            self.drop(attempt)
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                del interrupt


def _note_end(attempt: Attempt, task: asyncio.Task[None]) -> None:
    """Tell the caller that the task of an attempt has ended."""
    if attempt.job is None:
        return  # that was done before
    if not task.cancelled():
        task.exception()  # retrieve it, or asyncio would report it
    # A task that is cancelled before its first step does not make its attempt.
    attempt.tell(None if attempt.is_begun else cancelled_error()())
    attempt.job = None
