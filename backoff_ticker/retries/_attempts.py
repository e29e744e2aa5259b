"""``attempts``: a retry as a loop whose attempts are blocks."""

from __future__ import annotations

from .._validation import counted, whole_repr
from ._attempt_context import enter_run, leave_run
from ._attempt_scope import attempt_scope, token_of_run
from ._error_chain import set_link
from ._final_error import take_final_error
from ._options import LOOP_OPTIONS, Options
from ._outcome import Outcome
from ._run import CUT, REFUSED, Run
from ._settings import settings
from ._signatures import shows
from ._steps import END, RETRY, EnterManager, GeneratorExitCarrier, Steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Generic, Self, overload

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ._attempt_scope import AttemptScope
    from ._budget_protocol import BudgetLike
    from ._circuit_breaker import CircuitBreaker
    from ._option_types import (
        AsyncHooks,
        AsyncNotify,
        AsyncResultCheck,
        AsyncRetryOn,
        Hooks,
        Notify,
        ResultCheck,
        RetryOn,
        Seconds,
    )
    from ._signatures import AsyncOptions, Options_co, SyncOptions
else:
    from ._signatures import overload

    Options_co, Generic = None, {None: object}  # typing is not imported at run time

_NAME = "attempts()"

_OFF = Options(_NAME, None, {})
_OFF.is_off = True


if TYPE_CHECKING:

    @overload
    def attempts(
        backoff: BackOff | None = None,
        *,
        on: RetryOn = Exception,
        until: ResultCheck | None = None,
        retry_if: ResultCheck | None = None,
        token: CancellationToken | None = None,
        timeout: Seconds | None = None,
        attempt_timeout: None = None,
        max_elapsed_time: Seconds | None = None,
        max_attempts: int | None = None,
        max_retry_after: Seconds | None = 21_600.0,
        notify: Notify | None = None,
        on_attempt: Hooks | None = None,
        on_retry: Hooks | None = None,
        on_success: Hooks | None = None,
        on_give_up: Hooks | None = None,
        budget: BudgetLike | None = None,
        breaker: CircuitBreaker | None = None,
        clock: Clock | None = None,
        timer: TimerLike | None = None,
    ) -> Attempts[SyncOptions]: ...


@overload
def attempts(
    backoff: BackOff | None = None,
    *,
    on: AsyncRetryOn = Exception,
    until: AsyncResultCheck | None = None,
    retry_if: AsyncResultCheck | None = None,
    token: CancellationToken | None = None,
    timeout: Seconds | None = None,
    attempt_timeout: Seconds | None = None,
    max_elapsed_time: Seconds | None = None,
    max_attempts: int | None = None,
    max_retry_after: Seconds | None = 21_600.0,
    notify: AsyncNotify | None = None,
    on_attempt: AsyncHooks | None = None,
    on_retry: AsyncHooks | None = None,
    on_success: AsyncHooks | None = None,
    on_give_up: AsyncHooks | None = None,
    budget: BudgetLike | None = None,
    breaker: CircuitBreaker | None = None,
    clock: Clock | None = None,
    timer: TimerLike | None = None,
) -> Attempts[AsyncOptions]: ...
@shows(attempts)
def attempts(backoff: Any = None, **options: Any) -> Any:
    """Return the attempts of one run, to retry a block of code in a loop.

    Write ``for attempt in attempts(...):`` and ``with attempt:`` inside; in a coroutine use ``async
    for``, and ``with attempt:`` or ``async with attempt:``. The loop ends after a block that
    succeeded. If the error of a block is retried, the loop waits and the block runs again;
    otherwise the block raises the error.

    Example:
        >>> from backoff_ticker import ZeroBackOff, attempts
        >>> for attempt in attempts(ZeroBackOff(), on=OSError, max_attempts=5):
        ...     with attempt:
        ...         if attempt.number < 3:
        ...             raise OSError("not yet")
        ...         print("attempt", attempt.number)
        attempt 3

    Thread safety: each call is a run of its own, on a copy of the policy.

    Args:
        backoff: The policy. None means ``ExponentialBackOff()``.
        **options: The options of ``retry`` but for ``fallback``; ``attempt_timeout`` works in
            ``async for`` only. With ``until`` or ``retry_if``, the block passes its result to
            ``attempt.set_result(value)``.

    Raises:
        TypeError, ValueError: An argument is invalid.
    """
    return Attempts(Options(_NAME, backoff, options, allowed=LOOP_OPTIONS))


