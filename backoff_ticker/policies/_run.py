"""Running a policy: starting a copy, asking it, passing on outcomes, checking its answers."""

from __future__ import annotations

from .._errors import CloseReason, TickerClosed
from .._sentinels import STOP, Stop
from .._validation import LARGEST, as_count, as_seconds, safe_repr
from ..cancellation import CancellationToken, any_of, require_token
from ..clock import resolve_clock
from ._base import known
from ._copying import copy_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..clock import Clock
    from ._protocol import BackOff, TimeSource


def is_feedback(policy: object) -> bool:
    """Whether a policy takes feedback: it has the methods ``success`` and ``failure``."""
    return callable(getattr(policy, "success", None)) and callable(getattr(policy, "failure", None))


def token_of(policy: object) -> CancellationToken | None:
    """Return the attribute ``token`` of a policy; None if there is none, or it is not a token."""
    token = getattr(policy, "token", None)
    return token if isinstance(token, CancellationToken) else None


def combined(tokens: Iterable[CancellationToken | None]) -> CancellationToken | None:
    """Return a token that is cancelled with the first of ``tokens``; None if there are none."""
    distinct = [token for token in dict.fromkeys(tokens) if token is not None]
    return any_of(*distinct) if len(distinct) > 1 else next(iter(distinct), None)


def tell(policy: BackOff, outcome: str, timestamp: float | None) -> float | Stop:
    """Return what a policy answers; its method may take no timestamp, so None is not passed on."""
    answer: Callable[..., float | Stop] = getattr(policy, outcome)
    return answer() if timestamp is None else answer(timestamp)


def checked_delay(policy: object, value: object) -> float:
    """Return a delay that ``policy`` returned, in seconds; an error names the policy."""
    if type(value) is float and 0.0 <= value <= LARGEST:
        return value + 0.0
    expected = "a finite number of seconds >= 0, a timedelta or STOP"
    return as_seconds(f"what {safe_repr(policy)} returns", value, expected)  # type: ignore[arg-type]


def start_policy(name: str, policy: BackOff, clock: TimeSource | None) -> BackOff:
    """Return what ``copy_policy()`` returns, by default with the current clock, after a reset."""
    run = copy_policy(name, policy, resolve_clock(None) if clock is None else clock)
    try:
        run.reset()
    except Exception as error:
        error.add_note(f"This came from reset() of the policy given as {name}: {safe_repr(policy)}")
        raise
    return run


# Without waiting


