"""Time and cancellation for programs that mix threads and asyncio.

Tickers that tick at the times of a back-off policy, tokens that cancel threads and coroutines
alike, and channels between them. Each name is loaded when it is first used, so that importing the
package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._async_ticker import AsyncTicker as AsyncTicker
    from ._channel import Channel as Channel
    from ._clock import SystemClock as SystemClock
    from ._errors import (
        BackoffTickerError as BackoffTickerError,
        Cancelled as Cancelled,
        ChannelClosed as ChannelClosed,
        DeadlineExceeded as DeadlineExceeded,
        TickerClosed as TickerClosed,
        WouldBlock as WouldBlock,
    )
    from ._marks import CLOSED as CLOSED, Closed as Closed
    from ._protocols import (
        BackOff as BackOff,
        Clock as Clock,
        FeedbackBackOff as FeedbackBackOff,
        Parker as Parker,
        Sink as Sink,
        Timer as Timer,
        TimerHandle as TimerHandle,
    )
    from ._retry_after import parse_retry_after as parse_retry_after
    from ._schedule import CloseReason as CloseReason, Pace as Pace, Tick as Tick
    from ._select import merge as merge, select as select, select_async as select_async
    from ._signals import cancel_on_signals as cancel_on_signals
    from ._stop import STOP as STOP, Stop as Stop
    from ._ticker import Ticker as Ticker
    from ._token import CancellationToken as CancellationToken, any_of as any_of
    from .policies._algorithm import AlgorithmBackOff as AlgorithmBackOff
    from .policies._algorithm_adaptive import (
        LILDBackOff as LILDBackOff,
        LIMDBackOff as LIMDBackOff,
        MILDBackOff as MILDBackOff,
        MIMDBackOff as MIMDBackOff,
    )
    from .policies._algorithm_fixed import (
        ConstantFeedbackBackOff as ConstantFeedbackBackOff,
        ExponentialFeedbackBackOff as ExponentialFeedbackBackOff,
        FibonacciBackOff as FibonacciBackOff,
    )
    from .policies._aws_jitter import (
        DecorrelatedJitterBackOff as DecorrelatedJitterBackOff,
        EqualJitterBackOff as EqualJitterBackOff,
        FullJitterBackOff as FullJitterBackOff,
    )
    from .policies._chain import (
        chain as chain,
    )
    from .policies._constant import (
        ConstantBackOff as ConstantBackOff,
        StopBackOff as StopBackOff,
        ZeroBackOff as ZeroBackOff,
    )
    from .policies._exponential import (
        ExponentialBackOff as ExponentialBackOff,
    )
    from .policies._limits import (
        with_max_elapsed_time as with_max_elapsed_time,
        with_max_interval as with_max_interval,
        with_max_retries as with_max_retries,
    )
    from .policies._named import (
        POLICIES as POLICIES,
        named_policy as named_policy,
    )
    from .policies._running import (
        delays as delays,
    )
    from .policies._token_backoff import (
        with_token as with_token,
    )
    from .policies._truncated import (
        TruncatedExponentialBackOff as TruncatedExponentialBackOff,
    )
    from .policies._with_jitter import (
        with_added_jitter as with_added_jitter,
        with_jitter as with_jitter,
    )
    from .retries._attempt import Attempt as Attempt
    from .retries._budget import RetryBudget as RetryBudget
    from .retries._call import retry_call as retry_call, retry_call_async as retry_call_async
    from .retries._decorator import retry as retry
    from .retries._errors import (
        Permanent as Permanent,
        RejectedResult as RejectedResult,
        RetryAfter as RetryAfter,
    )
    from .retries._hedge import hedge_call_async as hedge_call_async
    from .retries._loop import Attempts as Attempts, attempts as attempts
    from .retries._options import HedgeOptions as HedgeOptions, RetryOptions as RetryOptions
    from .retries._outcome import Outcome as Outcome, StopReason as StopReason

_ROOM_OF = {
    "CLOSED": "_marks",
    "Channel": "_channel",
    "ChannelClosed": "_errors",
    "Closed": "_marks",
    "AlgorithmBackOff": "policies._algorithm",
    "AsyncTicker": "_async_ticker",
    "BackOff": "_protocols",
    "BackoffTickerError": "_errors",
    "CancellationToken": "_token",
    "Cancelled": "_errors",
    "Clock": "_protocols",
    "CloseReason": "_schedule",
    "ConstantBackOff": "policies._constant",
    "ConstantFeedbackBackOff": "policies._algorithm_fixed",
    "DeadlineExceeded": "_errors",
    "DecorrelatedJitterBackOff": "policies._aws_jitter",
    "EqualJitterBackOff": "policies._aws_jitter",
    "ExponentialBackOff": "policies._exponential",
    "ExponentialFeedbackBackOff": "policies._algorithm_fixed",
    "FeedbackBackOff": "_protocols",
    "FibonacciBackOff": "policies._algorithm_fixed",
    "FullJitterBackOff": "policies._aws_jitter",
    "LILDBackOff": "policies._algorithm_adaptive",
    "LIMDBackOff": "policies._algorithm_adaptive",
    "MILDBackOff": "policies._algorithm_adaptive",
    "MIMDBackOff": "policies._algorithm_adaptive",
    "POLICIES": "policies._named",
    "Pace": "_schedule",
    "Parker": "_protocols",
    "STOP": "_stop",
    "Sink": "_protocols",
    "Stop": "_stop",
    "StopBackOff": "policies._constant",
    "SystemClock": "_clock",
    "Tick": "_schedule",
    "Ticker": "_ticker",
    "TickerClosed": "_errors",
    "TimerHandle": "_protocols",
    "TruncatedExponentialBackOff": "policies._truncated",
    "WouldBlock": "_errors",
    "ZeroBackOff": "policies._constant",
    "Timer": "_protocols",
    "any_of": "_token",
    "cancel_on_signals": "_signals",
    "chain": "policies._chain",
    "delays": "policies._running",
    "merge": "_select",
    "named_policy": "policies._named",
    "select": "_select",
    "select_async": "_select",
    "Attempt": "retries._attempt",
    "Attempts": "retries._loop",
    "HedgeOptions": "retries._options",
    "Outcome": "retries._outcome",
    "Permanent": "retries._errors",
    "RejectedResult": "retries._errors",
    "RetryAfter": "retries._errors",
    "RetryBudget": "retries._budget",
    "RetryOptions": "retries._options",
    "StopReason": "retries._outcome",
    "attempts": "retries._loop",
    "hedge_call_async": "retries._hedge",
    "parse_retry_after": "_retry_after",
    "retry": "retries._decorator",
    "retry_call": "retries._call",
    "retry_call_async": "retries._call",
    "with_added_jitter": "policies._with_jitter",
    "with_jitter": "policies._with_jitter",
    "with_max_elapsed_time": "policies._limits",
    "with_max_interval": "policies._limits",
    "with_max_retries": "policies._limits",
    "with_token": "policies._token_backoff",
}

__all__ = [
    "CLOSED",
    "POLICIES",
    "STOP",
    "AlgorithmBackOff",
    "AsyncTicker",
    "Attempt",
    "Attempts",
    "BackOff",
    "BackoffTickerError",
    "CancellationToken",
    "Cancelled",
    "Channel",
    "ChannelClosed",
    "Clock",
    "CloseReason",
    "Closed",
    "ConstantBackOff",
    "ConstantFeedbackBackOff",
    "DeadlineExceeded",
    "DecorrelatedJitterBackOff",
    "EqualJitterBackOff",
    "ExponentialBackOff",
    "ExponentialFeedbackBackOff",
    "FeedbackBackOff",
    "FibonacciBackOff",
    "FullJitterBackOff",
    "HedgeOptions",
    "LILDBackOff",
    "LIMDBackOff",
    "MILDBackOff",
    "MIMDBackOff",
    "Outcome",
    "Pace",
    "Parker",
    "Permanent",
    "RejectedResult",
    "RetryAfter",
    "RetryBudget",
    "RetryOptions",
    "Sink",
    "Stop",
    "StopBackOff",
    "StopReason",
    "SystemClock",
    "Tick",
    "Ticker",
    "TickerClosed",
    "Timer",
    "TimerHandle",
    "TruncatedExponentialBackOff",
    "WouldBlock",
    "ZeroBackOff",
    "any_of",
    "attempts",
    "cancel_on_signals",
    "chain",
    "delays",
    "hedge_call_async",
    "merge",
    "named_policy",
    "parse_retry_after",
    "retry",
    "retry_call",
    "retry_call_async",
    "select",
    "select_async",
    "with_added_jitter",
    "with_jitter",
    "with_max_elapsed_time",
    "with_max_interval",
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
