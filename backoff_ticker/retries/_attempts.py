"""``attempts``: a retry as a loop whose attempts are blocks."""

from __future__ import annotations

from types import coroutine

from .._validation import counted, whole_repr
from ..clock import resolve_clock
from ._attempt_context import close_run, enter_run, leave_run
from ._attempt_scope import token_of_run
from ._decisions import AWAIT, Marker
from ._engine import CALL, READY, GeneratorExitCarrier, perform
from ._final_error import raise_final
from ._option_table import LOOP_OPTIONS
from ._options import Options
from ._outcome import Outcome, StopReason
from ._run import NO_KWARGS, Run
from ._settings import settings
from ._signatures import overload, shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType
    from typing import Any, Generic, Self, Unpack

    from ..cancellation import CancellationToken
    from ..policies import BackOff
    from ._option_types import AsyncRetryOptions, RetryOptions
    from ._signatures import AsyncOptions, Options_co, SyncOptions
else:
    Options_co, Generic = None, {None: object}  # typing is not imported at run time

_NAME = "attempts()"


@overload
def attempts(
    backoff: BackOff | None = None, *, attempt_timeout: None = None, **options: Unpack[RetryOptions]
) -> Attempts[SyncOptions]: ...
@overload
def attempts(
    backoff: BackOff | None = None, **options: Unpack[AsyncRetryOptions]
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
            ``attempt.set_result(value)``. Without ``name``, the run is called ``attempts()``.

    Raises:
        TypeError, ValueError: An argument is invalid.
    """
    return Attempts(Options(_NAME, backoff, options, LOOP_OPTIONS))


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
    Wakes when: as ``retry``. After a cancel, no further block runs.
    If cancelled or interrupted: the exception is raised and ends the run; nothing stays behind.
    """

    __slots__ = (
        *("_awaits", "_began", "_ended_at", "_error", "_has_ended", "_made", "_monotonic", "_open"),
        *("_options", "_run", "_steps"),
    )

    def __init__(self, options: Options) -> None:
        self._options = options
        self._run: Run | None = None  # None as long as attempts need no more than what follows
        self._made = 0
        self._error: Exception | None = None  # of the last attempt
        self._began = self._ended_at = 0.0
        self._monotonic: Any = None  # of the clock of the run
        self._steps: Any = None  # perform() of the run
        self._open: Attempt | None = None
        self._awaits: bool | None = None
        self._has_ended = False

    @property
    def outcome(self) -> Outcome:
        """The state of the run so far, or how it ended."""
        name = self._options.name or _NAME
        made, error, has_ended = self._made, self._error, self._has_ended
        # After these: in another thread the loop may get a run meanwhile, with which they end.
        if self._run is not None:
            return self._run.outcome()
        if not made:
            return Outcome(name, 0, 0.0, 0.0, None, None, None)
        reason = StopReason.SUCCEEDED if has_ended else None
        elapsed = (self._ended_at if has_ended else self._monotonic()) - self._began
        return Outcome(name, made, elapsed, 0.0, None, reason, error)

    def __repr__(self) -> str:
        _, made, *_, reason, _ = self.outcome
        state = (reason or "open") if self._made else "not begun"
        policy = whole_repr(self._options.backoff)
        return f"<Attempts {state}, {counted(made, 'attempt')}, {policy}>"

    if not TYPE_CHECKING:

        def __enter__(self):  # noqa: ANN204 - never returns
            raise TypeError(
                "attempts() is a loop: write `for attempt in attempts(...):` (or `async for`), and "
                "`with attempt:` inside of it"
            )

        __exit__ = __aenter__ = __aexit__ = __enter__

    def _begin(self, *, awaits: bool) -> Self:
        if self._made or self._awaits is (not awaits):
            raise RuntimeError("attempts() can be iterated once: call it again for another run")
        self._awaits = awaits
        return self

    def _new_run(self, began: float | None = None) -> Run:
        """Return a new run, which goes on after ``_made`` attempts."""
        options = self._options
        if settings.in_use and not self._made:  # else it has begun without them
            options = options.under_settings()
        name = self._options.name or _NAME
        self._run = run = Run(options, name, None, (), NO_KWARGS, self._made, began)
        run.is_loop, run.awaits = True, bool(self._awaits)
        return run

    def _next_at_once(self) -> Attempt | None:
        """Return the next attempt, if nothing has to be done before it."""
        if self._open is not None:
            raise RuntimeError(
                f"attempt {self._open.number} was not made: write `with attempt:` in the loop"
            )
        if not self._made:
            options = self._options
            if options.starts_early or settings.in_use or (self._awaits and options.can_cut):
                self._steps = perform(self._new_run(), None)
                self._made = 1
                return None
            self._monotonic = resolve_clock(options.clock).monotonic
            self._began = self._monotonic()
        elif self._run is not None or self._has_ended:
            return None
        self._made += 1
        self._open = attempt = Attempt(self, self._made)
        return attempt

    def _block_ended(self, error: BaseException | None) -> Any:
        """Note how an attempt has ended; return the next ``Marker``, if that takes a run."""
        self._open = None
        options, run = self._options, self._run
        if self._steps is not None:
            if error is None or isinstance(error, Exception):
                return self._go_on(error)
            carried = GeneratorExitCarrier(error) if isinstance(error, GeneratorExit) else error
            return self._go_on(None, carried)
        if isinstance(error, Exception):
            can_repeat = run is None and options.token is None
            if can_repeat and options.may_try_again(error, self._made, self._began):
                self._error = error
                return None
            self._steps = perform(run or self._new_run(self._began), error)
            self._error = None
            return self._go_on()
        if error is None and run is None:
            self._ended_at = self._monotonic()
        else:
            run = run or self._new_run(self._began)
            run.end(StopReason.SUCCEEDED if error is None else StopReason.INTERRUPTED)
        self._has_ended = True  # last: another thread may ask for the outcome
        if error is None and options.budget is not None:
            options.budget.success()
        return None

    def __iter__(self: Attempts[SyncOptions]) -> Attempts[SyncOptions]:
        self._options.raise_if_attempts_are_cut()
        return self._begin(awaits=False)

    def __next__(self) -> Attempt:
        if self._awaits is not False:
            self._begin(awaits=False)
        attempt = self._next_at_once()
        if attempt is None and self._run is not None:
            try:
                self._next().send(None)
            except StopIteration as end:
                attempt = end.value
        if attempt is None:
            raise StopIteration
        return attempt

    def __aiter__(self) -> Self:
        return self._begin(awaits=True)

    async def __anext__(self) -> Attempt:
        if not self._awaits:
            self._begin(awaits=True)
        attempt = self._next_at_once() or (await self._next())
        if attempt is None:
            raise StopAsyncIteration
        return attempt

    @coroutine  # not async: Python would warn if an interrupt kept it from its first step
    def _next(self) -> Generator[Any, Any, Attempt | None]:
        """Return the next attempt of the run; None if the loop is over. One step in a thread."""
        run = self._run
        if run is not None and not self._has_ended:
            try:
                if run.is_tracked:
                    enter_run(run)
                while (yield from self._go_on_async()) is not READY and not self._has_ended:
                    pass  # RETRY: what comes before the next attempt follows
            finally:
                self._leave()
        if run is None or self._has_ended:
            self._raise_final()
            return None
        self._open = attempt = Attempt(self, run.attempts)
        return attempt

    def _go_on(self, answer: object = None, error: BaseException | None = None) -> Any:
        """Run ``perform()`` up to the next ``Marker``, or what it awaits; return that.

        Where it was, it gets the answer, or the error is raised.
        """
        if self._has_ended:
            return None
        self._has_ended = True  # until perform() yields: if it raises or returns, the run is over
        try:
            step = self._steps.throw(error) if error is not None else self._steps.send(answer)
        except StopIteration:
            return None
        self._has_ended = False
        return step

    @coroutine
    def _go_on_async(self) -> Generator[Any, Any, Any]:
        """Do what ``_go_on()`` does in a coroutine, up to a ``Marker`` that says where a run is."""
        step = self._go_on()
        while not self._has_ended and (step.__class__ is not Marker or step is AWAIT):
            try:
                value = None if step is AWAIT else (yield step)
            except BaseException as error:  # noqa: BLE001 - perform() raises it again
                step = self._go_on(None, error)
            else:
                step = self._go_on(value)
        return step

    def _leave(self) -> None:
        """Show no attempt any more; if the run has ended, cancel the token of its attempts."""
        run = self._run
        if run is not None and (run.is_tracked or self._has_ended):
            leave = close_run if self._has_ended else leave_run
            try:
                leave(run)
            except BaseException:  # an interrupt
                leave(run)
                raise

    def _raise_final(self, ended_by: BaseException | None = None) -> None:
        """Raise the error of the run, once; not if the block raises that very error anyway."""
        run = self._run
        if run is None:
            return
        if ended_by is None and isinstance(run.final, (StopIteration, StopAsyncIteration)):
            # Raised by a step of the loop, it would end the loop silently.
            final = RuntimeError(f"the run ended with {type(run.final).__name__}")
            final.__cause__, run.final = run.final, final
        raise_final(run, ended_by)


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

    __slots__ = ("_attempts", "_is_entered", "number")

    def __init__(self, attempts: Attempts, number: int) -> None:
        self._attempts = attempts
        self._is_entered = False
        self.number: int = number

    @property
    def outcome(self) -> Outcome:
        """The state of the run so far, or how it ended."""
        return self._attempts.outcome

    @property
    def token(self) -> CancellationToken:
        """A token to pass to the functions that the block calls.

        It is cancelled with the token of the run, when ``timeout`` is reached, and when the run
        ends. All attempts of a run have the same token.
        """
        attempts = self._attempts
        return token_of_run(attempts._run or attempts._new_run(attempts._began))

    def set_result(self, value: object) -> None:
        """Set the result that ``until`` or ``retry_if`` checks; the last call counts.

        Thread safety: any thread, before the block ends.
        """
        run = self._attempts._run
        if run is not None:  # else nothing checks it
            run.result = value

    def __repr__(self) -> str:
        state = "running" if self._is_entered else "not begun"
        return f"<Attempt {self.number}, {state if self._attempts._open is self else 'ended'}>"

    def _enter(self) -> Attempts:
        attempts = self._attempts
        if self._is_entered or attempts._open is not self:
            raise RuntimeError(f"attempt {self.number} can be entered once")
        self._is_entered = True
        return attempts

    def _entered(self, step: object) -> Self:
        """Return this, or raise why the block must not run: a cancel came."""
        attempts = self._attempts
        if step is not CALL:
            attempts._open = None
            attempts._raise_final()
        return self

    def _swallows(self, error: BaseException | None) -> bool:
        """Whether the block swallows the error that ended it, because the loop goes on."""
        if self._attempts._has_ended:
            self._attempts._raise_final(error)
            return False
        return True

    def __enter__(self) -> Self:
        attempts = self._enter()
        run = attempts._run
        if run is None or attempts._steps is None:
            return self
        try:
            if run.is_tracked:
                enter_run(run)
            if run.needs_await:
                raise RuntimeError(  # noqa: TRY301
                    "on_attempt returned an asynchronous context manager, which needs "
                    "`async with attempt:`"
                )
            step = attempts._go_on()
            while step is AWAIT:  # a cancel came, and its hooks cannot be awaited here
                step = attempts._go_on(True)  # noqa: FBT003
            return self._entered(step)
        except BaseException:
            attempts._leave()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        attempts = self._attempts
        try:
            attempts._block_ended(error)
            if attempts._run is None:
                return not attempts._has_ended
        except BaseException as raised:
            if raised is error or isinstance(raised, GeneratorExitCarrier):
                return False  # the interrupt that ended the block propagates by itself
            raise
        finally:
            if attempts._run is not None:
                attempts._leave()
        return self._swallows(error)

    async def __aenter__(self) -> Self:
        attempts = self._enter()
        run = attempts._run
        if run is None or attempts._steps is None:
            return self
        try:
            if run.is_tracked:
                enter_run(run)
            return self._entered(await attempts._go_on_async())
        except BaseException:
            attempts._leave()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            if self._attempts._block_ended(error) is AWAIT:
                await self._attempts._go_on_async()
        except BaseException as raised:
            if raised is error or isinstance(raised, GeneratorExitCarrier):
                return False
            raise
        finally:
            self._attempts._leave()
        return self._swallows(error)
