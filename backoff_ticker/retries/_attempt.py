"""One attempt of ``attempts()``, as a block."""

from __future__ import annotations

from ._cut import cutting
from ._script import CUT, END, RETRY, Closed, Enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ..cancellation import CancellationToken
    from ._cut import Cut
    from ._loop import Attempts
    from ._outcome import Outcome
    from ._play import Play
    from ._run import Run


class Attempt:
    """One attempt: a block, ``with attempt:`` or, in a coroutine, also ``async with attempt:``.

    A coroutine's block is cut by a cancel of the token while it runs, and by the limits of time.
    To leave it by ``break``, ``continue`` or ``return`` is a success. Hooks are called, and
    awaited, at its end; under a plain ``with`` awaitable ones in the next step of the loop.

    Thread safety: the block, and ``token``, belong to the thread or task of the loop; the token
    itself and ``outcome`` are for any thread.
    Wakes when: the block of a coroutine is cut: a token is cancelled, ``timeout`` or
    ``attempt_timeout`` is reached.
    If cancelled or interrupted: that passes, and the run is over; nothing stays behind.

    Attributes:
        number: Its place, from 1.
    """

    __slots__ = ("_attempts", "_cut", "_has_result", "_is_entered", "_play", "_run", "number")

    def __init__(self, attempts: Attempts, run: Run, play: Play) -> None:
        self._attempts = attempts
        self._run = run
        self._play = play
        self._cut: Cut | None = None
        self._is_entered = False
        self._has_result = False
        self.number: int = run.attempts

    @property
    def outcome(self) -> Outcome:
        """How far the run has come, or how it ended."""
        return self._attempts.outcome

    @property
    def token(self) -> CancellationToken:
        """A token for what the block calls.

        It is cancelled with the run's token, when ``timeout`` is reached, and when the run ends.
        All attempts of a run have the same.

        Thread safety: read it in the block; what it returns is for any thread.
        """
        return self._attempts._token_of_run()

    def set_result(self, value: object) -> None:
        """Tell what ``until`` or ``retry_if`` is to judge; of several the last counts.

        Thread safety: from any thread, before the block ends.
        """
        self._run.result = value
        self._has_result = True

    def _enter(self) -> None:
        if self._is_entered or self._attempts._open is not self:
            raise RuntimeError(f"the block of attempt {self.number} was entered before")
        self._is_entered = True

    def _begin_block(self) -> None:
        if self._play.step is END:  # a hook has failed, or a cancel came
            self._attempts._open = None
            self._attempts._end()
        if self._attempts._asynchronous:
            self._cut = cutting(self._run)
            if self._cut is not None:
                self._cut.scope.enter()

    def _end_block(self, error: BaseException | None) -> None:
        """Tell the script how the block ended."""
        run, play = self._run, self._play
        self._attempts._open = None
        if self._cut is not None:
            self._cut.leave(error)
        if error is None and run.rules.judges_results and not self._has_result:
            run.culprit = "a block without attempt.set_result()"
            play.throw(RuntimeError("until and retry_if need attempt.set_result(value)"))
        elif error is not None and run.cut is error:
            play.answer(CUT)
        elif error is None or isinstance(error, Exception):
            play.answer(error)
        elif isinstance(error, GeneratorExit):
            play.throw(Closed(error))
        else:
            play.throw(error)

    def _swallows(self, error: BaseException | None) -> bool:
        """Whether the block is to swallow the error that ended it: it goes on."""
        if self._play.step is END:
            self._attempts._end(error)
            return False
        return True

    def __enter__(self) -> Self:
        self._enter()
        step = self._play.step
        if isinstance(step, Enter) and step.is_async:
            raise RuntimeError(
                "on_attempt returned an asynchronous context manager, which needs "
                "`async with attempt:`"
            )
        # Of what nobody can await here, nobody is told: a cancel has come before the block.
        asynchronous = self._attempts._asynchronous
        advance = self._play.finish_unawaited if asynchronous else self._play.advance
        try:
            advance()
            if self._play.refuses():
                advance()
        finally:
            self._attempts._close()
        self._begin_block()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            self._end_block(error)
            if self._attempts._asynchronous:
                self._play.advance_unawaited()
            else:
                self._play.advance(until=RETRY)
        except BaseException as raised:
            if raised is error or isinstance(raised, Closed):  # the interrupt that ended the block
                return False
            raise
        finally:
            self._attempts._close()
        return self._swallows(error)

    async def __aenter__(self) -> Self:
        self._enter()
        try:
            await self._play.advance_async()
            if self._play.refuses():
                await self._play.advance_async()
        finally:
            self._attempts._close()
        self._begin_block()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            self._end_block(error)
            await self._play.advance_async(until=RETRY)
        except BaseException as raised:
            if raised is error or isinstance(raised, Closed):
                return False
            raise
        finally:
            self._attempts._close()
        return self._swallows(error)
