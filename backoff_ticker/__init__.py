"""Time and cancellation for programs that mix threads and asyncio.

One ``CancellationToken`` stops retries, periodic work and waits in threads and in event loops. The
names to begin with; ``help()`` shows an example of each, as in ``help(backoff_ticker.retry)``:

    Retry a call           retry, retry_call, retry_call_async, attempts
    Limit retries          RetryBudget, CircuitBreaker
    Choose the delays      ExponentialBackOff, ConstantBackOff, FullJitterBackOff, with_max_retries
    Do work periodically   Ticker, AsyncTicker, Pace
    Cancel                 CancellationToken, cancel_on_signals
    Pass items on          Channel, select, select_async, merge
    Test without waiting   backoff_ticker.testing: VirtualClock, no_wait

Every error derives from ``BackoffTickerError``.

Example:
    >>> from backoff_ticker import ConstantBackOff, Ticker, with_max_retries
    >>> for tick in Ticker(with_max_retries(ConstantBackOff(0.001), 2)):
    ...     print("attempt", tick.number)
    attempt 1
    attempt 2
    attempt 3

Each name is loaded when it is first used, so importing the package costs almost nothing. A name
that is first used while the interpreter shuts down raises ``ImportError``.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = bool()  # noqa: UP018 - editors that use jedi skip what is literally False
if TYPE_CHECKING:
    from ._errors import (
        BackoffTickerError as BackoffTickerError,
        Cancelled as Cancelled,
        ChannelClosed as ChannelClosed,
        CircuitOpen as CircuitOpen,
        CircuitState as CircuitState,
        CloseReason as CloseReason,
        DeadlineExceeded as DeadlineExceeded,
        Permanent as Permanent,
        RejectedResult as RejectedResult,
        RetryAfter as RetryAfter,
        TickerClosed as TickerClosed,
        WouldBlock as WouldBlock,
    )
    from ._sentinels import CLOSED as CLOSED, STOP as STOP, Closed as Closed, Stop as Stop
    from .cancellation import (
        CallbackHandle as CallbackHandle,
        CancellationToken as CancellationToken,
        Scope as Scope,
        SignalBlock as SignalBlock,
        any_of as any_of,
        cancel_on_signals as cancel_on_signals,
    )
    from .channels import (
        Channel as Channel,
        Merge as Merge,
        Timer as Timer,
        TimerLike as TimerLike,
        merge as merge,
        select as select,
        select_async as select_async,
    )
    from .circuits import CircuitBreaker as CircuitBreaker, CircuitTicket as CircuitTicket
    from .clock import (
        Clock as Clock,
        Parker as Parker,
        SystemClock as SystemClock,
        TimerHandle as TimerHandle,
        current_clock as current_clock,
    )
    from .hedging import hedge_call as hedge_call, hedge_call_async as hedge_call_async
    from .policies import (
        POLICIES as POLICIES,
        AlgorithmBackOff as AlgorithmBackOff,
        BackOff as BackOff,
        BackOffWrapper as BackOffWrapper,
        ChainBackOff as ChainBackOff,
        ConstantBackOff as ConstantBackOff,
        ConstantFeedbackBackOff as ConstantFeedbackBackOff,
        DecorrelatedJitterBackOff as DecorrelatedJitterBackOff,
        EqualJitterBackOff as EqualJitterBackOff,
        ExponentialBackOff as ExponentialBackOff,
        ExponentialFeedbackBackOff as ExponentialFeedbackBackOff,
        FeedbackBackOff as FeedbackBackOff,
        FibonacciBackOff as FibonacciBackOff,
        FullJitterBackOff as FullJitterBackOff,
        JitterBackOff as JitterBackOff,
        LILDBackOff as LILDBackOff,
        LIMDBackOff as LIMDBackOff,
        MaxElapsedTimeBackOff as MaxElapsedTimeBackOff,
        MaxIntervalBackOff as MaxIntervalBackOff,
        MaxRetriesBackOff as MaxRetriesBackOff,
        MILDBackOff as MILDBackOff,
        MIMDBackOff as MIMDBackOff,
        MonotonicTime as MonotonicTime,
        NamedPolicy as NamedPolicy,
        StopBackOff as StopBackOff,
        TokenBackOff as TokenBackOff,
        TruncatedExponentialBackOff as TruncatedExponentialBackOff,
        WallTime as WallTime,
        ZeroBackOff as ZeroBackOff,
        chain as chain,
        delay_after as delay_after,
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
        AsyncRetryOptions as AsyncRetryOptions,
        Attempt as Attempt,
        Attempts as Attempts,
        BudgetLike as BudgetLike,
        CurrentAttempt as CurrentAttempt,
        HedgeOptions as HedgeOptions,
        Outcome as Outcome,
        RetryBudget as RetryBudget,
        RetryOptions as RetryOptions,
        StopReason as StopReason,
        attempts as attempts,
        current_attempt as current_attempt,
        is_active as is_active,
        log_retries as log_retries,
        parse_retry_after as parse_retry_after,
        retry as retry,
        retry_call as retry_call,
        retry_call_async as retry_call_async,
        retry_options as retry_options,
        retry_with as retry_with,
        set_active as set_active,
        set_default_hooks as set_default_hooks,
        set_default_token as set_default_token,
    )
    from .tickers import (
        AsyncTicker as AsyncTicker,
        Forwarding as Forwarding,
        Pace as Pace,
        SendSink as SendSink,
        Sink as Sink,
        Tick as Tick,
        Ticker as Ticker,
    )

_MODULE_OF = {
    "AlgorithmBackOff": "policies._algorithm",
    "AsyncRetryOptions": "retries._option_types",
    "AsyncTicker": "tickers._ticker",
    "Attempt": "retries._attempts",
    "Attempts": "retries._attempts",
    "BackOff": "policies._protocol",
    "BackOffWrapper": "policies._wrapper",
    "BackoffTickerError": "_errors",
    "BudgetLike": "retries._budget_protocol",
    "CLOSED": "_sentinels",
    "CallbackHandle": "cancellation._tree",
    "CancellationToken": "cancellation._token",
    "Cancelled": "_errors",
    "ChainBackOff": "policies._chain",
    "Channel": "channels._channel",
    "ChannelClosed": "_errors",
    "CircuitBreaker": "circuits._breaker",
    "CircuitOpen": "_errors",
    "CircuitState": "_errors",
    "CircuitTicket": "circuits._states",
    "Clock": "clock._protocol",
    "CloseReason": "_errors",
    "Closed": "_sentinels",
    "ConstantBackOff": "policies._constant",
    "ConstantFeedbackBackOff": "policies._algorithm_policies",
    "CurrentAttempt": "retries._attempt_context",
    "DeadlineExceeded": "_errors",
    "DecorrelatedJitterBackOff": "policies._aws_jitter",
    "EqualJitterBackOff": "policies._aws_jitter",
    "ExponentialBackOff": "policies._exponential",
    "ExponentialFeedbackBackOff": "policies._algorithm_policies",
    "FeedbackBackOff": "policies._protocol",
    "FibonacciBackOff": "policies._algorithm_policies",
    "Forwarding": "tickers._forwarding",
    "FullJitterBackOff": "policies._aws_jitter",
    "HedgeOptions": "retries._option_types",
    "JitterBackOff": "policies._jitter",
    "LILDBackOff": "policies._algorithm_policies",
    "LIMDBackOff": "policies._algorithm_policies",
    "MILDBackOff": "policies._algorithm_policies",
    "MIMDBackOff": "policies._algorithm_policies",
    "MaxElapsedTimeBackOff": "policies._limits",
    "MaxIntervalBackOff": "policies._limits",
    "MaxRetriesBackOff": "policies._limits",
    "Merge": "channels._select",
    "MonotonicTime": "policies._protocol",
    "NamedPolicy": "policies._named",
    "Outcome": "retries._outcome",
    "POLICIES": "policies._named",
    "Pace": "tickers._tick",
    "Parker": "clock._protocol",
    "Permanent": "_errors",
    "RejectedResult": "_errors",
    "RetryAfter": "_errors",
    "RetryBudget": "retries._budget",
    "RetryOptions": "retries._option_types",
    "STOP": "_sentinels",
    "Scope": "cancellation._scope",
    "SendSink": "tickers._protocol",
    "SignalBlock": "cancellation._signals",
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
    "TokenBackOff": "policies._limits",
    "TruncatedExponentialBackOff": "policies._exponential",
    "WallTime": "policies._protocol",
    "WouldBlock": "_errors",
    "ZeroBackOff": "policies._constant",
    "any_of": "cancellation._token",
    "attempts": "retries._attempts",
    "cancel_on_signals": "cancellation._signals",
    "chain": "policies._chain",
    "current_attempt": "retries._current_attempt",
    "current_clock": "clock._system",
    "delay_after": "policies._run",
    "delays": "policies._run",
    "hedge_call": "hedging._hedge",
    "hedge_call_async": "hedging._hedge",
    "is_active": "retries._settings",
    "log_retries": "retries._log_retries",
    "merge": "channels._select",
    "named_policy": "policies._named",
    "parse_retry_after": "retries._retry_after",
    "retry": "retries._decorator",
    "retry_call": "retries._call",
    "retry_call_async": "retries._call",
    "retry_options": "retries._retry_with",
    "retry_with": "retries._retry_with",
    "select": "channels._select",
    "select_async": "channels._select",
    "set_active": "retries._settings",
    "set_default_hooks": "retries._settings",
    "set_default_token": "retries._settings",
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
        special = {name for name in globals() if name.startswith("__")}
        return sorted({*special, *_MODULE_OF, *({"testing"} & globals().keys())})
