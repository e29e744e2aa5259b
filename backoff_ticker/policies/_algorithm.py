"""The rules that the seven policies of Perl's Algorithm::Backoff share."""

from __future__ import annotations

from math import inf

from .._random import as_rng, draw_from
from .._sentinels import STOP
from .._validation import LARGEST, as_count, as_flag, as_fraction, as_number, as_seconds
from ..clock import resolve_clock
from ._algorithm_bounds import each_failure_bounds, failure_bounds
from ._base import Policy
from ._elapsed import OnClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta
    from random import Random
    from typing import ClassVar, TypedDict

    from .._sentinels import Stop
    from ..clock import Clock
    from ._base import Bounds, Calls

    class AlgorithmOptions(TypedDict, total=False):
        """The options of ``AlgorithmBackOff``."""

        consider_actual_delay: bool
        max_actual_duration: float | timedelta
        max_attempts: int
        jitter_factor: float
        min_delay: float | timedelta
        max_delay: float | timedelta | None
        rng: Random | None
        clock: Clock | None


class AlgorithmBackOff(OnClock, Policy):
    """What the seven feedback policies of Algorithm::Backoff share: their options and steps.

    It has no rule for a delay itself: make one of the seven.

    ``failure()``, in this order: ``STOP`` once ``max_actual_duration`` has passed since the start;
    one attempt more is counted, and at ``max_attempts`` it is ``STOP``; a timestamp before the
    last accepted one is refused; the raw delay by the rule of the class; with
    ``consider_actual_delay`` plus the delay returned before, less the time since the timestamp
    before; jitter; at most ``max_delay``, then at least 0, then at least ``min_delay``, which so
    wins. ``success()`` counts attempts anew and goes the same way from the timestamp on.

    Where a rule builds on the delay before, that is the one returned, jitter and limits included.
    A ticker tells what it is told (``ticker.success()``); an ask for the next tick without a word
    counts as a failure.

    Source: ``Algorithm::Backoff`` of Perl. Its -1 is ``STOP`` here; it does not check values.

    Args:
        consider_actual_delay: Whether time that passed between calls counts as waited.
        max_actual_duration: Seconds since construction or ``reset()`` at which failures get
            ``STOP``; 0: never.
        max_attempts: Give up at so many failures in a row: 1 never retries; 0: no limit.
        jitter_factor: 0 <= factor < 1: a delay is drawn uniformly from ``delay * (1 - factor)``
            to ``delay * (1 + factor)``; 0 draws nothing.
        min_delay: The least delay, seconds >= 0.
        max_delay: The greatest delay, seconds >= 0; None: the largest float.
        rng: A ``random.Random`` to draw from; copies share it. None: a generator of the package's
            own, which no seed fixes and a forked child seeds anew.
        clock: Its ``time()`` is the start and the timestamp of a call without one. None: the clock
            of the ticker that runs the policy; where nobody runs it, the current clock.

    Attributes:
        attempts: Failures in a row since the last success.
        last_delay: The delay returned last; None before the first.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.

    Not to be called by several threads at once; whoever runs a policy runs a copy of its own.
    """

    __slots__ = (
        "_clock",
        "_lent",
        "_rng",
        "_start",
        "_timestamp",
        "attempts",
        "consider_actual_delay",
        "jitter_factor",
        "last_delay",
        "max_actual_duration",
        "max_attempts",
        "max_delay",
        "min_delay",
    )

    _shown_unless: ClassVar[dict[str, object]] = {
        "consider_actual_delay": False,
        "max_actual_duration": 0.0,
        "max_attempts": 0,
        "jitter_factor": 0.0,
        "min_delay": 0.0,
        "max_delay": None,
    }

    def __init__(  # noqa: PLR0913 - the options of the source
        self,
        *,
        consider_actual_delay: bool = False,
        max_actual_duration: float | timedelta = 0.0,
        max_attempts: int = 0,
        jitter_factor: float = 0.0,
        min_delay: float | timedelta = 0.0,
        max_delay: float | timedelta | None = None,
        rng: Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.consider_actual_delay: bool = as_flag("consider_actual_delay", consider_actual_delay)
        self.max_actual_duration: float = as_seconds("max_actual_duration", max_actual_duration)
        self.max_attempts: int = as_count("max_attempts", max_attempts)
        self.jitter_factor: float = as_fraction("jitter_factor", jitter_factor)
        self.min_delay: float = as_seconds("min_delay", min_delay)
        self.max_delay: float | None = (
            None if max_delay is None else as_seconds("max_delay", max_delay)
        )
        self._rng = as_rng("rng", rng)
        self._choose_clock(clock)
        self._lent = False
        self._begin()

    def _begin(self) -> None:
        self.attempts: int = 0
        self.last_delay: float | None = None
        self._timestamp: float | None = None
        self._start = resolve_clock(self._clock).time()

    def _on_failure(self) -> float:
        """Return the raw delay after the failure that ``attempts`` counts already."""
        raise NotImplementedError

    def _on_success(self) -> float:
        """Return the raw delay after a success."""
        raise NotImplementedError

    def _before_first(self) -> float:
        """Return what counts as the delay returned before the first."""
        return 0.0

    def _raw_bounds(self, n: int, last: Bounds | None) -> Bounds:
        """Return the bounds of the raw delay of failure ``n``, after one within ``last``."""
        raise NotImplementedError

    def _growth(self) -> Bounds | None:
        """Return the factor and summand by which a raw delay follows from the one before, if so."""
        return None

    def failure(self, timestamp: float | None = None) -> float | Stop:
        """Tell that an attempt failed; return the seconds until the next, or ``STOP``.

        Args:
            timestamp: When, in any seconds that do not go back. None: ``clock.time()``; in a ticker
                that lends its clock, a time that was set back is taken to stand still.

        Raises:
            TypeError, ValueError: ``timestamp`` is no finite number, or less than the one before;
                nothing has changed then.
        """
        now = self._moment(timestamp)
        if 0.0 < self.max_actual_duration <= now - self._start:
            return STOP
        attempts = self.attempts + 1
        if self.max_attempts and attempts >= self.max_attempts:
            self.attempts = attempts
            return STOP
        self._check(now)
        self.attempts = attempts
        return self._settle(self._on_failure(), now)

    def success(self, timestamp: float | None = None) -> float:
        """Tell that an attempt succeeded; return the seconds until the next.

        Takes and raises what ``failure()`` does.
        """
        now = self._moment(timestamp)
        self._check(now)
        self.attempts = 0
        return self._settle(self._on_success(), now)

    def next_backoff(self) -> float | Stop:
        """Return what ``failure()`` returns."""
        return self.failure()

    def reset(self) -> None:
        """Begin anew, the start too."""
        self._begin()

    def _moment(self, timestamp: float | None) -> float:
        if timestamp is None:
            now = resolve_clock(self._clock).time()
            return max(now, self._timestamp) if self._lent and self._timestamp is not None else now
        return as_number("timestamp", timestamp)

    def _check(self, now: float) -> None:
        if self._timestamp is not None and now < self._timestamp:
            raise ValueError(
                f"timestamp must not be less than the one before ({self._timestamp!r}), not {now!r}"
            )

    def _settle(self, raw: float, now: float) -> float:
        delay = raw
        if self.consider_actual_delay:
            before = self._before_first() if self.last_delay is None else self.last_delay
            passed = 0.0 if self._timestamp is None else now - self._timestamp
            delay = min(raw + before, LARGEST) - passed
        if self.jitter_factor and delay:
            least, greatest = self._jittered(delay)
            delay = least + (greatest - least) * draw_from(self._rng)
        delay = self._limited(delay)
        self._timestamp = now
        self.last_delay = delay
        return delay

    def _jittered(self, delay: float) -> Bounds:
        """Return between what the jitter draws."""
        return (
            max(-LARGEST, min(delay * (1.0 - self.jitter_factor), LARGEST)),
            max(-LARGEST, min(delay * (1.0 + self.jitter_factor), LARGEST)),
        )

    def _limited(self, delay: float) -> float:
        if self.max_delay is not None:
            delay = min(delay, self.max_delay)
        return max(min(delay, LARGEST), 0.0, self.min_delay)

    def _at(self, n: int) -> Bounds | None:
        return failure_bounds(self, n)

    def _each_bounds(self) -> Iterator[Bounds | None]:
        return each_failure_bounds(self)

    def _calls(self) -> Calls:
        most = self.max_attempts - 1 if self.max_attempts else inf
        return (0 if self.max_actual_duration else most), most

    def _bind_clock(self, clock: Clock) -> None:
        self._lent = self._lent or self._clock is None
        super()._bind_clock(clock)
