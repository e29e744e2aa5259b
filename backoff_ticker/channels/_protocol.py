"""What a ticker or a retry needs of a timer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ._channel import Channel


class TimerLike(Protocol):
    """The protocol of ``timer=`` in tickers and retries: a ``Timer``, or an object like one.

    Example:
        >>> from backoff_ticker import Channel, ConstantBackOff, Ticker
        >>> class Immediate:
        ...     def __init__(self):
        ...         self.c = Channel(1)
        ...     def start(self, delay):
        ...         self.c.send_nowait(1_700_000_000.0)
        ...     def stop(self):
        ...         pass
        >>> ticker = Ticker(ConstantBackOff(3600), timer=Immediate())
        >>> [ticker.receive().number for _ in range(3)]
        [1, 2, 3]
    """

    @property
    def c(self) -> Channel[float]:
        """The channel on which the timer sends the time when it fires, in Unix seconds."""

    def start(self, delay: float) -> object:
        """Fire in ``delay`` seconds, instead of at the time of an earlier start."""

    def stop(self) -> object:
        """Do not fire. It must not block."""
