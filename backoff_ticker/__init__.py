"""Time and cancellation for programs that mix threads and asyncio.

Tickers that tick at the times of a back-off policy, and tokens that cancel threads and
coroutines alike. Each name is loaded when it is first used, so that importing the package costs
next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._async_ticker import AsyncTicker as AsyncTicker
    from ._clock import SystemClock as SystemClock
    from ._errors import (
        BackoffTickerError as BackoffTickerError,
        Cancelled as Cancelled,
        DeadlineExceeded as DeadlineExceeded,
        TickerClosed as TickerClosed,
        WouldBlock as WouldBlock,
    )
    from ._protocols import BackOff as BackOff, Clock as Clock
    from ._schedule import CloseReason as CloseReason, Pace as Pace, Tick as Tick
    from ._signals import cancel_on_signals as cancel_on_signals
    from ._stop import STOP as STOP, Stop as Stop
    from ._ticker import Ticker as Ticker
    from ._token import CancellationToken as CancellationToken, any_of as any_of
    from .policies._constant import (
        ConstantBackOff as ConstantBackOff,
        StopBackOff as StopBackOff,
        ZeroBackOff as ZeroBackOff,
    )
    from .policies._exponential import ExponentialBackOff as ExponentialBackOff
    from .policies._running import delays as delays
    from .policies._wrappers import with_max_retries as with_max_retries, with_token as with_token

_ROOM_OF = {
    "AsyncTicker": "_async_ticker",
    "BackOff": "_protocols",
    "BackoffTickerError": "_errors",
    "CancellationToken": "_token",
    "Cancelled": "_errors",
    "Clock": "_protocols",
    "CloseReason": "_schedule",
    "ConstantBackOff": "policies._constant",
    "DeadlineExceeded": "_errors",
    "ExponentialBackOff": "policies._exponential",
    "Pace": "_schedule",
    "STOP": "_stop",
    "Stop": "_stop",
    "StopBackOff": "policies._constant",
    "SystemClock": "_clock",
    "Tick": "_schedule",
    "Ticker": "_ticker",
    "TickerClosed": "_errors",
    "WouldBlock": "_errors",
    "ZeroBackOff": "policies._constant",
    "any_of": "_token",
    "cancel_on_signals": "_signals",
    "delays": "policies._running",
    "with_max_retries": "policies._wrappers",
    "with_token": "policies._wrappers",
}

__all__ = [
    "STOP",
    "AsyncTicker",
    "BackOff",
    "BackoffTickerError",
    "CancellationToken",
    "Cancelled",
    "Clock",
    "CloseReason",
    "ConstantBackOff",
    "DeadlineExceeded",
    "ExponentialBackOff",
    "Pace",
    "Stop",
    "StopBackOff",
    "SystemClock",
    "Tick",
    "Ticker",
    "TickerClosed",
    "WouldBlock",
    "ZeroBackOff",
    "any_of",
    "cancel_on_signals",
    "delays",
    "with_max_retries",
    "with_token",
]


def __getattr__(name: str) -> object:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF})
