"""Exponential back-off as in Google's Java client and cenkalti/backoff v4."""

from __future__ import annotations

from math import inf

from .._random import as_rng, draw_from
from .._sentinels import STOP
from .._validation import LARGEST, as_factor, as_flag, as_fraction, as_seconds
from ._base import Policy, geometric
from ._elapsed import ElapsedTime, too_late

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random
    from typing import ClassVar

    from .._sentinels import Stop
    from ..clock import Clock
    from ._base import Bounds, Calls


class ExponentialBackOff(ElapsedTime, Policy):
    """Wait longer each time, around an interval that grows by a factor up to a maximum.

    Call number ``n`` (from 0) draws a delay uniformly from ``interval * (1 - factor)`` to
    ``interval * (1 + factor)``, where ``factor`` is the ``randomization_factor`` and ``interval``
    is ``min(initial_interval * multiplier**n, max_interval)``. So ``max_interval`` caps the
    interval, not the jittered delay, which can be ``max_interval * (1 + factor)``.

    Source: ``ExponentialBackOff`` of Google's HTTP Client Library for Java (formula, defaults,
    validation) and of cenkalti/backoff v4 (``look_ahead``).

    Args:
        initial_interval: The first interval: seconds > 0, or a ``datetime.timedelta``.
        randomization_factor: 0 <= factor < 1; 0 draws nothing.
        multiplier: >= 1.
        max_interval: The greatest interval, seconds >= ``initial_interval``.
        max_elapsed_time: Seconds since construction or ``reset()`` after which the policy stops;
            None or 0: never.
        look_ahead: True (Go): ``STOP`` when elapsed time plus the drawn delay would pass the
            limit; the interval advances all the same. False (Java): ``STOP`` once the elapsed
            time has passed it; nothing is drawn or advanced. Equality passes in both.
        rng: A ``random.Random`` to draw from; copies share it. None: a generator of the package's
            own, which no seed fixes and a forked child seeds anew.
        clock: What measures the elapsed time. None: the clock of the ticker that runs the policy;
            where nobody runs it, the current clock.

    Raises:
        TypeError, ValueError: A parameter is no finite number in its range.

    Not to be called by several threads at once; whoever runs a policy runs a copy of its own.
    """

    __slots__ = (
        "_clock",
        "_interval",
        "_rng",
        "_start",
        "_step",
        "initial_interval",
        "look_ahead",
        "max_elapsed_time",
        "max_interval",
        "multiplier",
        "randomization_factor",
    )

    _shown: ClassVar[tuple[str, ...]] = (
        "initial_interval",
        "randomization_factor",
        "multiplier",
        "max_interval",
        "max_elapsed_time",
        "look_ahead",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - the parameters of the source
        self,
        initial_interval: float | timedelta = 0.5,
        randomization_factor: float = 0.5,
        multiplier: float = 1.5,
        max_interval: float | timedelta = 60.0,
        max_elapsed_time: float | timedelta | None = 900.0,
        look_ahead: bool = True,  # noqa: FBT001, FBT002 - positional in the published signature
        rng: Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.initial_interval: float = as_seconds("initial_interval", initial_interval)
        self.randomization_factor: float = as_fraction("randomization_factor", randomization_factor)
        self.multiplier: float = as_factor("multiplier", multiplier, 1)
        self.max_interval: float = as_seconds("max_interval", max_interval)
        if self.initial_interval == 0.0:
            raise ValueError(f"initial_interval must be > 0, not {initial_interval!r}")
        if self.max_interval < self.initial_interval:
            raise ValueError(
                f"max_interval must be >= initial_interval ({initial_interval!r}), "
                f"not {max_interval!r}"
            )
        self.look_ahead: bool = as_flag("look_ahead", look_ahead)
        self._rng = as_rng("rng", rng)
        self._step = 0
        self._interval = self.initial_interval
        self._set_elapsed_time(max_elapsed_time, clock)

    @property
    def current_interval(self) -> float:
        """The interval around which the next delay is drawn, in seconds."""
        return self._interval

    def next_backoff(self) -> float | Stop:
        """Return the next delay in seconds, or ``STOP`` at the limit of elapsed time."""
        interval = self._interval
        limit = self.max_elapsed_time
        elapsed = 0.0 if limit is None else self.elapsed_time
        if limit is not None and not self.look_ahead and too_late(elapsed, 0.0, limit):
            return STOP
        spread = interval * self.randomization_factor
        delay = interval
        if spread:
            delay = min(interval + spread * (2.0 * draw_from(self._rng) - 1.0), LARGEST)
        if interval < self.max_interval:
            self._step += 1
            self._interval = self._interval_at(self._step)
        if limit is not None and self.look_ahead and too_late(elapsed, delay, limit):
            return STOP
        return delay

    def reset(self) -> None:
        """Begin anew: the first interval, and elapsed time from now."""
        self._step = 0
        self._interval = self.initial_interval
        self._restart()

    def _interval_at(self, step: int) -> float:
        return min(geometric(self.initial_interval, self.multiplier, step), self.max_interval)

    def _at(self, n: int) -> Bounds | None:
        interval = self._interval_at(n - 1)
        spread = interval * self.randomization_factor
        least, greatest = interval - spread, min(interval + spread, LARGEST)
        if self.max_elapsed_time is None or not self.look_ahead:
            return least, greatest
        if least > self.max_elapsed_time:
            return None
        return least, min(greatest, self.max_elapsed_time)

    def _calls(self) -> Calls:
        return (inf if self.max_elapsed_time is None else 0), inf
