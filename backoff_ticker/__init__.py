"""Time and cancellation for programs that mix threads and asyncio.

Tickers that tick at the times of a back-off policy, tokens that cancel threads and coroutines
alike, channels between them, and retries. Each name is loaded when it is first used, so importing
the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._errors import (
        BackoffTickerError as BackoffTickerError,
        Cancelled as Cancelled,
        ChannelClosed as ChannelClosed,
        CloseReason as CloseReason,
        DeadlineExceeded as DeadlineExceeded,
        TickerClosed as TickerClosed,
        WouldBlock as WouldBlock,
    )
    from ._sentinels import CLOSED as CLOSED, STOP as STOP, Closed as Closed, Stop as Stop
    from .cancellation import (
        CancellationToken as CancellationToken,
        any_of as any_of,
        cancel_on_signals as cancel_on_signals,
    )
    from .channels import (
        Channel as Channel,
        Timer as Timer,
        TimerLike as TimerLike,
        merge as merge,
        select as select,
        select_async as select_async,
    )
    from .clock import (
        Clock as Clock,
        Parker as Parker,
        SystemClock as SystemClock,
        TimerHandle as TimerHandle,
    )
    from .policies import (
        POLICIES as POLICIES,
        AlgorithmBackOff as AlgorithmBackOff,
        BackOff as BackOff,
        BackOffWrapper as BackOffWrapper,
        ConstantBackOff as ConstantBackOff,
        ConstantFeedbackBackOff as ConstantFeedbackBackOff,
        DecorrelatedJitterBackOff as DecorrelatedJitterBackOff,
        EqualJitterBackOff as EqualJitterBackOff,
        ExponentialBackOff as ExponentialBackOff,
        ExponentialFeedbackBackOff as ExponentialFeedbackBackOff,
        FeedbackBackOff as FeedbackBackOff,
        FibonacciBackOff as FibonacciBackOff,
        FullJitterBackOff as FullJitterBackOff,
        LILDBackOff as LILDBackOff,
        LIMDBackOff as LIMDBackOff,
        MILDBackOff as MILDBackOff,
        MIMDBackOff as MIMDBackOff,
        StopBackOff as StopBackOff,
        TruncatedExponentialBackOff as TruncatedExponentialBackOff,
        ZeroBackOff as ZeroBackOff,
        chain as chain,
        delays as delays,
        named_policy as named_policy,
        with_added_jitter as with_added_jitter,
        with_jitter as with_jitter,
        with_max_elapsed_time as with_max_elapsed_time,
        with_max_interval as with_max_interval,
        with_max_retries as with_max_retries,
        with_token as with_token,
    )
    from .retries import (
        Attempt as Attempt,
        Attempts as Attempts,
        HedgeOptions as HedgeOptions,
        Outcome as Outcome,
        Permanent as Permanent,
        RejectedResult as RejectedResult,
        RetryAfter as RetryAfter,
        RetryBudget as RetryBudget,
        RetryOptions as RetryOptions,
        StopReason as StopReason,
        attempts as attempts,
        hedge_call_async as hedge_call_async,
        parse_retry_after as parse_retry_after,
        retry as retry,
        retry_call as retry_call,
        retry_call_async as retry_call_async,
    )
    from .tickers import (
        AsyncTicker as AsyncTicker,
        Pace as Pace,
        SendSink as SendSink,
        Sink as Sink,
        Tick as Tick,
        Ticker as Ticker,
    )

_MODULE_OF = {
    "AlgorithmBackOff": "policies._algorithm",
    "AsyncTicker": "tickers._async_ticker",
    "Attempt": "retries._attempt",
    "Attempts": "retries._loop",
    "BackOff": "policies._protocol",
    "BackOffWrapper": "policies._wrapper",
    "BackoffTickerError": "_errors",
    "CLOSED": "_sentinels",
    "CancellationToken": "cancellation._token",
    "Cancelled": "_errors",
    "Channel": "channels._channel",
    "ChannelClosed": "_errors",
    "Clock": "clock._protocol",
    "CloseReason": "_errors",
    "Closed": "_sentinels",
    "ConstantBackOff": "policies._constant",
    "ConstantFeedbackBackOff": "policies._algorithm_policies",
    "DeadlineExceeded": "_errors",
    "DecorrelatedJitterBackOff": "policies._aws_jitter",
    "EqualJitterBackOff": "policies._aws_jitter",
    "ExponentialBackOff": "policies._exponential",
    "ExponentialFeedbackBackOff": "policies._algorithm_policies",
    "FeedbackBackOff": "policies._protocol",
    "FibonacciBackOff": "policies._algorithm_policies",
    "FullJitterBackOff": "policies._aws_jitter",
    "HedgeOptions": "retries._options",
    "LILDBackOff": "policies._algorithm_policies",
    "LIMDBackOff": "policies._algorithm_policies",
    "MILDBackOff": "policies._algorithm_policies",
    "MIMDBackOff": "policies._algorithm_policies",
    "Outcome": "retries._outcome",
    "POLICIES": "policies._named",
    "Pace": "tickers._tick",
    "Parker": "clock._protocol",
    "Permanent": "retries._errors",
    "RejectedResult": "retries._errors",
    "RetryAfter": "retries._errors",
    "RetryBudget": "retries._budget",
    "RetryOptions": "retries._options",
    "STOP": "_sentinels",
    "SendSink": "tickers._protocol",
    "Sink": "tickers._protocol",
    "Stop": "_sentinels",
    "StopBackOff": "policies._constant",
    "StopReason": "retries._outcome",
    "SystemClock": "clock._system",
    "Tick": "tickers._tick",
    "Ticker": "tickers._ticker",
    "TickerClosed": "_errors",
    "Timer": "channels._timer",
    "TimerHandle": "clock._protocol",
    "TimerLike": "channels._protocol",
    "TruncatedExponentialBackOff": "policies._exponential",
    "WouldBlock": "_errors",
    "ZeroBackOff": "policies._constant",
    "any_of": "cancellation._token",
    "attempts": "retries._loop",
    "cancel_on_signals": "cancellation._signals",
    "chain": "policies._chain",
    "delays": "policies._run",
    "hedge_call_async": "retries._hedge",
    "merge": "channels._select",
    "named_policy": "policies._named",
    "parse_retry_after": "retries._retry_after",
    "retry": "retries._decorator",
    "retry_call": "retries._call",
    "retry_call_async": "retries._call",
    "select": "channels._select",
    "select_async": "channels._select",
    "with_added_jitter": "policies._jitter",
    "with_jitter": "policies._jitter",
    "with_max_elapsed_time": "policies._limits",
    "with_max_interval": "policies._limits",
    "with_max_retries": "policies._limits",
    "with_token": "policies._limits",
}
"""Where each public name is defined."""

if not TYPE_CHECKING:  # a type checker knows the names above, and no others
    __all__ = sorted(_MODULE_OF)  # noqa: PLE0605

    def __getattr__(name: str) -> object:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULE_OF})
