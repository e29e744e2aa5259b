"""What cuts an attempt of a coroutine: a token, ``timeout`` or ``attempt_timeout``."""

from __future__ import annotations

from .._error_chain import set_link
from .._errors import DeadlineExceeded
from .._operation import is_awaitable, not_awaitable
from ..cancellation import CancellableBlock, CancellationToken
from ..clock import later
from ..waiting import protected_in_trio
from ._outcome import Ending, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ._run import Run


class CuttableAttempt:
    """``async with`` around one attempt; it swallows the ``CancelledError`` of its own cut.

    If a token or the ``timeout`` of the run has cut the attempt, that has ended the run. If it took
    longer than ``attempt_timeout``, a ``TimeoutError`` is raised.
    """

    __slots__ = ("_block", "_by_time", "_run", "_token")

    def __init__(self, run: Run) -> None:
        limits, attempt, token = run.limits, run.attempt, run.limits.token
        assert attempt is not None  # noqa: S101 - for type checkers: it has begun
        if token is not None and run.attempts == 1 and token.cancelled:
            token = None  # the first attempt always runs: a token cancelled before must not cut it
        if run.options.attempt_timeout is not None:
            attempt.cut_at = later(run.clock.monotonic(), run.options.attempt_timeout)
        by_time = limits.first_cut(token, attempt.cut_at)
        self._run = run
        run.was_cut = False
        self._token: CancellationToken | None = token
        self._by_time: StopReason | None = None if by_time is None else by_time[1]
        self._block = CancellableBlock(limits.derived(run.clock, token, attempt.cut_at))

    @protected_in_trio
    async def __aenter__(self) -> None:
        await self._block.enter()

    @protected_in_trio
    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        cancelled, is_pending = self._block.leave(error)
        if is_pending:
            await self._block.settle()
        if cancelled is not None:
            self._cut(error)
        return cancelled is not None

    def _cut(self, cancelled_error: BaseException | None) -> None:
        """Say what has cut the attempt; the ``CancelledError`` shows where that was."""
        run, is_by_token = self._run, self._token is not None and self._token.cancelled
        reason = StopReason.CANCELLED if is_by_token else self._by_time
        if reason is None:
            run.was_cut = True
            limit = run.options.attempt_timeout
            raise TimeoutError(f"the attempt took longer than {limit!r} s")
        if reason is StopReason.CANCELLED:
            ending = run.limits.ending_by_token()
        else:
            why = f"the timeout of {run.options.timeout!r} s"
            ending = Ending(reason, why, DeadlineExceeded())
        if ending.error is not None and ending.error.__context__ is None:
            set_link(ending.error, "__context__", cancelled_error)
        run.end(ending)


async def cuttable(
    run: Run, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Await a function once where a token or a time limit may cut it; return its result."""
    token = run.limits.token
    async with CuttableAttempt(run):
        if token is not None and run.attempts > 1 and token.cancelled:
            run.refuse()
            return None
        run.is_paid = False
        result = function(*args, **kwargs)
        if is_awaitable(result):
            return await result
        run.fail(not_awaitable(run.name, result), run.name)
    return None
