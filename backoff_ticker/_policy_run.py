"""A policy while somebody runs it: the copy, what it answers, the tokens that it holds."""

from __future__ import annotations

from ._announce import listening
from ._errors import TickerClosed
from ._numbers import shown
from ._schedule import CloseReason
from ._stop import STOP
from ._token import any_of, require_token
from ._turn import Last
from .policies._running import checked_delay, is_feedback
from .policies._token_backoff import token_policies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._protocols import BackOff, Clock
    from ._stop import Stop
    from ._token import CancellationToken

__all__ = ["PolicyRun", "failed_with"]


def failed_with(error: Exception, role: str, culprit: object) -> Last:
    """Return the end with an error that names ``culprit``, in a form that no loop mistakes."""
    if isinstance(error, (StopIteration, StopAsyncIteration, TickerClosed)):
        wrapped = RuntimeError(f"{shown(culprit)} raised {type(error).__name__}")
        wrapped.__cause__ = error
        return Last(CloseReason.FAILED, wrapped)
    error.add_note(f"This came from {role}: {shown(culprit)}")
    return Last(CloseReason.FAILED, error)


class PolicyRun:
    """Asks one policy; asked by one thread at a time, which has claimed the ticker's turn.

    Attributes:
        backoff: The policy: the ticker's own copy.
        feedback: Whether it wants to hear how the work went before it says a delay.
        straight: Whether it can simply be asked: it wants no feedback, and all tokens inside are
            known. A reader then asks it without a detour.
        token: What cancels the ticker: the token it was given, those found inside the policy, and
            those that the policy announced.
    """

    __slots__ = ("_clock", "_tokens", "backoff", "feedback", "straight", "token")

    def __init__(
        self, backoff: BackOff, clock: Clock, tokens: tuple[CancellationToken, ...]
    ) -> None:
        self._clock = clock
        self._tokens: tuple[CancellationToken, ...] = ()
        self.token: CancellationToken | None = None
        for token in tokens:
            self._hear(token)
        inside = token_policies(backoff)
        for policy in inside or ():
            self._hear(policy.token)
            policy.announces = False
        self.backoff = backoff
        self.feedback = is_feedback(backoff)
        self.straight = inside is not None and not self.feedback

    def _hear(self, token: CancellationToken) -> None:
        if token in self._tokens:
            return
        require_token("token", token)
        if token.deadline is not None and token.clock is not self._clock:
            raise ValueError(
                f"token must have its deadline on the clock of its user, {self._clock!r}, "
                f"not on {token.clock!r}"
            )
        self._tokens = (*self._tokens, token)
        self.token = token if len(self._tokens) == 1 else any_of(*self._tokens)

    def ask(self) -> float | Last:
        """Return the next delay, checked, or how the policy ends."""
        return self._answer(self.backoff.next_backoff)

    def success(self) -> float | Last:
        """Return the delay after a success: a feedback policy's answer, else a first delay."""
        return self._answer(self.backoff.success) if self.feedback else self.begin()  # type: ignore[attr-defined]

    def failure(self) -> float | Last:
        """Return a feedback policy's delay after a failure."""
        return self._answer(self.backoff.failure)  # type: ignore[attr-defined]

    def begin(self) -> float | Last:
        """Reset the policy and return its first delay."""
        return self.reset() or self.ask()

    def reset(self) -> Last | None:
        """Reset the policy; return how it ends if that fails."""
        try:
            self.backoff.reset()
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            return self.failed(error)
        return None

    def _answer(self, ask: Callable[[], float | Stop]) -> float | Last:
        try:
            delay = ask() if self.straight else listening(ask, self._hear)
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            return self.failed(error)
        return self.judged(delay)

    def judged(self, delay: object) -> float | Last:
        """Return what the policy answered as a delay, checked, or as how the policy ends."""
        if isinstance(delay, Last):
            return delay
        if delay is STOP:
            cancelled = self.token is not None and self.token.cancelled
            return Last(CloseReason.CANCELLED if cancelled else CloseReason.EXHAUSTED)
        try:
            return checked_delay(self.backoff, delay)
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            return self.failed(error)

    def failed(self, error: Exception) -> Last:
        """Return the end with an error that names the policy."""
        return failed_with(error, "the back-off policy", self.backoff)
