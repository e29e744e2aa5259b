"""What ``explore()`` returns, and what it raises."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from typing import Any

from ..._errors import BackoffTickerError
from ..._validation import counted

_BIG = 1e6  # from which number on only its magnitude is told


class _Told(BackoffTickerError):
    def __init__(self, message: str, replay: str, schedules: int) -> None:
        super().__init__(message)
        self.replay: str = replay
        self.schedules: int = schedules

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.replay, self.schedules)


class ScheduleStuck(_Told, RuntimeError):
    """A thread waits for what ``explore()`` does not see; whether the program is right is open.

    Attributes:
        replay: The schedule, for ``explore(body, replay=...)``.
        schedules: How many were run until one was stuck.
    """


class ScheduleFailure(_Told, AssertionError):
    """``explore()`` found a fault; the message tells which, and how to have it again.

    Attributes:
        replay: The schedule, for ``explore(body, replay=...)``.
        schedules: How many were run until one failed.

    Example:
        >>> from backoff_ticker.testing import ScheduleFailure, explore
        >>> def body():
        ...     raise ValueError("in any schedule")
        >>> try:
        ...     explore(body)
        ... except ScheduleFailure as failure:
        ...     print(failure.schedules, str(failure).splitlines()[0])
        1 body ended with ValueError: in any schedule
    """


@dataclass(frozen=True)
class Exploration:
    """What ``explore()`` has run; as a text, one sentence.

    Attributes:
        schedules: How many, none of which failed.
        complete: Whether those were all with at most ``preemptions`` preemptions.
        preemptions: As asked for; of a replay, those that it has.
        drawn: How many of them were drawn by the seed.
        estimate: About how many there are.
        chance: The least probability with which each drawn one shows a fault of depth
            ``preemptions + 1``.
        watched: Whether a thread or task but that of ``body`` came to a watched line that may touch
            what they share.

    Example:
        >>> from backoff_ticker.testing import explore
        >>> import threading
        >>> def body():
        ...     items = []
        ...     thread = threading.Thread(target=lambda: items.append("item"))
        ...     thread.start()
        ...     thread.join()
        >>> print(explore(body))
        all 3 schedules with at most 2 preemptions
    """

    schedules: int
    complete: bool
    preemptions: int
    drawn: int
    estimate: float
    chance: float
    watched: bool

    def __str__(self) -> str:
        which = f"with at most {counted(self.preemptions, 'preemption')}"
        which += " (that watched the body alone)" * (not self.watched)
        if self.complete:
            run = self.schedules - self.drawn
            return f"{f'all {run:,} schedules' if run > 1 else 'the one schedule'} {which}"
        rounded = float(f"{self.estimate:.1g}")
        about = f"{rounded:,.0f}" if rounded < _BIG else f"10^{round(log10(rounded))}"
        text = f"{self.schedules:,} of about {about} schedules {which}"
        if self.drawn:
            text += (
                f", {self.drawn:,} of them drawn: each shows a fault of depth "
                f"{self.preemptions + 1} with a probability of at least {self.chance:.1g}"
            )
        return text
