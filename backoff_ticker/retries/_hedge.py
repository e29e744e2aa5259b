"""``hedge_call_async``: attempts that start while others still run; the first good one wins."""

from __future__ import annotations

from .._channel import Channel
from .._errors import WouldBlock
from .._select import select_async
from .._waiting import cancelled_error, current_loop
from ._call import name_of, require_operation
from ._drive import is_awaitable, not_awaitable
from ._errors import Permanent, RejectedResult
from ._outcome import StopReason
from ._rules import Rules
from ._run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeVar, Unpack

    from .._protocols import BackOff
    from ._options import HedgeOptions

    T = TypeVar("T")

__all__ = ["hedge_call_async"]


async def hedge_call_async(
    operation: Callable[[], Awaitable[T]],
    backoff: BackOff | None = None,
    **options: Unpack[HedgeOptions],
) -> T:
    """Await ``operation()``, start it again while it is slow, and return the first good result.

    Attempt ``k + 1`` starts the ``k``-th delay of the policy after attempt ``k``, or at once when
    one that is running fails; several run at a time, each in a task of its own. The first good
    result cancels the rest. An error that is permanent, or that ``on`` does not retry, cancels all
    and is raised. Once the policy says ``STOP``, ``max_attempts`` have started or the budget is
    spent, no more are started, and those that run decide. The call returns, or raises, only after
    all its tasks have ended.

    For operations that may be made twice at the same time without harm.

    Source: hedging as in gRPC (gRFC A6).

    If cancelled: all attempts are cancelled and awaited, then ``asyncio.CancelledError`` passes.

    Args:
        operation: Called for each attempt; returns an awaitable, as coroutine functions do.
        backoff: The policy of the delays; None: ``ExponentialBackOff()``.
        **options: ``on``, ``until``, ``retry_if``, ``token``, ``timeout``, ``max_attempts``,
            ``max_retry_after``, ``budget`` and ``clock``, as of ``retry``; ``max_attempts`` is 5
            if it is not given. Each attempt but the first takes from the budget. After a
            ``RetryAfter`` the next starts when that says.

    Raises:
        TypeError, ValueError: An argument is not what it should be.
        Exception: The last error, if all attempts fail; it has a note that says why there were no
            more.
        Cancelled: The token was cancelled; from the last error, if there was one.
        DeadlineExceeded: ``timeout``, or a token's deadline, was reached; likewise.
    """
    require_operation(operation)
    for name in _NOT_HERE & options.keys():
        raise TypeError(f"hedge_call_async() has no option {name!r}")
    rules = Rules("hedge_call_async()", backoff, {"max_attempts": _MOST, **options})
    hedge = _Hedge(Run(rules, name_of(operation)), operation)
    try:
        result: T = await hedge.run()
    finally:
        await hedge.end()
    return result


_MOST = 5
"""gRPC allows so many attempts at the most."""

_NOT_HERE = {"attempt_timeout", "notify", "timer"}
_NOT_HERE |= {"on_attempt", "on_retry", "on_success", "on_give_up"}


