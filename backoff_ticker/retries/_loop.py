"""``attempts``: a retry as a loop, whose attempts are blocks."""

from __future__ import annotations

from ._attempt import Attempt
from ._cut import run_token
from ._ending import take_final_error
from ._errors import chain
from ._outcome import Outcome
from ._play import Play
from ._rules import Rules
from ._run import Run
from ._script import END, Enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self, Unpack

    from ..cancellation import CancellationToken
    from ..policies import BackOff
    from ._options import RetryOptions

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

    Thread safety: each call is a run of its own, on a copy of the policy.

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

    Used once: a second loop needs another one.

    Thread safety: one thread or task at a time; ``outcome`` from any thread.
    Wakes when: a step of the loop waits: its time has come, or a token is cancelled; then no
    further block runs.
    If cancelled or interrupted: that passes, and the run is over; nothing stays behind.
    """

    __slots__ = (
        "_asynchronous",
        "_is_raised",
        "_is_used",
        "_open",
        "_play",
        "_rules",
        "_run",
        "_token",
    )

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._run: Run | None = None
        self._play: Play | None = None
        self._open: Attempt | None = None
        self._token: CancellationToken | None = None
        self._asynchronous = False
        self._is_raised = False
        self._is_used = False

    @property
    def outcome(self) -> Outcome:
        """How far the run has come, or how it ended."""
        if self._run is None:
            return Outcome(_NAME, 0, 0.0, 0.0, None, None, None)
        return self._run.outcome()

    def _begin(self, *, asynchronous: bool) -> Self:
        if self._run is None:
            run = Run(self._rules, _NAME)
            self._play = Play(run)
            self._run = run
            self._asynchronous = asynchronous
        elif self._is_used or self._asynchronous != asynchronous:
            raise RuntimeError("attempts() is one run and has begun: call it again for another")
        return self

    def __iter__(self) -> Self:
        self._rules.refuse_attempt_timeout()
        return self._begin(asynchronous=False)

    def __next__(self) -> Attempt:
        play = self._used(asynchronous=False)
        try:
            play.advance(until=Enter)
            if play.refuses():
                play.advance()
        finally:
            self._close()
        if play.step is END:
            self._end()
            raise StopIteration
        return self._opened(play)

    def __aiter__(self) -> Self:
        return self._begin(asynchronous=True)

    async def __anext__(self) -> Attempt:
        play = self._used(asynchronous=True)
        try:
            await play.advance_async(until=Enter)
            if play.refuses():
                await play.advance_async()
        finally:
            self._close()
        if play.step is END:
            self._end()
            raise StopAsyncIteration
        return self._opened(play)

    def _used(self, *, asynchronous: bool) -> Play:
        if self._run is None:
            self._begin(asynchronous=asynchronous)
        if self._open is not None:
            raise RuntimeError(
                f"attempt {self._open.number} has not ended: each needs a block, `with attempt:`"
            )
        assert self._play is not None  # noqa: S101 - begun
        self._is_used = True
        return self._play

    def _opened(self, play: Play) -> Attempt:
        assert self._run is not None  # noqa: S101 - begun
        self._open = Attempt(self, self._run, play)
        return self._open

    def _end(self, raised: BaseException | None = None) -> None:
        """Raise how the run ended, once; not if it is what the block raises by itself."""
        assert self._run is not None  # noqa: S101 - begun
        if self._is_raised:
            return
        self._is_raised = True
        final = take_final_error(self._run)
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
            chain(final, "__context__", context)  # the block's error is its cause, or has become it
            del final, context

    def _close(self) -> None:
        """If the run has ended, tell what the attempts have started."""
        assert self._play is not None  # noqa: S101 - begun
        if self._token is not None and self._play.step is END:
            self._token.cancel()

    def _token_of_run(self) -> CancellationToken:
        assert self._run is not None  # noqa: S101 - begun
        assert self._play is not None  # noqa: S101
        if self._token is None:
            self._token = run_token(self._run)
            if self._play.step is END:
                self._token.cancel()
        return self._token
