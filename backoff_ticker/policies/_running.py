"""Whoever runs a policy runs its own copy: how a run starts, is told, and its answers checked."""

from __future__ import annotations

from .._sentinels import STOP
from .._validation import LARGEST, as_seconds, safe_repr
from ..clock import resolve_clock
from ._copying import copy_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator

    from .._sentinels import Stop
    from ..channels import Timer
    from ..clock import Clock, Parker, TimerHandle
    from ._protocol import BackOff


def is_feedback(policy: object) -> bool:
    """Whether ``policy`` wants to hear how the work went: it has ``success`` and ``failure``."""
    return callable(getattr(policy, "success", None)) and callable(getattr(policy, "failure", None))


def tell(policy: BackOff, outcome: str, timestamp: float | None) -> float | Stop:
    """Return what a feedback policy answers to ``"success"`` or ``"failure"``.

    It is given a timestamp only where there is one: a class of a user's own may take none.
    """
    answer: Callable[..., float | Stop] = getattr(policy, outcome)
    return answer() if timestamp is None else answer(timestamp)


def checked_delay(policy: object, value: object) -> float:
    """Return what ``policy`` gave as seconds.

    Raises:
        TypeError, ValueError: It is no finite duration of at least 0; the policy is named.
    """
    if type(value) is float and 0.0 <= value <= LARGEST:
        return value + 0.0
    expected = "a finite number of seconds >= 0, a timedelta or STOP"
    return as_seconds(f"what {safe_repr(policy)} returns", value, expected)  # type: ignore[arg-type]


def start_policy(name: str, policy: BackOff, clock: Clock | None) -> BackOff:
    """Return a fresh run of ``policy``: its copy, on ``clock`` (None: the current one), reset.

    Raises:
        TypeError: It is no policy, or cannot be copied; or ``clock`` is no clock.
        Exception: What its ``reset()`` raised.
    """
    run = copy_policy(name, policy, resolve_clock(clock))
    try:
        run.reset()
    except Exception as error:
        error.add_note(f"This came from reset() of the policy given as {name}: {safe_repr(policy)}")
        raise
    return run


class FrozenClock:
    """Stands still until somebody sets ``now``.

    Attributes:
        now: Both of its times, in seconds.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        """Return ``now``."""
        return self.now

    def time(self) -> float:
        """Return ``now``."""
        return self.now

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Refuse: nobody waits here."""
        raise NotImplementedError

    def parker(self, what: str = "") -> Parker:
        """Refuse: nobody waits here."""
        raise NotImplementedError

    def timer(self) -> Timer:
        """Refuse: nobody waits here."""
        raise NotImplementedError


def draw_next(run: BackOff, clock: FrozenClock) -> float | None:
    """Return the next delay of a run, None for ``STOP``; its clock moves on as if that was waited.

    Raises:
        TypeError, ValueError: What the policy returns is no delay.
    """
    delay = run.next_backoff()
    if delay is STOP:
        return None
    checked = checked_delay(run, delay)
    clock.now = min(clock.now + checked, LARGEST)
    return checked


def delays(backoff: BackOff) -> Iterator[float]:
    """Return an iterator over the delays of a fresh run of ``backoff``, in seconds.

    It ends where the policy returns ``STOP``, runs on a copy and waits for nothing. For limits of
    elapsed time each delay counts as waited, and nothing else takes time: they end where those of
    a ticker do that is always served at once. A policy with a ``clock`` of its own reads that.

    Raises:
        TypeError: ``backoff`` is no policy, or (from the iterator) returns what is no number.
        ValueError: From the iterator: the policy returns NaN, an infinity or a negative number.
    """
    clock = FrozenClock()
    return _delays(start_policy("backoff", backoff, clock), clock)


def _delays(run: BackOff, clock: FrozenClock) -> Iterator[float]:
    while (delay := draw_next(run, clock)) is not None:
        yield delay
