"""``attempts``: a retry as a loop whose attempts are blocks."""

from __future__ import annotations

from .._operation import now
from .._validation import counted, whole_repr
from ._attempt import show
from ._block import Block
from ._cut import raise_if_attempts_are_cut
from ._final_error import raise_final
from ._option_table import LOOP_OPTIONS
from ._options import Options
from ._outcome import Outcome
from ._run import Run
from ._signatures import overload, shows
from ._steps import enter, interrupted, leave, wait_for_next

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generic, Self, Unpack

    from ..policies import BackOff
    from ._attempt import Attempt
    from ._option_types import AsyncRetryOptions, RetryOptions
    from ._signatures import AsyncOptions, Options_co, SyncOptions
else:
    Options_co, Generic = None, {None: object}  # typing is not imported at run time

_NAME = "attempts()"


@overload
def attempts(
    backoff: BackOff | None = None, **options: Unpack[RetryOptions]
) -> Attempts[SyncOptions]: ...
@overload
def attempts(
    backoff: BackOff | None = None, **options: Unpack[AsyncRetryOptions]
) -> Attempts[AsyncOptions]: ...
@shows(attempts)
def attempts(backoff: Any = None, **options: Any) -> Any:
    """Return the attempts of one run, to retry a block of code in a loop.

    Write ``for attempt in attempts(...):`` and ``with attempt:`` inside; in a coroutine use ``async
    for`` and ``async with attempt:``. The loop ends after a block that succeeded. If the error of a
    block is retried, the loop waits and the block runs again; otherwise the block raises the error.

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
        **options: The options of ``retry`` but for ``fallback``; those of coroutines work in
            ``async for``. With ``until``, the block passes its result to
            ``attempt.set_result(value)``.

    Raises:
        TypeError, ValueError: An argument is invalid.
    """
    return Attempts(Options(_NAME, backoff, options, LOOP_OPTIONS))


class Attempts(Generic[Options_co]):
    """The iterator that ``attempts()`` returns: one run, attempt by attempt, to be iterated once.

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

    __slots__ = ("_awaits", "_block", "_options", "_run")

    def __init__(self, options: Options) -> None:
        self._options = options
        self._run: Run | None = None  # it begins with the first step
        self._block: Any = None  # the Block of that run
        self._awaits: bool | None = None  # None: not iterated yet

    @property
    def outcome(self) -> Outcome:
        """The state of the run so far, or how it ended."""
        run, name = self._run, self._options.name or _NAME
        return Outcome(name, 0, 0.0, 0.0, None, None, None) if run is None else run.outcome()

    def __repr__(self) -> str:
        _, made, *_, reason, _ = self.outcome
        state = (reason or "open") if made else "not begun"
        policy = whole_repr(self._options.backoff)
        return f"<Attempts {state}, {counted(made, 'attempt')}, {policy}>"

    def __del__(self) -> None:
        run = getattr(self, "_run", None)
        if run is not None:  # it may have been left between two blocks
            run.close()
            run.block = None

    if not TYPE_CHECKING:

        def __enter__(self):  # noqa: ANN204 - never returns
            raise TypeError(
                "attempts() is a loop: write `for attempt in attempts(...):` (or `async for`), and "
                "`with attempt:` inside of it"
            )

        __exit__ = __aenter__ = __aexit__ = __enter__

    # A step of the loop

    def __iter__(self: Attempts[SyncOptions]) -> Attempts[SyncOptions]:
        raise_if_attempts_are_cut(self._options)
        return self._begin(awaits=False)

    def __next__(self) -> Attempt:
        run = self._begun(awaits=False)
        if run.ending is None and _has_steps_before(run):
            now(self._advance, run)
        attempt = self._given_by(run)
        if attempt is None:
            raise StopIteration
        return attempt

    def __aiter__(self) -> Self:
        return self._begin(awaits=True)

    async def __anext__(self) -> Attempt:
        run = self._begun(awaits=True)
        if run.ending is None and _has_steps_before(run):
            await self._advance(run)
        attempt = self._given_by(run)
        if attempt is None:
            raise StopAsyncIteration
        return attempt

    def _begin(self, *, awaits: bool) -> Self:
        if self._run is not None or self._awaits is (not awaits):
            raise RuntimeError("attempts() can be iterated once: call it again for another run")
        self._awaits = awaits
        return self

    def _begun(self, *, awaits: bool) -> Run:
        """Return the run, which begins with the first step."""
        if self._awaits is not awaits:
            self._begin(awaits=awaits)
        run = self._run
        if run is None:
            self._run = run = Run(self._options.under_settings(), self._options.name or _NAME)
            self._block = run.block = Block(run, self._options, awaits=awaits)
        self._block.require_made()
        run.awaits = awaits
        return run

    async def _advance(self, run: Run) -> None:
        """Wait for the time of the next attempt; with a breaker, until one may be made."""
        try:
            if run.attempt is not None:
                show(run.attempt)
                await wait_for_next(run)
            while run.ending is None and run.options.breaker is not None:
                show(run.begin())
                refused = run.ask_circuit()
                if run.ending is None:
                    if refused is None:
                        break
                    await enter(run)
                if await leave(run, refused):
                    await wait_for_next(run)
        except BaseException as interrupt:
            await interrupted(run, interrupt)
            raise
        finally:
            self._block.pause()

    def _given_by(self, run: Run) -> Attempt | None:
        """Return the attempt to be made; None: the run has ended."""
        if run.ending is not None:
            if isinstance(run.final, (StopIteration, StopAsyncIteration)):
                # Raised by a step of the loop, it would end the loop silently.
                error = RuntimeError(f"the run ended with {type(run.final).__name__}")
                error.__cause__, run.final = run.final, error
            raise_final(run)
            return None
        if run.options.breaker is None:  # else it has begun, for the circuit to be asked
            run.begin()
        self._block.give()
        return run.attempt


def _has_steps_before(run: Run) -> bool:
    return run.attempts > 0 or run.options.breaker is not None
