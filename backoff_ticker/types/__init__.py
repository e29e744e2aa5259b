"""Types to name in annotations: of what functions of the package return, and of what they take.

Nobody calls these. What one calls or catches is in ``backoff_ticker`` itself, with its protocols
``BackOff``, ``Clock``, ``TimerLike`` and ``BudgetLike``.

Example:
    >>> from backoff_ticker import retry_call
    >>> from backoff_ticker.types import RetryOptions
    >>> options: RetryOptions = {"max_attempts": 3, "timeout": 10}
    >>> retry_call(lambda: "done", **options)
    'done'
"""

from __future__ import annotations

from ..cancellation import CallbackHandle, Scope, SignalBlock
from ..circuits._circuit import CircuitGuard, CircuitTicket
from ..clock._protocol import Parker, TimerHandle
from ..policies._named import NamedPolicy
from ..policies._protocol import MonotonicTime, WallTime
from ..retries._loop import Attempts
from ..retries._option_types import HedgeOptions, RetryOptions
from ..schedules._job import Job
from ..tickers import Forwarding
from ..tickers._protocol import SendSink, Sink

__all__ = [
    "Attempts",
    "CallbackHandle",
    "CircuitGuard",
    "CircuitTicket",
    "Forwarding",
    "HedgeOptions",
    "Job",
    "MonotonicTime",
    "NamedPolicy",
    "Parker",
    "RetryOptions",
    "Scope",
    "SendSink",
    "SignalBlock",
    "Sink",
    "TimerHandle",
    "WallTime",
]
