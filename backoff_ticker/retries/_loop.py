"""``attempts``: a retry as a loop, whose attempts are blocks."""

from __future__ import annotations

from ._cut import cutting, run_token
from ._drive import advance, advance_async, is_awaitable
from ._outcome import Outcome
from ._rules import Rules
from ._run import Run
from ._script import CALL, CUT, END, PAUSE, REFUSED, Enter, steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self, Unpack

    from .._protocols import BackOff
    from .._token import CancellationToken
    from ._cut import Cut
    from ._options import RetryOptions

__all__ = ["Attempt", "Attempts", "attempts"]

_NAME = "attempts()"


def attempts(backoff: BackOff | None = None, **options: Unpack[RetryOptions]) -> Attempts:
    """Return the attempts of one run, for a loop around a block that may fail.

    .. code-block:: python

        for attempt in attempts(policy, on=OSError, max_attempts=5):
            with attempt:
                ...

    In a coroutine ``async for``, with ``with attempt:`` or ``async with attempt:`` inside. The
    loop ends after a block that succeeded. An error that is retried ends its block, the next step
    of the loop waits, and the block runs again; one that is not is raised by the block.

    Args:
        backoff: The policy; None: ``ExponentialBackOff()``.
        **options: Those of ``retry``; ``attempt_timeout`` for ``async for`` only. With ``until``
            or ``retry_if`` the block tells its result by ``attempt.set_result(value)``.

    Raises:
        TypeError, ValueError: An argument is not what it should be.
    """
    return Attempts(Rules(_NAME, backoff, options))


class Attempts:
    """One run, as an iterator of its attempts; made by ``attempts()``.

    Used by one thread or task at a time, and once: a second loop needs another one.
    """

    __slots__ = (
        "_asynchronous",
        "_is_told",
        "_is_used",
        "_open",
        "_owed",
        "_rules",
        "_run",
        "_script",
        "_step",
        "_token",
    )

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._run: Run | None = None
        self._open: Attempt | None = None
        self._owed: Any = None  # what the next step of an `async for` has to await first
        self._step: Any = None
        self._token: CancellationToken | None = None
        self._asynchronous = False
        self._is_told = False
        self._is_used = False

    @property
    def outcome(self) -> Outcome:
        """How far the run has come, or how it ended."""
        if self._run is None:
            return Outcome(_NAME, 0, 0.0, 0.0, None, None, None)
        return self._run.outcome()

    def _begin(self, *, asynchronous: bool) -> Self:
        run = self._run
        if run is None:
            self._run = Run(self._rules, _NAME)
            self._script = steps(self._run)
            self._step = next(self._script)
            self._asynchronous = asynchronous
        elif self._is_used or self._asynchronous != asynchronous:
            raise RuntimeError("attempts() is one run and has begun: call it again for another")
        return self

    def __iter__(self) -> Self:
        self._rules.refuse_attempt_timeout()
        return self._begin(asynchronous=False)

    def __next__(self) -> Attempt:
        run = self._begun(asynchronous=False)
        while True:
            step, self._step = self._step, END  # it ends here if it is interrupted
            try:
                self._step = advance(run, self._script, step, until=Enter)
            finally:
                if self._step is END:
                    self._close()
            if self._step is END:
                self._end()
                raise StopIteration
            if self._step is not CALL and self._is_cancelled(run):
                self._step = advance(run, self._script, self._step)
            if self._may_call(run):
                self._open = Attempt(self, run)
                return self._open

    def __aiter__(self) -> Self:
        return self._begin(asynchronous=True)

    async def __anext__(self) -> Attempt:
        run = self._begun(asynchronous=True)
        while True:
            step, self._step = self._step, END
            owed, self._owed = self._owed, None
            if owed is not None:
                try:
                    answer = await owed
                except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                    step = self._script.throw(interrupt)
                else:
                    step = self._script.send(answer)
            try:
                self._step = await advance_async(run, self._script, step, until=Enter)
            finally:
                if self._step is END:
                    self._close()
            if self._step is END:
                self._end()
                raise StopAsyncIteration
            if self._step is not CALL and self._is_cancelled(run):
                self._step = await advance_async(run, self._script, self._step)
            if self._may_call(run):
                self._open = Attempt(self, run)
                return self._open

    def _begun(self, *, asynchronous: bool) -> Run:
        if self._run is None:
            self._begin(asynchronous=asynchronous)
        if self._open is not None:
            raise RuntimeError(
                f"attempt {self._open.number} has not ended: each needs a block, `with attempt:`"
            )
        assert self._run is not None  # noqa: S101 - begun
        self._is_used = True
        return self._run

    def _is_cancelled(self, run: Run) -> bool:
        return run.token is not None and run.attempts > 1 and run.token.cancelled

    def _may_call(self, run: Run) -> bool:
        """Look at the token for the last time before an attempt."""
        if self._step is not CALL or not self._is_cancelled(run):
            return True
        self._step = self._script.send(REFUSED)
        return False

    def _end(self, raised: BaseException | None = None) -> None:
        """Raise how the run ended, once; not if it is what the block raises by itself."""
        assert self._run is not None  # noqa: S101 - begun
        self._close()
        if self._is_told:
            return
        self._is_told = True
        final = self._run.take_final_error()
        if final is None or final is raised:
            return
        if raised is None and isinstance(final, (StopIteration, StopAsyncIteration)):
            # Raised by a step of the loop it would be taken for its end.
            final, cause = RuntimeError(f"the run ended with {type(final).__name__}"), final
            final.__cause__ = cause
        context = final.__context__
        try:
            raise final
        finally:
            final.__context__ = context  # the block's error is its cause, or has become it
            del final, context

    def _close(self) -> None:
        """Tell what the attempts have started that the run has ended."""
        if self._token is not None:
            self._token.cancel()

    def _token_of_run(self) -> CancellationToken:
        assert self._run is not None  # noqa: S101 - begun
        if self._token is None:
            self._token = run_token(self._run)
            if self._step is END:
                self._token.cancel()
        return self._token

    # What a block tells

    def _swallows(self, error: BaseException | None) -> bool:
        """Whether a block is to swallow the error that ended it."""
        if self._step is END:
            self._end(error)
            return False
        return True

    def _advance(self) -> None:
        """Do what the script asks for, up to the wait, where nothing can be awaited."""
        run = self._run
        assert run is not None  # noqa: S101 - begun
        if not self._asynchronous:
            self._step = advance(run, self._script, self._step, until=PAUSE)
            return
        step = self._step
        while step is not CALL and step is not PAUSE and step is not END:
            try:
                answer = step()
            except BaseException as interrupt:  # noqa: BLE001 - the script raises it again
                step = self._script.throw(interrupt)
            else:
                if is_awaitable(answer):
                    self._owed = answer
                    break
                step = self._script.send(answer)
        self._step = step


