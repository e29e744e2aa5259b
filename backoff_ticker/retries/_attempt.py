"""``Attempt``, and ``current_attempt``: which attempt runs here, in a context variable.

A run that has ended is passed over, so it does not matter in which order runs end that have begun
inside each other, as in generators that take turns.
"""

from __future__ import annotations

from contextvars import ContextVar

from ..waiting import protected_in_trio

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from ..cancellation import CancellationToken
    from ._outcome import Outcome


class Attempt:
    """One attempt of a retry: what a loop over ``attempts()`` gives, and ``current_attempt()``.

    In a loop it is the context manager around the block to retry: ``with attempt:``, and in ``async
    for`` ``async with attempt:``. Leaving the block by ``break``, ``continue`` or ``return`` counts
    as a success. In ``async for``, a plain ``with attempt:`` raises a ``TypeError`` where something
    has to cut the block, or to be awaited.

    Example:
        >>> from backoff_ticker import attempts
        >>> for attempt in attempts(until=lambda value: value > 0):
        ...     with attempt:
        ...         attempt.set_result(7)
        >>> attempt.number, attempt.outcome.succeeded
        (1, True)

    Thread safety: enter the block in the thread or task of the loop; everything else may be used in
    any thread. A token or a time limit cuts the block of an ``async with``.

    Attributes:
        number: The number of the attempt, from 1.
        waited: The seconds that the run has spent in waits between attempts before this one.
    """

    # No __slots__: its token is made at most once, by setdefault() on its __dict__.
    cut_at: float | None = None  # when its own timeout cuts it, on the clock of the run
    _has_ended: bool = False
    _is_asked: bool = False  # for its token

    def __init__(self, run: Any, number: int, waited: float = 0.0) -> None:
        self._run: Any = run  # a run, or the attempt of a hedged call
        self.number: int = number
        self.waited: float = waited

    @property
    def name(self) -> str:
        """What ``name=`` says, or else the ``__qualname__`` of the operation."""
        return self._run.name

    @property
    def outcome(self) -> Outcome:
        """The state of the run so far, or how it ended."""
        return self._run.outcome()

    @property
    def time_left(self) -> float | None:
        """The seconds until the first time limit; None if there is no limit.

        The limits are ``timeout``, the deadline of the token and, in a coroutine, that of the
        attempt. The value is 0.0 once a limit has passed. Many clients refuse a timeout of 0: pass
        ``max(0.01, attempt.time_left)``.
        """
        run = self._run
        cut_at = None if self._has_ended else self.cut_at
        cut = run.limits.first_cut(run.limits.token, cut_at)
        return None if cut is None else max(0.0, cut[0] - run.clock.monotonic())

    @property
    def token(self) -> CancellationToken:
        """A token to pass to the functions that the attempt calls.

        It is cancelled with the token of the run, when a time limit of ``time_left`` is reached,
        and when the attempt ends. It is the same whenever it is asked for.
        """
        self._is_asked = True
        token = self.__dict__.get("made")
        if token is None:
            run = self._run
            made = run.limits.derived(run.clock, run.limits.token, self.cut_at)
            token = self.__dict__.setdefault("made", made)  # two threads may have made one
        if self._has_ended:
            token.cancel()
        return token

    def end(self) -> None:
        """Cancel the token: the attempt has ended. May be repeated."""
        self._has_ended = True  # first: a thread that makes the token meanwhile looks at it
        if self._is_asked:
            token = self.__dict__.get("made")
            if token is not None:
                token.cancel()

    # In a loop

    def set_result(self, result: object) -> None:
        """Tell ``until`` the result of the block; the last one counts.

        Raises:
            RuntimeError: It is not the attempt of a loop, or its block is not running.
        """
        self._block("inside").run.result = result

    def __enter__(self) -> Self:
        self._block("given").enter(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        return self._block("inside").exit(error)

    async def __aenter__(self) -> Self:
        await self._block("given").enter_async(self)
        return self

    @protected_in_trio
    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> bool:
        return await self._block("inside").exit_async(error)

    def _block(self, stage: str) -> Any:
        """Return the block of the loop, if it is at ``stage`` of this attempt."""
        block = getattr(self._run, "block", None)
        if block is None or block.stage != stage or block.run.attempt is not self:
            raise RuntimeError(
                f"{self!r} has no block now: in a loop over attempts(), each step enters `with "
                "attempt:` once, and set_result() is called inside of it"
            )
        return block

    def __repr__(self) -> str:
        state = ", ended" if self._has_ended else ""
        return f"<Attempt {self.number} of {self.name}{state}>"


_here: ContextVar[Any] = ContextVar("current_attempt", default=None)
"""The attempt that is shown, and what is shown around it: another such pair, or None."""


def show(attempt: Attempt) -> None:
    """Show an attempt inside what is shown here, in place of an earlier one of its run."""
    shown, run = _here.get(), attempt._run
    run.is_shown = True
    if shown is not None:
        shown = shown[1] if shown[0]._run is run else _without(run, shown)
    _here.set((attempt, shown))


def hide(run: Any) -> None:
    """Show the attempt of ``run`` no more, but what was shown before, or is shown inside of it."""
    if run.is_shown:  # else a finalizer may have called this: see interrupted()
        run.is_shown = False
        shown = _here.get()
        while shown is not None and not shown[0]._run.is_shown:
            shown = shown[1]
        _here.set(shown)


def _without(run: Any, shown: Any) -> Any:
    """Return new pairs of what is still shown, but for ``run``: pairs that stayed would grow."""
    kept = []
    while shown is not None:
        attempt, shown = shown
        if attempt._run.is_shown and attempt._run is not run:
            kept.append(attempt)
    for attempt in reversed(kept):
        shown = attempt, shown
    return shown


def current_attempt() -> Attempt | None:
    """Return the attempt that the calling code runs in; None outside of a retry.

    Call it in the operation, in functions that the operation calls, and in hooks, predicates and
    policies of the retry: there it is the attempt that has just ended or is about to begin. Of
    nested retries it is the innermost that has not ended.

    Tasks that an attempt starts, and ``asyncio.to_thread()``, see it, too; a thread that it starts
    sees it only if it runs in a copy of the context.

    Example:
        >>> from backoff_ticker import current_attempt, retry
        >>> @retry(max_attempts=3)
        ... def fetch():
        ...     return current_attempt().number
        >>> fetch(), current_attempt()
        (1, None)

    Thread safety: any thread or task; each sees its own attempt.
    """
    shown = _here.get()
    while shown is not None and not shown[0]._run.is_shown:
        shown = shown[1]
    attempt: Attempt | None = None if shown is None else shown[0]
    return attempt