class Attempts(Generic[Options_co]):
    """The iterator that ``attempts()`` returns: one run, attempt by attempt.

    It can be iterated once. Call ``attempts()`` again for another loop.

    Example:
        >>> from backoff_ticker import attempts
        >>> run = attempts(max_attempts=3)
        >>> for attempt in run:
        ...     with attempt:
        ...         pass
        >>> run.outcome.attempts
        1

    Thread safety: one thread or task at a time iterates; ``outcome`` may be read in any thread.
    Wakes when: the wait before the next block ends when its time is over or when a token is
    cancelled. After a cancel, no further block runs.
    If cancelled or interrupted: the exception is raised and ends the run; nothing stays behind.
    """

    __slots__ = (
        "_asynchronous",
        "_is_raised",
        "_is_used",
        "_open",
        "_options",
        "_run",
        "_steps",
    )

    def __init__(self, options: Options) -> None:
        self._options = options
        self._run: Run | None = None
        self._steps: Steps | None = None
        self._open: Attempt | None = None
        self._asynchronous = False
        self._is_raised = False
        self._is_used = False

    @property
    def outcome(self) -> Outcome:
        """The state of the run so far, or how it ended."""
        if self._run is None:
            return Outcome(_NAME, 0, 0.0, 0.0, None, None, None)
        return self._run.outcome()

    def __repr__(self) -> str:
        run = self._run
        state, made = ("not begun", 0) if run is None else (run.reason or "open", run.attempts)
        policy = whole_repr(self._options.backoff)
        return f"<Attempts {state}, {counted(made, 'attempt')}, {policy}>"

    def _begin(self, *, asynchronous: bool) -> Self:
        if self._run is None:
            options: Options | None = self._options
            if settings.in_use:
                options = self._options.under_settings()
            run = Run(options or _OFF, _NAME)
            run.awaits = asynchronous
            try:
                if run.is_tracked:
                    enter_run(run)
                self._steps = Steps(run)
            finally:
                if run.is_tracked:
                    leave_run(run)
            self._run = run
            self._asynchronous = asynchronous
        elif self._is_used or self._asynchronous != asynchronous:
            raise RuntimeError("attempts() can be iterated once: call it again for another run")
        return self

    def __iter__(self: Attempts[SyncOptions]) -> Attempts[SyncOptions]:
        self._options.raise_if_attempts_are_cut()
        return self._begin(asynchronous=False)

    def __next__(self) -> Attempt:
        steps = self._used(asynchronous=False)
        try:
            self._enter_run()
            steps.advance(EnterManager)
            while steps.refuse_attempt():
                steps.advance()
        finally:
            self._leave_run()
        if steps.step is END:
            self._end()
            raise StopIteration
        return self._opened(steps)

    def __aiter__(self) -> Self:
        return self._begin(asynchronous=True)

    async def __anext__(self) -> Attempt:
        steps = self._used(asynchronous=True)
        try:
            self._enter_run()
            await steps.advance_async(EnterManager)
            while steps.refuse_attempt():
                await steps.advance_async()
        finally:
            self._leave_run()
        if steps.step is END:
            self._end()
            raise StopAsyncIteration
        return self._opened(steps)

    def _used(self, *, asynchronous: bool) -> Steps:
        if self._run is None:
            self._begin(asynchronous=asynchronous)
        if self._open is not None:
            raise RuntimeError(
                f"attempt {self._open.number} was not made: write `with attempt:` in the loop"
            )
        assert self._steps is not None  # noqa: S101 - begun
        self._is_used = True
        return self._steps

    def _opened(self, steps: Steps) -> Attempt:
        assert self._run is not None  # noqa: S101 - begun
        self._open = Attempt(self, self._run, steps)
        return self._open

    def _end(self, raised: BaseException | None = None) -> None:
        """Raise the error of the run, once; not if the block raises that very error anyway."""
        assert self._run is not None  # noqa: S101 - begun
        if self._is_raised:
            return
        self._is_raised = True
        final = take_final_error(self._run)
        if final is None or final is raised:
            return
        if raised is None and isinstance(final, (StopIteration, StopAsyncIteration)):
            # Raised by a step of the loop, it would end the loop silently.
            final, cause = RuntimeError(f"the run ended with {type(final).__name__}"), final
            final.__cause__ = cause
        context = final.__context__
        try:
            raise final
        finally:
            # `raise` has put the block's error there, but that is in the chain of causes already.
            set_link(final, "__context__", context)
            del final, context

    def _enter_run(self) -> None:
        assert self._run is not None  # noqa: S101 - begun
        if self._run.is_tracked:
            enter_run(self._run)

    def _leave_run(self) -> None:
        """Show no attempt any more; if the run has ended, cancel the token of its attempts."""
        assert self._run is not None  # noqa: S101 - begun
        assert self._steps is not None  # noqa: S101
        if self._run.is_tracked:
            leave_run(self._run)
        if self._steps.step is END:
            self._run.close()