class FrozenClock:
    """A time source that stands still until ``now`` is set, the time of both kinds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        return self.now

    time = monotonic


def draw_next(run: BackOff, clock: FrozenClock, method: str = "next_backoff") -> float | Stop:
    """Return the next delay of a started policy, checked, or ``STOP``; advance its clock by it."""
    delay = tell(run, method, None)
    if delay is not STOP:
        delay = checked_delay(run, delay)
        clock.now = min(clock.now + delay, LARGEST)
    return delay


def delays(backoff: BackOff) -> Iterator[float]:
    """Iterate over the delays of a policy, in seconds, without waiting.

    It uses a copy of ``backoff``, and ends where the policy returns ``STOP``. For limits of elapsed
    time it counts each delay as waited and no time for the attempts. A policy that was given a
    ``clock`` reads that clock instead.

    Raises:
        TypeError: ``backoff`` is not a policy.
        TypeError, ValueError: From the iterator: the policy returned no finite number >= 0.

    Example:
        >>> from backoff_ticker import ExponentialBackOff, delays
        >>> list(delays(ExponentialBackOff(1, 0, 2, max_elapsed_time=10)))
        [1.0, 2.0, 4.0]
    """
    clock = FrozenClock()
    return _drawn(start_policy("backoff", backoff, clock), clock)


def _drawn(run: BackOff, clock: FrozenClock) -> Iterator[float]:
    while (delay := draw_next(run, clock)) is not STOP:
        yield delay


def delay_after(backoff: BackOff, n: int) -> float | Stop:
    """Return what a fresh run of a policy would wait after its ``n``-th failure in a row.

    It is for jobs whose number of failures is kept elsewhere, such as in a database or a message.
    A copy of ``backoff`` is asked, as by ``delays()``, and random delays are drawn again in each
    call. Limits of elapsed time count each delay as waited and no time for the attempts.

    Any ``n`` costs the same. Only a policy with a limit of elapsed time, a feedback policy, and a
    policy or wrapper of your own are asked ``n`` times, or until they return ``STOP``, and
    ``DecorrelatedJitterBackOff`` draws up to 1,000 of the delays before.

    Args:
        backoff: The policy.
        n: The number of failures in a row: an int from 1.

    Returns:
        The seconds to wait; ``STOP`` if the run ends with this failure, or has ended before.

    Raises:
        TypeError, ValueError: As for ``delays()``, or ``n`` is not an int from 1.

    Example:
        >>> from backoff_ticker import ExponentialBackOff, delay_after, with_max_retries
        >>> policy = with_max_retries(ExponentialBackOff(1, 0, 2), 4)
        >>> [delay_after(policy, failures) for failures in (1, 4, 5)]
        [1.0, 8.0, STOP]
    """
    calls = as_count("n", n, 1)
    clock = FrozenClock()
    run = start_policy("backoff", backoff, clock)
    method = "failure" if is_feedback(run) else "next_backoff"
    delay: float | Stop = STOP
    for _ in range(calls - (known(run)._skip(calls - 1) or 0)):
        delay = draw_next(run, clock, method)
        if delay is STOP:
            break
    return delay


# For tickers and retries


class End:
    """Returned in place of a delay where no tick follows; ``error`` is of a policy that failed."""

    __slots__ = ("error", "reason")

    def __init__(self, reason: CloseReason, error: Exception | None = None) -> None:
        self.reason: CloseReason = reason
        self.error: Exception | None = error


def failed_with(error: Exception, role: str, failing_component: object) -> End:
    """Return the end by an error, with a note that names the component."""
    # One that would silently end the reader's loop is wrapped.
    if isinstance(error, (StopIteration, StopAsyncIteration, TickerClosed)):
        wrapped = RuntimeError(f"{safe_repr(failing_component)} raised {type(error).__name__}")
        wrapped.__cause__ = error
        return End(CloseReason.FAILED, wrapped)
    error.add_note(f"This came from {role}: {safe_repr(failing_component)}")
    return End(CloseReason.FAILED, error)


class PolicyRun:
    """A started policy that is asked by one thread at a time. Errors become an ``End``.

    With ``feedback`` it needs the outcome of the work before it says a delay. Its ``token`` is
    cancelled with the one that was given, or with the policy's own; None: neither.
    """

    __slots__ = ("backoff", "feedback", "token")

    def __init__(
        self, backoff: BackOff, clock: Clock, token: CancellationToken | None = None
    ) -> None:
        if token is not None:
            require_token("token", token)
        tokens = (token, token_of(backoff))
        for one in tokens:
            if one is not None and one.deadline is not None and one.clock is not clock:
                raise ValueError(
                    f"token must have its deadline on the clock that it is used with, {clock!r}, "
                    f"not on {one.clock!r}: make the token where that clock is the current one"
                )
        self.backoff: BackOff = backoff
        self.token: CancellationToken | None = combined(tokens)
        self.feedback: bool = is_feedback(backoff)

    def ask(self) -> float | End:
        """Return the next delay, checked, or the end."""
        return self._answer(self.backoff.next_backoff)

    def success(self) -> float | End:
        """Return the delay after a success; without feedback that is the first delay."""
        return self._answer(self.backoff.success) if self.feedback else self.begin()  # type: ignore[attr-defined]

    def failure(self) -> float | End:
        return self._answer(self.backoff.failure)  # type: ignore[attr-defined]

    def begin(self) -> float | End:
        """Reset the policy and return its first delay."""
        return self.reset() or self.ask()

    def reset(self) -> End | None:
        try:
            self.backoff.reset()
        except Exception as error:  # raised to the next reader
            return self.failed(error)
        return None

    def _answer(self, call: Callable[[], float | Stop]) -> float | End:
        try:
            answer = call()
        except Exception as error:  # raised to the next reader
            return self.failed(error)
        return self.parse_answer(answer)

    def parse_answer(self, answer: object) -> float | End:
        """Return an answer of the policy as a checked delay or as an end; keep an ``End``."""
        if isinstance(answer, End):
            return answer
        if answer is STOP:
            cancelled = self.token is not None and self.token.cancelled
            return End(CloseReason.CANCELLED if cancelled else CloseReason.EXHAUSTED)
        try:
            return checked_delay(self.backoff, answer)
        except Exception as error:  # raised to the next reader
            return self.failed(error)

    def failed(self, error: Exception) -> End:
        return failed_with(error, "the back-off policy", self.backoff)
