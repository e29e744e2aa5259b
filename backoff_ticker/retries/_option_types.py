"""The types of options, for callers and type checkers: nothing else imports this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from datetime import timedelta
    from types import UnionType

    from _typeshed import SupportsItems

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..circuits import CircuitBreaker
    from ..clock import Clock
    from ..policies import BackOff
    from ._outcome import Outcome

    Seconds = float | timedelta

    RetryOn = (
        type[Exception]
        | tuple[type[Exception], ...]
        | UnionType
        | SupportsItems[type[Exception], bool | Seconds | BackOff]
        | Callable[[Exception], bool | Seconds | Awaitable[bool | Seconds]]
    )
    ResultCheck = Callable[[Any], object]
    NotifyOne = Callable[[Exception, float], object]
    Notify = NotifyOne | Sequence[NotifyOne]
    AroundOne = Callable[[Outcome], AbstractContextManager[Any] | AbstractAsyncContextManager[Any]]
    Around = AroundOne | Sequence[AroundOne]
    Hook = Callable[[Outcome], object]
    Hooks = Hook | Sequence[Hook]


class HedgeOptions(TypedDict, total=False):
    """A ``TypedDict`` of the options of hedged calls, which ``retry`` describes."""

    on: RetryOn | None
    until: ResultCheck | None
    token: CancellationToken | None
    timeout: Seconds | None
    max_elapsed_time: Seconds | None
    max_attempts: int | None
    max_retry_after: Seconds | None
    note: bool | None
    budget: BudgetLike | None
    breaker: CircuitBreaker | None
    clock: Clock | None
    name: str | None


class RetryOptions(HedgeOptions, total=False):
    """A ``TypedDict`` of the options of ``retry``, ``attempts`` and the others, but ``fallback``.

    Annotate a function of yours that passes them on with ``**options: Unpack[RetryOptions]``.
    ``fallback`` is not among them, as it changes the type of the result.
    """

    attempt_timeout: Seconds | None
    timer: TimerLike | None
    notify: Notify | None
    around: Around | None
    on_attempt: Hooks | None
    on_retry: Hooks | None
    on_success: Hooks | None
    on_give_up: Hooks | None


class BudgetLike(Protocol):
    """What ``budget=`` of a retry has to have: a ``RetryBudget``, or an object like one.

    If it also has a coroutine function ``try_acquire_async()``, retries of coroutines await that
    instead, as for the answer of a server. If it raises or is cancelled, it must have taken
    nothing. An error of a method ends the retry and is raised, with the last error as its cause.

    Example:
        >>> from backoff_ticker import BudgetLike, ZeroBackOff, retry_call
        >>> class AtNight:
        ...     hour = 3
        ...     def try_acquire(self):
        ...         return not 8 <= self.hour < 20
        ...     def release(self): ...
        ...     def success(self): ...
        >>> budget: BudgetLike = AtNight()
        >>> ask = iter(["busy", "done"]).__next__
        >>> retry_call(ask, ZeroBackOff(), until="done".__eq__, budget=budget)
        'done'
    """

    def try_acquire(self) -> bool:
        """Return whether a retry may be made; it is then paid."""

    def release(self) -> object:
        """Take back the payment for a retry that was not made. It must not wait."""

    def success(self) -> object:
        """Count a success of the operation. It must not wait."""
