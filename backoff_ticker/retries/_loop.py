"""``attempts``: a retry as a loop whose attempts are blocks."""

from __future__ import annotations

from .._operation import run_at_once
from .._validation import counted, whole_repr
from ._block import Block
from ._cut import raise_if_attempts_are_cut
from ._option_table import LOOP_OPTIONS
from ._options import Options
from ._outcome import Outcome
from ._run import Run
from ._signatures import overload, shows

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
        block = self._begun(awaits=False)
        if block.run.ending is None:
            run_at_once(block.advance)
        return block.given(StopIteration)  # type: ignore[no-any-return]

    def __aiter__(self) -> Self:
        return self._begin(awaits=True)

    async def __anext__(self) -> Attempt:
        block = self._begun(awaits=True)
        if block.run.ending is None:
            await block.advance()
        return block.given(StopAsyncIteration)  # type: ignore[no-any-return]

    def _begin(self, *, awaits: bool) -> Self:
        if self._run is not None or self._awaits is (not awaits):
            raise RuntimeError("attempts() can be iterated once: call it again for another run")
        self._awaits = awaits
        return self

    def _begun(self, *, awaits: bool) -> Any:
        """Return the block of the run, which begins with the first step."""
        if self._awaits is not awaits:
            self._begin(awaits=awaits)
        if self._run is None:
            options = self._options
            self._run = run = Run(options.under_settings(), options.name or _NAME)
            self._block = run.block = Block(run, options, awaits=awaits)
        return self._block
