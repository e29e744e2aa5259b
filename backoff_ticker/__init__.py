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

_ROOMS = {
    "_async_ticker": ["AsyncTicker"],
    "_clock": ["SystemClock"],
    "_errors": [
        "BackoffTickerError",
        "Cancelled",
        "DeadlineExceeded",
        "TickerClosed",
        "WouldBlock",
    ],
    "_protocols": ["BackOff", "Clock"],
    "_schedule": ["CloseReason", "Pace", "Tick"],
    "_signals": ["cancel_on_signals"],
    "_stop": ["STOP", "Stop"],
    "_ticker": ["Ticker"],
    "_token": ["CancellationToken", "any_of"],
    "policies._constant": ["ConstantBackOff", "StopBackOff", "ZeroBackOff"],
    "policies._exponential": ["ExponentialBackOff"],
    "policies._running": ["delays"],
    "policies._wrappers": ["with_max_retries", "with_token"],
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_ROOM_OF)  # pyright: ignore[reportUnsupportedDunderAll]


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
