"""What ends a run whatever its attempts do: a token, time limits, a number of attempts.

And the clock of runs whose waits are skipped, in ``no_wait()`` of the tests.
"""

from __future__ import annotations

from operator import itemgetter

from .._errors import DeadlineExceeded
from .._validation import LARGEST
from ..cancellation import CancellationToken, derive_token
from ..clock import later
from ._outcome import Ending, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..clock import Clock
    from ._options import Options

active_no_wait: dict[object, int | None] = {}
"""The open ``no_wait()`` blocks of tests, each with its ``max_attempts``: new runs skip waits."""


class SkippingClock:
    """The clock of a run in ``no_wait()``: the time of the waits that it skips counts as passed."""

    __slots__ = ("clock", "skipped")

    def __init__(self, clock: Clock) -> None:
        self.clock: Clock = clock
        self.skipped: float = 0.0  # seconds by which it is ahead of that clock

    def monotonic(self) -> float:
        return later(self.clock.monotonic(), self.skipped)

    def time(self) -> float:
        return self.clock.time() + self.skipped

    def skip(self, seconds: float, token: CancellationToken | None) -> float:
        """Count a wait as waited, up to the deadline of the token; return its seconds."""
        if token is not None:
            if token.cancelled:
                return 0.0
            if token.deadline is not None:
                seconds = max(0.0, min(seconds, token.deadline - self.monotonic()))
        self.skipped = min(self.skipped + seconds, LARGEST / 4)
        return seconds


def underlying(clock: Clock) -> Clock:
    """Return the clock on which a run really waits."""
    return clock.clock if isinstance(clock, SkippingClock) else clock


class Limits:
    """The limits of one run, which read its clock and wait for nothing."""

    __slots__ = ("clock", "deadline", "latest_start", "max_attempts", "options", "token")

    def __init__(self, options: Options, clock: Clock, began: float) -> None:
        self.options: Options = options
        self.clock: Clock = clock
        self.token: CancellationToken | None = options.token  # of policies and the process, too
        self.deadline: float | None = None  # of ``timeout``, on the run's clock
        self.latest_start: float | None = None  # by ``max_elapsed_time``
        self.max_attempts: int | None = options.max_attempts
        if options.timeout is not None:
            self.deadline = min(later(began, options.timeout), LARGEST)
        if options.max_elapsed_time is not None:
            self.latest_start = min(later(began, options.max_elapsed_time), LARGEST)
        if active_no_wait:
            most = (options.max_attempts, *active_no_wait.copy().values())
            self.max_attempts = min((one for one in most if one is not None), default=None)
        token, own = options.token, underlying(clock)
        if token is not None and token.deadline is not None and token.clock is not own:
            raise ValueError(
                f"token must have its deadline on the retry's clock {own!r}, "
                f"not on {token.clock!r}: make the token where that clock is the current one"
            )

    def reached(self, attempts: int = 0) -> Ending | None:
        """Return which limit forbids another attempt now; None: none does.

        The order of the limits is part of the contract of ``retry``.
        """
        options, most, monotonic = self.options, self.max_attempts, self.clock.monotonic
        if self.token is not None and self.is_cancelled():
            return self.ending_by_token()
        if self.deadline is not None and monotonic() >= self.deadline:
            why = f"the timeout of {options.timeout!r} s"
            return Ending(StopReason.DEADLINE, why, DeadlineExceeded())
        if self.latest_start is not None and monotonic() > self.latest_start:
            why = f"max_elapsed_time of {options.max_elapsed_time!r} s has passed"
            return Ending(StopReason.MAX_ELAPSED_TIME, why)
        if most is not None and attempts >= most:
            return Ending(StopReason.MAX_ATTEMPTS, f"max_attempts is {most}")
        return None

    def reached_by(self, delay: float) -> Ending | None:
        """Return which limit a wait of ``delay`` would pass that begins now; None: none."""
        options = self.options
        if self.deadline is self.latest_start is None:
            return None
        end = self.clock.monotonic() + delay
        if self.deadline is not None and end >= self.deadline:
            why = f"{_the_wait(delay)} reach the timeout of {options.timeout!r} s"
            return Ending(StopReason.DEADLINE, why, DeadlineExceeded(why))
        if self.latest_start is not None and end > self.latest_start:
            why = f"{_the_wait(delay)} exceed max_elapsed_time of {options.max_elapsed_time!r} s"
            return Ending(StopReason.MAX_ELAPSED_TIME, why)
        return None

    def is_cancelled(self) -> bool:
        """Whether the token cancels the run, or would by now if waits were not skipped."""
        token = self.token
        if token is None or token.cancelled:
            return token is not None
        return token.deadline is not None and self.clock.monotonic() >= token.deadline

    def ending_by_token(self) -> Ending:
        """Return the end of a run that the token cancels."""
        token = self.token
        cancelled = token is not None and token.cancelled
        error = token._error() if cancelled else DeadlineExceeded()  # type: ignore[union-attr]
        return Ending(StopReason.CANCELLED, str(error), error)

    # While an attempt runs

    def first_cut(
        self, token: CancellationToken | None, cut_at: float | None
    ) -> tuple[float, StopReason | None] | None:
        """Return when, on the run's clock, an attempt is cut first, and why the run then ends.

        None: no time limit cuts it. ``cut_at`` is when its own limit is reached, after which the
        run may go on: then the reason is None.
        """
        cuts: list[tuple[float, StopReason | None]] = []  # of those at one time the first counts
        if token is not None and token.deadline is not None:
            cuts.append((token.deadline, StopReason.CANCELLED))
        if self.deadline is not None:
            cuts.append((self.deadline, StopReason.DEADLINE))
        if cut_at is not None:
            cuts.append((cut_at, None))
        return min(cuts, key=itemgetter(0), default=None)

    def derived(
        self, clock: Clock, token: CancellationToken | None, cut_at: float | None
    ) -> CancellationToken:
        """Return a new token that is cancelled with ``token``, and when an attempt is cut."""
        cut = self.first_cut(token, cut_at)
        when = None if cut is None else cut[0]
        if when is not None and isinstance(clock, SkippingClock):
            # The timers of the underlying clock agree exactly with its time.
            when = later(when, -clock.skipped)
        return derive_token(underlying(clock), () if token is None else (token,), when)


def _the_wait(delay: float) -> str:
    return f"the next wait of {round(delay, 3)} s would"