class Attempt:
    """One attempt of a loop over ``attempts()``: a context manager around the block to retry.

    Use ``with attempt:``; in a coroutine ``async with attempt:`` works, too. In a coroutine, a
    cancel of the token and the time limits cut the block. Leaving the block by ``break``,
    ``continue`` or ``return`` counts as a success. Hooks are called at the end of the block, but
    under a plain ``with`` in a coroutine, hooks that have to be awaited run in the next step of the
    loop.

    Example:
        >>> from backoff_ticker import attempts
        >>> for attempt in attempts(until=lambda value: value > 0):
        ...     with attempt:
        ...         attempt.set_result(7)
        >>> attempt.number, attempt.outcome.succeeded
        (1, True)

    Thread safety: enter the block, and read ``token``, in the thread or task of the loop. The
    token itself, and ``outcome``, may be used in any thread.
    Wakes when: the block of a coroutine is cut when a token is cancelled, or when ``timeout`` or
    ``attempt_timeout`` is reached.
    If cancelled or interrupted: the exception is raised and ends the run; nothing stays behind.

    Attributes:
        number: The number of the attempt, from 1.
    """

    __slots__ = ("_attempts", "_has_result", "_is_entered", "_run", "_scope", "_steps", "number")

    def __init__(self, attempts: Attempts, run: Run, steps: Steps) -> None:
        self._attempts = attempts
        self._run = run
        self._steps = steps
        self._scope: AttemptScope | None = None
        self._is_entered = False
        self._has_result = False
        self.number: int = run.attempts

    @property
    def outcome(self) -> Outcome:
        """The state of the run so far, or how it ended."""
        return self._attempts.outcome

    @property
    def token(self) -> CancellationToken:
        """A token to pass to the functions that the block calls.

        It is cancelled with the token of the run, when ``timeout`` is reached, and when the run
        ends. All attempts of a run have the same token.

        Thread safety: read it in the block; the token may be used in any thread.
        """
        return token_of_run(self._run)

    def set_result(self, value: object) -> None:
        """Set the result that ``until`` or ``retry_if`` checks; the last call counts.

        Thread safety: any thread, before the block ends.
        """
        self._run.result = value
        self._has_result = True

    def __repr__(self) -> str:
        state = "running" if self._is_entered else "not begun"
        return f"<Attempt {self.number}, {state if self._attempts._open is self else 'ended'}>"

    def _enter(self) -> None:
        if self._is_entered or self._attempts._open is not self:
            raise RuntimeError(f"attempt {self.number} can be entered once")
        self._is_entered = True

    def _begin_block(self) -> None:
        if self._steps.step is END:  # a hook has failed, or a cancel came
            self._attempts._open = None
            if self._run.ticket is not None:
                self._run.tell_circuit(REFUSED)
            self._attempts._end()
        self._run.is_paid = False
        if self._attempts._asynchronous:
            self._scope = attempt_scope(self._run)
            if self._scope is not None:
                self._scope.block.enter()

    def _end_block(self, error: BaseException | None) -> None:
        """Leave the scope, and answer the step ``ATTEMPT`` with how the block ended."""
        run, steps = self._run, self._steps
        self._attempts._open = None
        if self._scope is not None:
            self._scope.leave(error)
        if run.ticket is not None:
            try:
                run.tell_circuit(CUT if error is not None and run.cut is error else error)
            except Exception as failure:  # noqa: BLE001 - raised at the end
                steps.throw(failure)
                return
        if error is None and run.options.judges_results and not self._has_result:
            run.failing_component = "a block without attempt.set_result()"
            steps.throw(RuntimeError("until and retry_if need attempt.set_result(value)"))
        elif error is not None and run.cut is error:
            steps.answer(CUT)
        elif error is None or isinstance(error, Exception):
            steps.answer(error)
        elif isinstance(error, GeneratorExit):
            steps.throw(GeneratorExitCarrier(error))
        else:
            steps.throw(error)

    def _swallows(self, error: BaseException | None) -> bool:
        """Whether the block swallows the error that ended it, because the loop goes on."""
        if self._steps.step is END:
            self._attempts._end(error)
            return False
        return True

    def __enter__(self) -> Self:
        self._enter()
        step = self._steps.step
        if isinstance(step, EnterManager) and step.is_async:
            raise RuntimeError(
                "on_attempt returned an asynchronous context manager, which needs "
                "`async with attempt:`"
            )
        # If a cancel came before the block, hooks that need an `await` cannot run here.
        asynchronous = self._attempts._asynchronous
        advance = self._steps.finish_unawaited if asynchronous else self._steps.advance
        try:
            self._attempts._enter_run()
            advance()
            if self._steps.refuse_attempt():
                advance()
            self._begin_block()
        except BaseException:
            self._attempts._leave_run()
            raise
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
                self._steps.advance_unawaited()
            else:
                self._steps.advance(RETRY)
        except BaseException as raised:
            if raised is error or isinstance(raised, GeneratorExitCarrier):
                return False  # the interrupt that ended the block propagates by itself
            raise
        finally:
            self._attempts._leave_run()
        return self._swallows(error)

    async def __aenter__(self) -> Self:
        self._enter()
        try:
            self._attempts._enter_run()
            await self._steps.advance_async()
            if self._steps.refuse_attempt():
                await self._steps.advance_async()
            self._begin_block()
        except BaseException:
            self._attempts._leave_run()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            self._end_block(error)
            await self._steps.advance_async(RETRY)
        except BaseException as raised:
            if raised is error or isinstance(raised, GeneratorExitCarrier):
                return False
            raise
        finally:
            self._attempts._leave_run()
        return self._swallows(error)
