"""``hedge_call_async``: attempts start while others still run; the first good result wins."""

from __future__ import annotations

from .._errors import Permanent, RejectedResult
from ..channels import Channel, select_async
from ..waiting import cancelled_error, checkpoint, current_loop
from ._final_error import result_of
from ._operation import is_awaitable, name_of, not_awaitable, require_operation
from ._options import HEDGE_OPTIONS, Options
from ._outcome import StopReason
from ._run import Run
from ._settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar, Unpack

    from ..policies import BackOff
    from ._option_types import HedgeOptions

    Demand = StopReason | float | None
    T = TypeVar("T")


async def hedge_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    **options: Unpack[HedgeOptions],
) -> T:
    """Await ``operation()``, start it again while it is slow, and return the first good result.

    Each attempt runs in a task of its own. The next one starts when the next delay of the policy
    has passed since the last start, or at once when a running attempt fails. The first good result
    cancels the others. An error that is permanent, or that ``on`` does not retry, cancels all of
    them and is raised. Once the policy has returned ``STOP``, ``max_attempts`` have started or the
    budget is spent, no more attempts start, and those that run decide. The call returns or
    raises only after all its tasks have ended. If an attempt still returns a result after a cancel
    or after ``timeout``, that is returned.

    Use it only for operations that may run twice at the same time without harm.

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

    Thread safety: each call is a run of its own, on a copy of the policy, in one loop.
    Wakes when: an attempt ends, the next is due, ``timeout`` is reached, or a token is cancelled.
    If cancelled: all attempts are cancelled and awaited, then ``asyncio.CancelledError`` passes.

    Args:
        operation: Called for each attempt; returns an awaitable, as a coroutine function does.
        backoff: The policy of the delays; None: ``ExponentialBackOff()``.
        **options: ``on``, ``until``, ``retry_if``, ``token``, ``timeout``, ``max_attempts``,
            ``max_retry_after``, ``budget`` and ``clock``, as of ``retry``; ``max_attempts`` is 5
            if it is not given. Each attempt but the first takes from the budget. After a
            ``RetryAfter`` the next starts when that says.

    Raises:
        TypeError, ValueError: An argument is invalid.
        Exception: The last error, if all attempts fail, with a note that says why no more started.
        Cancelled: The token was cancelled; from the last error, if there was one.
        DeadlineExceeded: ``timeout``, or a token's deadline, was reached; likewise.
    """
    require_operation(operation)
    checked = Options(
        "hedge_call_async()",
        backoff,
        {"max_attempts": _MAX_ATTEMPTS, **options},
        allowed=HEDGE_OPTIONS,
    )
    if settings.in_use:
        known = checked.under_settings()
        if known is None:
            return await operation()
        checked = known
    hedge = _Hedge(Run(checked, name_of(operation)), operation)
    try:
        result: T = await hedge.result()
    except GeneratorExit:  # this coroutine was closed: nothing can be awaited
        hedge.cancel_all()
        raise
    except BaseException:
        await hedge.cancel_rest()
        raise
    else:
        await hedge.cancel_rest()
    finally:
        hedge.refund()
    return result


_MAX_ATTEMPTS = 5
"""As many attempts as gRPC allows."""

_CUT_FOR = {StopReason.CANCELLED, StopReason.DEADLINE}


