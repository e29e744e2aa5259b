"""The block around an attempt of a coroutine that a token or a time limit may cut."""

from __future__ import annotations

from .._error_chain import set_link
from .._errors import DeadlineExceeded
from ..cancellation import CancellableBlock
from ..clock import later
from ._outcome import Ending, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cancellation import CancellationToken
    from ._run import Run


class CuttableAttempt:
    """``async with`` around one attempt; it swallows the ``CancelledError`` of its own cut.

    If a token or the ``timeout`` of the run has cut the attempt, that has ended the run.

    """

    __slots__ = ("_block", "_by_time", "_error", "_run", "_token")

    def __init__(self, run: Run) -> None:
        limits, attempt, token = run.limits, run.attempt, run.limits.token
        if token is not None and run.attempts == 1 and token.cancelled:
            token = None  # the first attempt always runs: a token cancelled before must not cut it
        if run.options.attempt_timeout is not None:
            attempt.cut_at = later(run.clock.monotonic(), run.options.attempt_timeout)  # type: ignore[union-attr]  # it has begun
        cut_at = attempt.cut_at  # type: ignore[union-attr]  # the same
        by_time = limits.first_cut(token, cut_at)
        self._run = run
        run.was_cut = False
        self._token: CancellationToken | None = token
        self._by_time: StopReason | None = None if by_time is None else by_time[1]
        self._block = CancellableBlock(limits.derived(run.clock, token, cut_at))
        self._error: Exception | None = None

    def take_error(self) -> Exception | None:
        """Return, once, the ``TimeoutError`` of an attempt that took too long; None: it did not."""
        error, self._error = self._error, None  # its traceback refers to frames that refer to this
        return error

    async def __aenter__(self) -> None:
        await self._block.enter_async()

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        cancelled, is_pending = self._block.leave(error)
        if cancelled is not None:
            self._cut(error)
        if is_pending:
            await self._block.settle()
        return cancelled is not None

    def _cut(self, cancelled_error: BaseException | None) -> None:
        """Note what has cut the attempt; the ``CancelledError`` shows where that was."""
        run, is_by_token = self._run, self._token is not None and self._token.cancelled
        reason = StopReason.CANCELLED if is_by_token else self._by_time
        if reason is None:
            run.was_cut = True
            limit = run.options.attempt_timeout
            self._error = TimeoutError(f"the attempt took longer than {limit!r} s")
            self._error.__context__ = cancelled_error
            return
        if reason is StopReason.CANCELLED:
            ending = run.limits.ending_by_token()
        else:
            why = f"the timeout of {run.options.timeout!r} s"
            ending = Ending(reason, why, DeadlineExceeded())
        if ending.error is not None and ending.error.__context__ is None:
            set_link(ending.error, "__context__", cancelled_error)
        run.end(ending)
