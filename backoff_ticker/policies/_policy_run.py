"""A policy while somebody runs it: the copy, what it answers, the tokens that it holds."""

from __future__ import annotations

from .._errors import CloseReason, TickerClosed
from .._sentinels import STOP
from .._validation import safe_repr
from ..cancellation import any_of, require_token
from ._announce import listening
from ._running import checked_delay, is_feedback
from ._token_backoff import token_policies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._sentinels import Stop
    from ..cancellation import CancellationToken
    from ..clock import Clock
    from ._protocol import BackOff


class End:
    """In place of a delay: no tick comes after the one before."""

    __slots__ = ("error", "reason")

    def __init__(self, reason: CloseReason, error: Exception | None = None) -> None:
        self.reason = reason
        self.error = error


def failed_with(error: Exception, role: str, culprit: object) -> End:
    """Return the end with an error that names ``culprit``, in a form that no loop mistakes."""
    if isinstance(error, (StopIteration, StopAsyncIteration, TickerClosed)):
        wrapped = RuntimeError(f"{safe_repr(culprit)} raised {type(error).__name__}")
        wrapped.__cause__ = error
        return End(CloseReason.FAILED, wrapped)
    error.add_note(f"This came from {role}: {safe_repr(culprit)}")
    return End(CloseReason.FAILED, error)


class PolicyRun:
    """Asks one policy; asked by one thread at a time, which has claimed the ticker's turn.

    Attributes:
        backoff: The policy: the ticker's own copy.
        feedback: Whether it wants to hear how the work went before it says a delay.
        fast_path: Whether it can simply be asked: it wants no feedback, and all tokens inside are
            known. A reader then asks it without a detour.
        token: What cancels the ticker: the token it was given, those found inside the policy, and
            those that the policy announced.
    """

    __slots__ = ("_clock", "_tokens", "backoff", "fast_path", "feedback", "token")

    def __init__(
        self, backoff: BackOff, clock: Clock, tokens: tuple[CancellationToken, ...]
    ) -> None:
        self._clock = clock
        self._tokens: tuple[CancellationToken, ...] = ()
        self.token: CancellationToken | None = None
        for token in tokens:
            self._add_token(token)
        inside = token_policies(backoff)
        for policy in inside or ():
            self._add_token(policy.token)
            policy.announces = False
        self.backoff = backoff
        self.feedback = is_feedback(backoff)
        self.fast_path = inside is not None and not self.feedback

    def _add_token(self, token: CancellationToken) -> None:
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

    def ask(self) -> float | End:
        """Return the next delay, checked, or how the policy ends."""
        return self._answer(self.backoff.next_backoff)

    def success(self) -> float | End:
        """Return the delay after a success: a feedback policy's answer, else a first delay."""
        return self._answer(self.backoff.success) if self.feedback else self.begin()  # type: ignore[attr-defined]

    def failure(self) -> float | End:
        """Return a feedback policy's delay after a failure."""
        return self._answer(self.backoff.failure)  # type: ignore[attr-defined]

    def begin(self) -> float | End:
        """Reset the policy and return its first delay."""
        return self.reset() or self.ask()

    def reset(self) -> End | None:
        """Reset the policy; return how it ends if that fails."""
        try:
            self.backoff.reset()
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            return self.failed(error)
        return None

    def _answer(self, ask: Callable[[], float | Stop]) -> float | End:
        try:
            delay = ask() if self.fast_path else listening(ask, self._add_token)
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            return self.failed(error)
        return self.parse_answer(delay)

    def parse_answer(self, delay: object) -> float | End:
        """Return what the policy answered as a delay, checked, or as how the policy ends."""
        if isinstance(delay, End):
            return delay
        if delay is STOP:
            cancelled = self.token is not None and self.token.cancelled
            return End(CloseReason.CANCELLED if cancelled else CloseReason.EXHAUSTED)
        try:
            return checked_delay(self.backoff, delay)
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            return self.failed(error)

    def failed(self, error: Exception) -> End:
        """Return the end with an error that names the policy."""
        return failed_with(error, "the back-off policy", self.backoff)