class _Hedge:
    """One call: the attempts that run, and when the next is due."""

    def __init__(self, run: Run, operation: Callable[[], Awaitable[Any]]) -> None:
        self._run = run
        self._operation = operation
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended: Channel[asyncio.Task[Any]] = Channel(float("inf"), clock=run.clock)
        self._due: float | None = None
        self._no_more: StopReason | None = None
        token = run.token
        # Under a token that is cancelled already one attempt is made, and not cut.
        self._token = None if token is None or token.cancelled else token
        if token is not None and self._token is None:
            self._no_more = StopReason.CANCELLED

    async def run(self) -> Any:
        """Return the first good result, or raise how the call ended."""
        run = self._run
        reason: StopReason | None = None
        try:
            self._start()
            while reason is None:
                task = await self._next_end()
                if task is None:
                    reason = self._look()
                elif self._is_good(task):
                    reason = StopReason.SUCCEEDED
                else:
                    reason = self._failed(task)
        except Exception as failure:  # noqa: BLE001 - of the policy, or of what judges
            reason = run.fail(failure)
        run.end(reason)
        final = run.take_final_error()
        if final is None:
            if run.rules.budget is not None:
                run.rules.budget.success()
            return run.result
        run.error = None  # as in _drive
        try:
            raise final
        finally:
            del final

    async def _next_end(self) -> asyncio.Task[Any] | None:
        """Wait until an attempt has ended and return it; None if it is time to look."""
        try:
            return self._ended.receive_nowait()
        except WouldBlock:
            pass
        clock, deadline = self._run.clock, self._run.deadline
        limits = [limit for limit in (self._due, deadline) if limit is not None]
        timeout = max(0.0, min(limits) - clock.monotonic()) if limits else None
        sources: list[Any] = [self._ended] if self._token is None else [self._ended, self._token]
        try:
            source, value = await select_async(*sources, timeout=timeout)
        except TimeoutError:
            return None
        return value if source is self._ended else None

    def _look(self) -> StopReason | None:
        """Say why the call is over; if it is not, start the attempt that is due."""
        now = self._run.clock.monotonic()
        if self._token is not None and self._token.cancelled:
            return StopReason.CANCELLED
        if self._run.deadline is not None and now >= self._run.deadline:
            return StopReason.DEADLINE
        if self._due is not None and now >= self._due:
            self._start_another()
        return None

    def _is_good(self, task: asyncio.Task[Any]) -> bool:
        """Whether an attempt that ended brought a result, and that is accepted."""
        if task.cancelled():
            raise cancelled_error()  # by itself: nobody here has cancelled it
        if task.exception() is not None:
            return False
        self._run.result = task.result()
        return self._run.accepts()

    def _failed(self, task: asyncio.Task[Any]) -> StopReason | None:
        """Start another attempt in place of one that failed; say why all is over if it is."""
        run = self._run
        error = task.exception()
        if error is None:
            asked = run.asked(RejectedResult(run.result), always=True)
        elif isinstance(error, Exception):
            asked = run.asked(error)
        else:
            raise error
        if isinstance(asked, StopReason):
            return asked
        if self._no_more is None:
            if asked is True:
                self._start_another()
            else:
                self._due = run.clock.monotonic() + run.rules.clamped(asked)
        return None if self._tasks else self._no_more

    def _start_another(self) -> None:
        rules = self._run.rules
        if rules.budget is not None and not rules.budget.try_acquire():
            self._no_more, self._due = StopReason.BUDGET, None
        else:
            self._start()

    def _start(self) -> None:
        """Start an attempt, and fix when the next is due."""
        run = self._run
        run.attempts += 1
        task = current_loop().create_task(self._attempt(), name=f"{run.name}, {run.attempts}")
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        self._due = None
        if self._no_more is None and run.attempts == run.rules.max_attempts:
            self._no_more = StopReason.MAX_ATTEMPTS
        if self._no_more is None:
            self._no_more = run.ask()
        if self._no_more is None:
            self._due = run.clock.monotonic() + run.delay

    async def _attempt(self) -> Any:
        awaitable = self._operation()
        if not is_awaitable(awaitable):
            raise Permanent(TypeError(not_awaitable(self._run.name, awaitable)))
        return await awaitable

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # or asyncio complains of those that lose
        self._ended.send_nowait(task)

    async def end(self) -> None:
        """Cancel the attempts that still run, and wait until they have ended."""
        interrupt: BaseException | None = None
        for task in list(self._tasks):
            task.cancel()
        while self._tasks:
            try:
                await self._ended.receive_async()
            except cancelled_error() as error:
                interrupt = error
                for task in list(self._tasks):
                    task.cancel()
        if interrupt is not None:
            raise interrupt