class Attempt:
    """One attempt: a block, ``with attempt:`` or, in a coroutine, also ``async with attempt:``.

    A coroutine's block is cut by a cancel of the token while it runs, and by the limits of time.
    To leave it by ``break``, ``continue`` or ``return`` is a success. Hooks are called, and
    awaited, at its end; under a plain ``with`` awaitable ones in the next step of the loop.

    Attributes:
        number: Its place, from 1.
    """

    __slots__ = ("_attempts", "_cut", "_has_result", "_is_entered", "_run", "number")

    def __init__(self, attempts: Attempts, run: Run) -> None:
        self._attempts = attempts
        self._run = run
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
        """
        return self._attempts._token_of_run()

    def set_result(self, value: object) -> None:
        """Tell what ``until`` or ``retry_if`` is to judge."""
        self._run.result = value
        self._has_result = True

    def _enter(self) -> None:
        attempts = self._attempts
        if self._is_entered or attempts._open is not self:
            raise RuntimeError(f"the block of attempt {self.number} was entered before")
        self._is_entered = True

    def _begin_block(self) -> None:
        if self._attempts._step is END:  # a hook has failed, or a cancel came
            self._attempts._open = None
            self._attempts._end()
        if self._attempts._asynchronous:
            self._cut = cutting(self._run)
            if self._cut is not None:
                self._cut.scope.enter()

    def __enter__(self) -> Self:
        self._enter()
        attempts = self._attempts
        step = attempts._step
        if isinstance(step, Enter):
            if step.is_async:
                raise RuntimeError(
                    "on_attempt returned an asynchronous context manager, which needs "
                    "`async with attempt:`"
                )
            attempts._step = advance(self._run, attempts._script, step)
        if not attempts._may_call(self._run):
            attempts._step = advance(self._run, attempts._script, attempts._step)
        self._begin_block()
        return self

    def _leave(self, error: BaseException | None) -> None:
        """Tell the script how the block ended."""
        attempts, run = self._attempts, self._run
        script = attempts._script
        attempts._open = None
        if self._cut is not None:
            self._cut.leave(error)
        rules = run.rules
        judges = rules.until is not None or rules.retry_if is not None
        if error is None and judges and not self._has_result:
            run.culprit = "a block without attempt.set_result()"
            attempts._step = script.throw(
                RuntimeError("until and retry_if need attempt.set_result(value)")
            )
        elif error is not None and run.cut is error:
            attempts._step = script.send(CUT)
        elif error is None or isinstance(error, Exception):
            attempts._step = script.send(error)
        else:
            attempts._step = script.throw(error)

    def _ends(self, error: BaseException | None, raised: BaseException) -> bool:
        """Whether an error out of the script is the interrupt that ended the block."""
        self._attempts._step = END
        self._attempts._close()
        return raised is error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            self._leave(error)
            self._attempts._advance()
        except BaseException as raised:
            if self._ends(error, raised):
                return False
            raise
        return self._attempts._swallows(error)

    async def __aenter__(self) -> Self:
        self._enter()
        attempts = self._attempts
        attempts._step = await advance_async(self._run, attempts._script, attempts._step)
        if not attempts._may_call(self._run):
            attempts._step = await advance_async(self._run, attempts._script, attempts._step)
        self._begin_block()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        attempts = self._attempts
        try:
            self._leave(error)
            script, step = attempts._script, attempts._step
            attempts._step = await advance_async(self._run, script, step, until=PAUSE)
        except BaseException as raised:
            if self._ends(error, raised):
                return False
            raise
        return attempts._swallows(error)
