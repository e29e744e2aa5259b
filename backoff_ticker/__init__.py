"""Pace, cancel and test every wait of a Python program, in threads, asyncio and trio.

The names to begin with; ``help()`` shows an example of each, as in ``help(backoff_ticker.retry)``:

    Pace waits             ExponentialBackOff, ConstantBackOff, FullJitterBackOff, with_max_retries
    Cancel waits           CancellationToken, cancel_on_signals
    Test without waiting   backoff_ticker.testing: VirtualClock, no_wait
    Retry a call           retry, retry_call, retry_call_async, attempts
    Limit retries          RetryBudget, CircuitBreaker
    Do work periodically   Ticker, AsyncTicker, Pace; for many keys and few workers: Schedule
    Pass items on          Channel, select, select_async, merge

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
        ScheduleClosed as ScheduleClosed,
        TickerClosed as TickerClosed,
        WouldBlock as WouldBlock,
    )
    from ._retry_after import parse_retry_after as parse_retry_after
    from ._sentinels import CLOSED as CLOSED, STOP as STOP, Closed as Closed, Stop as Stop
    from .cancellation import (
        CancellationToken as CancellationToken,
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
    from .circuits import CircuitBreaker as CircuitBreaker
    from .clock import Clock as Clock, SystemClock as SystemClock, current_clock as current_clock
    from .hedging import hedge_call as hedge_call, hedge_call_async as hedge_call_async
    from .policies._algorithm import AlgorithmBackOff as AlgorithmBackOff
    from .policies._algorithm_policies import (
        ConstantFeedbackBackOff as ConstantFeedbackBackOff,
        ExponentialFeedbackBackOff as ExponentialFeedbackBackOff,
        FibonacciBackOff as FibonacciBackOff,
        LILDBackOff as LILDBackOff,
        LIMDBackOff as LIMDBackOff,
        MILDBackOff as MILDBackOff,
        MIMDBackOff as MIMDBackOff,
    )
    from .policies._common import (
        ConstantBackOff as ConstantBackOff,
        ExponentialBackOff as ExponentialBackOff,
        StopBackOff as StopBackOff,
        TruncatedExponentialBackOff as TruncatedExponentialBackOff,
        ZeroBackOff as ZeroBackOff,
    )
    from .policies._jitter import (
        DecorrelatedJitterBackOff as DecorrelatedJitterBackOff,
        EqualJitterBackOff as EqualJitterBackOff,
        FullJitterBackOff as FullJitterBackOff,
        with_added_jitter as with_added_jitter,
        with_jitter as with_jitter,
    )
    from .policies._limits import (
        with_max_elapsed_time as with_max_elapsed_time,
        with_max_interval as with_max_interval,
        with_max_retries as with_max_retries,
        with_token as with_token,
    )
    from .policies._named import POLICIES as POLICIES, named_policy as named_policy
    from .policies._protocol import BackOff as BackOff, FeedbackBackOff as FeedbackBackOff
    from .policies._run import delay_after as delay_after, delays as delays
    from .policies._wrapper import BackOffWrapper as BackOffWrapper, chain as chain
    from .retries._attempt import Attempt as Attempt, current_attempt as current_attempt
    from .retries._budget import RetryBudget as RetryBudget
    from .retries._decorator import (
        retry as retry,
        retry_options as retry_options,
        retry_with as retry_with,
    )
    from .retries._drive import retry_call as retry_call, retry_call_async as retry_call_async
    from .retries._loop import attempts as attempts
    from .retries._option_types import BudgetLike as BudgetLike
    from .retries._options import configure as configure, is_active as is_active
    from .retries._outcome import (
        Outcome as Outcome,
        StopReason as StopReason,
        log_retries as log_retries,
    )
    from .schedules import Schedule as Schedule
    from .tickers import AsyncTicker as AsyncTicker, Pace as Pace, Tick as Tick, Ticker as Ticker

_NAMES = {
    "_errors": (
        "BackoffTickerError Cancelled ChannelClosed CircuitOpen CircuitState CloseReason "
        "DeadlineExceeded Permanent RejectedResult RetryAfter ScheduleClosed TickerClosed "
        "WouldBlock"
    ),
    "_retry_after": "parse_retry_after",
    "_sentinels": "CLOSED Closed STOP Stop",
    "clock._protocol": "Clock",
    "clock._system": "SystemClock current_clock",
    "cancellation._signals": "cancel_on_signals",
    "cancellation._token": "CancellationToken any_of",
    "channels._channel": "Channel",
    "channels._protocol": "TimerLike",
    "channels._merge": "Merge merge",
    "channels._select": "select select_async",
    "channels._timer": "Timer",
    "policies._algorithm": "AlgorithmBackOff",
    "policies._algorithm_policies": (
        "ConstantFeedbackBackOff ExponentialFeedbackBackOff FibonacciBackOff LILDBackOff "
        "LIMDBackOff MILDBackOff MIMDBackOff"
    ),
    "policies._common": (
        "ConstantBackOff ExponentialBackOff StopBackOff TruncatedExponentialBackOff ZeroBackOff"
    ),
    "policies._jitter": (
        "DecorrelatedJitterBackOff EqualJitterBackOff FullJitterBackOff with_added_jitter "
        "with_jitter"
    ),
    "policies._limits": "with_max_elapsed_time with_max_interval with_max_retries with_token",
    "policies._named": "POLICIES named_policy",
    "policies._protocol": "BackOff FeedbackBackOff",
    "policies._run": "delay_after delays",
    "policies._wrapper": "BackOffWrapper chain",
    "tickers._tick": "Pace Tick",
    "tickers._ticker": "AsyncTicker Ticker",
    "circuits._breaker": "CircuitBreaker",
    "schedules._schedule": "Schedule",
    "retries._attempt": "Attempt current_attempt",
    "retries._budget": "RetryBudget",
    "retries._decorator": "retry retry_options retry_with",
    "retries._drive": "retry_call retry_call_async",
    "retries._loop": "attempts",
    "retries._option_types": "BudgetLike",
    "retries._options": "configure is_active",
    "retries._outcome": "Outcome StopReason log_retries",
    "hedging._hedge": "hedge_call hedge_call_async",
}
"""The public names, by the module that defines them."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

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
        return sorted({*special, *_MODULE_OF, *({"testing", "types"} & globals().keys())})