class _Hedge:
    """One call: its running attempts, and when the next one is due."""

    def __init__(self, run: Run, operation: Callable[[], Awaitable[Any]]) -> None:
        self._run = run
        self._operation = operation
        self._tasks: set[asyncio.Task[Any]] = set()
        self._calls = 0
        self._ended: Channel[asyncio.Task[Any]] = Channel(float("inf"), clock=run.clock)
        self._due: float | None = None
        # The first attempt always runs: a token that is cancelled already must not cut it.
        self._ignores_token = run.token is not None and run.token.cancelled
        self._no_more: StopReason | None = StopReason.CANCELLED if self._ignores_token else None

    async def result(self) -> Any:
        """Return the first good result, or raise how the call ended."""
        run = self._run
        try:
            run.end(await self._decide())
            if run.reason in _CUT_FOR and await self._still_succeeds():
                run.end(StopReason.SUCCEEDED)
        except Exception as failure:  # noqa: BLE001 - of the policy, or of what judges
            run.end(run.fail(failure))
        if run.reason is StopReason.SUCCEEDED and run.options.budget is not None:
            run.options.budget.success()
        return result_of(run)

    async def _decide(self) -> StopReason:
        self._start()
        reason = None
        while reason is None:
            # No variable here holds the task: its error would refer back to it.
            reason = self._handle(await self._next_end())
        return reason

    async def _still_succeeds(self) -> bool:
        """Cancel the running attempts; return whether one of them still returns a good result."""
        came = False
        self.cancel_all()
        while self._tasks or len(self._ended):
            task = await self._ended.receive_async()
            if not came and not task.cancelled() and task.exception() is None:
                self._run.result = task.result()
                came = self._run.accepts_result()
        return came

    async def _next_end(self) -> asyncio.Task[Any] | None:
        """Wait until an attempt has ended and return it; None if a limit or a start is due."""
        ended, run = self._ended, self._run
        limits = [limit for limit in (self._due, run.deadline) if limit is not None]
        timeout = max(0.0, min(limits) - run.clock.monotonic()) if limits else None
        sources: list[Any] = [ended]
        if run.token is not None and not self._ignores_token:
            sources.append(run.token)
        try:
            source, value = await select_async(*sources, timeout=timeout)
        except TimeoutError:
            source = None
        if source is ended:
            return value  # type: ignore[no-any-return]
        await checkpoint  # lets attempts end that are done at the same moment
        return ended.receive_nowait() if len(ended) else None

    def _handle(self, task: asyncio.Task[Any] | None) -> StopReason | None:
        """Act on what ``_next_end()`` returned; return why the call is over, None if it is not."""
        if task is None:
            return self._check()
        run = self._run
        if task.cancelled():
            task.result()  # raises: the attempt cancelled itself, not this call
        error = task.exception()
        try:
            if error is None:
                run.result = task.result()
                if run.accepts_result():
                    return StopReason.SUCCEEDED
                return self._failed(run.classify(RejectedResult(run.result), rejected=True))
            if isinstance(error, Exception):
                return self._failed(run.classify(error))
            raise error
        finally:
            del task, error

    def _check(self) -> StopReason | None:
        """Return why the call is over; if it is not, start the attempt that is due."""
        if any(task.done() for task in self._tasks):
            return None  # an attempt is about to end
        over = self._limit_reached()
        if over is None and self._due is not None and self._run.clock.monotonic() >= self._due:
            self._start_another()
        return over

    def _limit_reached(self) -> StopReason | None:
        """Return why no attempt may run any more; None if they may."""
        run = self._run
        if run.token is not None and run.token.cancelled and not self._ignores_token:
            return StopReason.CANCELLED
        if run.deadline is not None and run.clock.monotonic() >= run.deadline:
            return StopReason.DEADLINE
        return None

    def _failed(self, demand: Demand) -> StopReason | None:
        """Start another attempt after one failed; return why the call is over, None if it is not.

        Args:
            demand: What ``Run.classify()`` returned for the failure.
        """
        if isinstance(demand, StopReason):
            return demand
        run = self._run
        over = self._limit_reached()
        if over is None and self._no_more is None:
            if demand is None:
                self._start_another()
            else:
                self._due = run.clock.monotonic() + demand
        if self._tasks or len(self._ended):
            return None  # these may still succeed
        due = self._due
        if over is None and due is not None and run.deadline is not None and due >= run.deadline:
            run.delay, run.is_waiting = due - run.clock.monotonic(), True
            over = StopReason.DEADLINE
        return over or self._no_more

    def _start_another(self) -> None:
        options = self._run.options
        if options.budget is not None and not options.budget.try_acquire():
            self._no_more, self._due = StopReason.BUDGET, None
        else:
            self._start()

    def _start(self) -> None:
        """Start an attempt, and set when the next is due."""
        run = self._run
        run.attempts += 1
        task = current_loop().create_task(self._attempt(), name=f"{run.name}, {run.attempts}")
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        self._due = None
        if self._no_more is None and run.attempts == run.options.max_attempts:
            self._no_more = StopReason.MAX_ATTEMPTS
        if self._no_more is None:
            self._no_more = run.poll_policy()
        if self._no_more is None:
            self._due = run.clock.monotonic() + run.delay

    async def _attempt(self) -> Any:
        self._calls += 1
        awaitable = self._operation()
        if not is_awaitable(awaitable):
            raise Permanent(not_awaitable(self._run.name, awaitable))
        return await awaitable

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieve it, or asyncio would report it
        self._ended.send_nowait(task)

    async def cancel_rest(self) -> None:
        """Cancel the attempts that still run, and wait until they have ended."""
        interrupt: BaseException | None = None
        self.cancel_all()
        while self._tasks:
            try:
                await self._ended.receive_async()
            except cancelled_error() as error:
                interrupt = error
                self.cancel_all()
        # Errors refer to the frames of attempts, and these to this object: a reference cycle.
        self._run.error = None
        while len(self._ended):
            self._ended.receive_nowait()
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                del interrupt

    def refund(self) -> None:
        """Give back to the budget what the attempts cost whose tasks never began."""
        run = self._run
        for _ in range(max(1, self._calls), run.attempts):
            if run.options.budget is not None:
                run.options.budget.release()

    def cancel_all(self) -> None:
        """Cancel the running attempts."""
        for task in list(self._tasks):
            task.cancel()
