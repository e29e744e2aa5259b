"""The options of a retry as callers pass them, for type checkers: nothing else imports this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import timedelta

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ._budget import RetryBudget
    from ._circuit_breaker import CircuitBreaker
    from ._outcome import Outcome


if TYPE_CHECKING:
    Notify = Callable[[Exception, float], object]
    Hook = Callable[[Outcome], object]


class HedgeOptions(TypedDict, total=False):
    """The options of ``hedge_call`` and ``hedge_call_async``; ``retry`` has them all.

    Example:
        >>> from backoff_ticker import HedgeOptions
        >>> options: HedgeOptions = {"max_attempts": 3, "timeout": 10}
    """

    on: (
        type[Exception]
        | tuple[type[Exception], ...]
        | Mapping[type[Exception], BackOff | bool]
        | Callable[
            [Exception],
            bool | float | timedelta | BackOff | Awaitable[bool | float | timedelta | BackOff],
        ]
    )
    until: Callable[[Any], object] | None
    retry_if: Callable[[Any], object] | None
    token: CancellationToken | None
    timeout: float | timedelta | None
    max_elapsed_time: float | timedelta | None
    max_attempts: int | None
    max_retry_after: float | timedelta | None
    fallback: Any
    budget: RetryBudget | None
    breaker: CircuitBreaker | None
    clock: Clock | None


class RetryOptions(HedgeOptions, total=False):
    """The options that ``retry``, ``retry_call``, ``retry_call_async`` and ``attempts`` share.

    ``retry`` describes them. A function that passes them on is annotated
    ``**options: Unpack[RetryOptions]``.

    Example:
        >>> from backoff_ticker import RetryOptions, retry_call
        >>> options: RetryOptions = {"on": OSError, "max_attempts": 3}
        >>> retry_call(lambda: "done", **options)
        'done'
    """

    attempt_timeout: float | timedelta | None
    notify: Notify | list[Notify] | tuple[Notify, ...] | None
    on_attempt: Hook | list[Hook] | tuple[Hook, ...] | None
    on_retry: Hook | list[Hook] | tuple[Hook, ...] | None
    on_success: Hook | list[Hook] | tuple[Hook, ...] | None
    on_give_up: Hook | list[Hook] | tuple[Hook, ...] | None
    timer: TimerLike | None
