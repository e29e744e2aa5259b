"""``hedge_call_async``: attempts start while others still run; the first good result wins."""

from __future__ import annotations

from .._errors import Permanent
from ..channels import Channel, select_async
from ..waiting import cancelled_error, checkpoint, complete, current_loop
from ..retries import (
    NO_FALLBACK,
    Awaiting,
    Run,
    StopReason,
    concluded,
    is_awaitable,
    name_of,
    not_awaitable,
    raised,
    settings,
    show_attempt,
    shows,
    token_of_attempts,
)
from ._hedging import CUT_FOR, Hedging, NotMade, checked_options

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
    checked = checked_options("hedge_call_async()", operation, backoff, options)
    if settings.in_use:
        checked = checked.under_settings()
        if checked.is_off:
            return await operation()
    run = Run(checked, name_of(operation))
    run.awaits = True
    tasks = _Tasks(run, operation)
    try:
        result = await _result(Hedging(run, tasks.launch), tasks)
    except GeneratorExit:  # this coroutine was closed: nothing can be awaited
        tasks.cancel_all()
        raise
    except BaseException:
        await tasks.cancel_rest()
        raise
    else:
        await tasks.cancel_rest()
    finally:
        tasks.refund()
        run.close()
    return result


async def _result(hedging: Hedging, tasks: _Tasks) -> Any:
    """Return the first good result, or raise how the call ended."""
    run = hedging.run
    try:
        hedging.end(await _decide(hedging, tasks))
        if run.reason in CUT_FOR and await _still_succeeds(hedging, tasks):
            hedging.end(StopReason.SUCCEEDED)
    except Exception as failure:  # noqa: BLE001 - of the policy, or of what judges
        hedging.end(run.fail(failure))
    final = await concluded(run)
    try:
        return run.result if final is None else raised(final)
    finally:
        del final


async def _decide(hedging: Hedging, tasks: _Tasks) -> StopReason:
    hedging.start()
    reason = None
    while reason is None:
        # No variable here holds the task: its error would refer back to it.
        reason = await _handle(await _next_end(hedging, tasks), hedging, tasks)
    return reason


async def _next_end(hedging: Hedging, tasks: _Tasks) -> asyncio.Task[Any] | None:
    """Wait until an attempt has ended and return it; None if a limit or a start is due."""
    ended, token = tasks.ended, hedging.token
    sources: tuple[Any, ...] = (ended,) if token is None else (ended, token)
    try:
        source, value = await select_async(*sources, timeout=hedging.seconds_left())
    except TimeoutError:
        source = None
    if source is ended:
        return value  # type: ignore[no-any-return]
    await checkpoint()  # lets attempts end that are done at the same moment
    return ended.receive_nowait() if len(ended) else None


async def _handle(
    task: asyncio.Task[Any] | None, hedging: Hedging, tasks: _Tasks
) -> StopReason | None:
    """Act on what ``_next_end()`` returned; return why the call is over, None if it is not."""
    if task is None:
        return None if tasks.about_to_end() else hedging.after_wait()
    try:
        if task.cancelled():
            task.result()  # raises: the attempt cancelled itself, not this call
        if task.exception() is not None:
            reason = hedging.after_end(task.exception())
        else:
            reason = hedging.after_end(None, task.result())
        if isinstance(reason, Awaiting):
            return hedging.after_answer(await reason())
        return reason
    finally:
        del task


async def _still_succeeds(hedging: Hedging, tasks: _Tasks) -> bool:
    """Cancel the running attempts; return whether one of them still returns a good result."""
    came = False
    tasks.cancel_all()
    while tasks.running or len(tasks.ended):
        task = await tasks.ended.receive_async()
        if not came and not task.cancelled() and task.exception() is None:
            accepted = hedging.accepts(task.result())
            if isinstance(accepted, Awaiting):
                accepted = hedging.run.options.parse_judgement(await accepted())
            came = accepted
    return came


class _Tasks:
    """The tasks of one call.

    Attributes:
        running: Those that have not ended.
        ended: Receives each as it ends.
    """

    __slots__ = ("_calls", "_operation", "_run", "ended", "running")

    def __init__(self, run: Run, operation: Callable[[], Awaitable[Any]]) -> None:
        self._run = run
        self._operation = operation
        self._calls = 0
        self.running: set[asyncio.Task[Any]] = set()
        self.ended: Channel[asyncio.Task[Any]] = Channel(float("inf"), clock=run.clock)

    def launch(self) -> None:
        """Start an attempt."""
        run = self._run
        task = current_loop().create_task(
            self._attempt(run.attempts), name=f"{run.name}, {run.attempts}"
        )
        self.running.add(task)
        task.add_done_callback(self._note_end)

    async def _attempt(self, number: int) -> Any:
        if number > 1 and self._run.options.awaits_budget:
            await self._pay()
        breaker = self._run.options.breaker
        if breaker is None:
            return await self._call(number)
        try:
            ticket = breaker.allow()
        except BaseException:  # a CircuitOpen, or an error of the breaker
            self._calls += 1  # of what the call gives back at its end: that is done here
            budget = self._run.options.budget
            if number > 1 and budget is not None:
                budget.release()
            raise
        try:
            try:
                result = await self._call(number)
            except BaseException as error:
                breaker.record(ticket, error)
                raise
            breaker.record(ticket)
        except BaseException:
            complete(breaker.release, ticket)  # no effect if the result was counted
            raise
        return result

    async def _pay(self) -> None:
        """Ask the budget for this attempt."""
        run = self._run
        budget = run.options.budget
        try:
            is_paid = await budget.try_acquire_async()
        except Exception as failure:
            raise NotMade from failure
        if not is_paid:
            raise NotMade
        reason = run.limit_reached()
        if reason is not None:  # the answer may have taken long
            budget.release()
            raise NotMade(reason)

    async def _call(self, number: int) -> Any:
        self._calls += 1
        run = self._run
        token = token_of_attempts(run) if run.is_tracked else None
        try:
            if token is not None:
                show_attempt(run, number, token)
            awaitable = self._operation()
            if not is_awaitable(awaitable):
                raise Permanent(not_awaitable(run.name, awaitable))
            return await awaitable
        finally:
            if token is not None:
                token.cancel()

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve it, or asyncio would report it
        self.ended.send_nowait(task)

    def about_to_end(self) -> bool:
        """Whether an attempt is done whose end the loop has not told yet."""
        return any(task.done() for task in self.running)

    async def cancel_rest(self) -> None:
        """Cancel the attempts that still run, and wait until they have ended."""
        interrupt: BaseException | None = None
        self.cancel_all()
        for task in list(self.running):
            # An interrupt can have prevented that its end is noted, and then it would be awaited
            # for ever.
            task.remove_done_callback(self._note_end)
            if task.done():
                self._note_end(task)
            else:
                task.add_done_callback(self._note_end)
        while self.running:
            try:
                await self.ended.receive_async()
            except cancelled_error() as error:
                interrupt = error
                self.cancel_all()
        # Errors refer to the frames of attempts, and these to this object: a reference cycle.
        self._run.error = None
        while len(self.ended):
            self.ended.receive_nowait()
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                del interrupt

    def refund(self) -> None:
        """Give back to the budget what the attempts cost whose tasks never began."""
        run = self._run
        if run.options.budget is None or run.options.awaits_budget:
            return
        for _ in range(max(1, self._calls), run.attempts):
            run.options.budget.release()

    def cancel_all(self) -> None:
        """Cancel the running attempts."""
        for task in list(self.running):
            task.cancel()
