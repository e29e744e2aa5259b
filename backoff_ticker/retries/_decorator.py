"""``retry``: a decorator for functions of every kind."""

from __future__ import annotations

from functools import wraps
from types import CoroutineType
from weakref import ref

from .._validation import safe_repr
from ..policies import NamedPolicy, is_policy, require_policy
from ._drivers import (
    drive_after_failure,
    drive_after_failure_async,
    drive_from_start,
    drive_from_start_async,
)
from ._generators import retried_async_generator, retried_generator
from ._operation import kind_of, name_of, raise_coroutine_returned, raise_if_makes_policy
from ._options import NO_FALLBACK, Options
from ._settings import settings
from ._signatures import shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, Final, TypeVar, Unpack, overload

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ._budget import RetryBudget
    from ._circuit_breaker import CircuitBreaker
    from ._operation import Operation
    from ._option_types import (
        AsyncHooks,
        AsyncNotify,
        AsyncResultCheck,
        AsyncRetryOn,
        AsyncRetryOptions,
        Hooks,
        Notify,
        ResultCheck,
        RetryOn,
        Seconds,
    )
    from ._options import NoFallback
    from ._outcome import Outcome
    from ._signatures import (
        AsyncOptions,
        DecoratesNoClasses,
        Decorator,
        F,
        FallbackDecorator,
        SyncOptions,
    )

    D = TypeVar("D")
else:
    from ._signatures import overload

if TYPE_CHECKING:

    @overload
    def retry(  # type: ignore[overload-overlap]  # the more special one comes first
        backoff: BackOff | None = None,
        *,
        on: RetryOn = Exception,
        until: ResultCheck | None = None,
        retry_if: ResultCheck | None = None,
        token: CancellationToken | None = None,
        timeout: Seconds | None = None,
        attempt_timeout: None = None,
        max_elapsed_time: Seconds | None = None,
        max_attempts: int | None = None,
        max_retry_after: Seconds | None = 21_600.0,
        notify: Notify | None = None,
        on_attempt: Hooks | None = None,
        on_retry: Hooks | None = None,
        on_success: Hooks | None = None,
        on_give_up: Hooks | None = None,
        fallback: NoFallback = NO_FALLBACK,
        budget: RetryBudget | None = None,
        breaker: CircuitBreaker | None = None,
        clock: Clock | None = None,
        timer: TimerLike | None = None,
    ) -> Decorator[SyncOptions]: ...
    @overload
    def retry(
        backoff: BackOff | None = None,
        *,
        fallback: Callable[[Outcome], Awaitable[D]],
        **options: Unpack[AsyncRetryOptions],
    ) -> FallbackDecorator[D]: ...
    @overload
    def retry(
        backoff: BackOff | None = None,
        *,
        fallback: Callable[[Outcome], D],
        **options: Unpack[AsyncRetryOptions],
    ) -> FallbackDecorator[D]: ...
    @overload
    def retry(
        backoff: BackOff | None = None,
        *,
        fallback: D,
        **options: Unpack[AsyncRetryOptions],
    ) -> FallbackDecorator[D]: ...
    @overload
    def retry(  # type: ignore[overload-overlap]  # the more special one comes first
        function: type[Any], /
    ) -> DecoratesNoClasses: ...
    @overload
    def retry(function: F, /) -> F: ...


@overload
def retry(
    backoff: BackOff | None = None,
    *,
    on: AsyncRetryOn = Exception,
    until: AsyncResultCheck | None = None,
    retry_if: AsyncResultCheck | None = None,
    token: CancellationToken | None = None,
    timeout: Seconds | None = None,
    attempt_timeout: Seconds | None = None,
    max_elapsed_time: Seconds | None = None,
    max_attempts: int | None = None,
    max_retry_after: Seconds | None = 21_600.0,
    notify: AsyncNotify | None = None,
    on_attempt: AsyncHooks | None = None,
    on_retry: AsyncHooks | None = None,
    on_success: AsyncHooks | None = None,
    on_give_up: AsyncHooks | None = None,
    fallback: NoFallback = NO_FALLBACK,
    budget: RetryBudget | None = None,
    breaker: CircuitBreaker | None = None,
    clock: Clock | None = None,
    timer: TimerLike | None = None,
) -> Decorator[AsyncOptions]: ...
@shows(retry)
def retry(backoff: Any = None, **options: Any) -> Any:
    """Decorate a function so that it is called again, as a policy says, until it succeeds.

    ``@retry`` and ``@retry(policy, max_attempts=5)`` both work, on functions, methods, coroutine
    functions and other callables. Generators and asynchronous generators are started again until
    they have yielded their first item; later errors pass. The decorated function keeps its
    signature, and a coroutine function stays one.

    After an attempt these are checked in this order. The result is accepted; the error is
    permanent; ``on`` does not retry it; a token is cancelled; ``timeout`` is reached;
    ``max_elapsed_time`` has passed; ``max_attempts`` are made; the policy returns ``STOP``; the
    wait would reach ``timeout``, or end later than ``max_elapsed_time``; the budget is spent. If
    none of these ends the run, ``notify``, the hook ``on_retry``, the wait and the next attempt
    follow. An exception that is not an ``Exception`` (``KeyboardInterrupt``, ``SystemExit``,
    ``asyncio.CancelledError``) is never retried.

    Example:
        >>> from backoff_ticker import ConstantBackOff, retry
        >>> calls = []
        >>> @retry(ConstantBackOff(0.001), on=ConnectionError, max_attempts=5)
        ... def fetch():
        ...     calls.append("call")
        ...     if len(calls) < 3:
        ...         raise ConnectionError
        ...     return "page"
        >>> fetch(), len(calls)
        ('page', 3)

    Thread safety: each call is a run of its own, on a copy of the policy; any number of threads
    and loops may call at once.
    Wakes when: a wait ends by its time or by a cancel of a token; after a cancel no further call is
    made.
    If cancelled or interrupted: the exception passes, and nothing stays behind.

    Source: order and meaning of ``Retry`` in cenkalti/backoff v4, where not said otherwise.

    Args:
        backoff: The policy; None: ``ExponentialBackOff()``. Its own limit of elapsed time counts
            from the first failure. A feedback policy is told of each failure.
        **options: All by keyword, and all checked at once.

            * ``on``: the errors to retry: a type of ``Exception``, a tuple of them, a mapping from
              types to policies or bools (the most specific type decides; True: as ``backoff``
              says), or a function of the error that returns a bool, the wait in seconds or as a
              timedelta, or a policy to ask. Each run has one copy of each policy. Default:
              ``Exception``.
            * ``until``, ``retry_if``: a function of the result that returns whether it is accepted,
              or whether to try again; at most one of the two. A rejected result counts as a
              ``RejectedResult`` raised, and is retried whatever ``on`` says. In a coroutine these,
              and ``on``, may return an awaitable.
            * ``token``: a ``CancellationToken``. The first attempt is made even if it is cancelled
              already. While a coroutine runs, a cancel cuts it.
            * ``timeout``: seconds >= 0 or a timedelta for everything, from the start of the first
              attempt. No wait begins that would reach it; a coroutine is cut by it; a result that
              comes late is returned.
            * ``attempt_timeout``: the same for each attempt, of coroutines only; an attempt that it
              cuts counts as a ``TimeoutError`` raised, and is retried whatever types ``on`` names.
            * ``max_elapsed_time``: seconds >= 0 or a timedelta from the start of the first attempt:
              no attempt begins later, and no wait begins that would end later. Nothing is cut. 0:
              one attempt.
            * ``max_attempts``: an int >= 1.
            * ``max_retry_after``: seconds >= 0 or a timedelta: the most that a ``RetryAfter``, or
              a wait that ``on`` returned, makes a wait. Default: six hours; None: no bound.
            * ``notify``: called with the error and the wait in seconds before each wait.
            * ``on_attempt``, ``on_retry``, ``on_success``, ``on_give_up``: hooks, called with an
              ``Outcome`` before each attempt, before each wait, and at the end. Each may return a
              context manager, which then spans the attempt or the wait, and in a coroutine an
              awaitable, or an asynchronous context manager. Each of these options, and ``notify``,
              may be a list or tuple of functions, called in order.
            * ``fallback``: a value to return instead of the error of a run that gives up, or a
              function of the ``Outcome`` that returns it (in a coroutine, or an awaitable of it).
              Not for a cancel, an interrupt, an untouched error, or the error of a hook, a policy
              or a predicate.
            * ``budget``: a ``RetryBudget``.
            * ``breaker``: a ``CircuitBreaker`` that each attempt goes through. While its circuit is
              open no call is made: the attempt counts as failed with its ``CircuitOpen``, and the
              wait lasts at least until the circuit lets calls through. If the limits do not allow
              that, or the circuit is open until a reset, the ``CircuitOpen`` is raised.
            * ``clock``: measures all times; None: the current clock at the time of the call.
            * ``timer``: a ``Timer`` that measures the waits instead; for one run at a time.

    Raises:
        TypeError, ValueError: An option is unknown, invalid, or not possible for this kind of
            function.

    The decorated function raises:
        Exception: The last error itself, with a note that says why there was no further attempt;
            of a ``Permanent`` or a ``RetryAfter`` the error inside. An error at the first attempt
            that ``on`` does not retry passes untouched: without a note, and no hook is called.
        Cancelled: A token was cancelled; its ``__cause__`` is the last error.
        DeadlineExceeded: ``timeout`` or the deadline of a token was reached; likewise.
        Exception: The error of a hook, the policy, the timer, ``on``, ``until`` or ``retry_if``.
    """
    given = backoff
    if given is None or is_policy(given):
        return DecoratorWithOptions(checked_options("retry()", given, options))
    kinds = given if isinstance(given, tuple) else (given,)
    if any(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise TypeError(
            f"errors to retry are given by keyword: retry(on=...), not retry({given!r})"
        )
    if hasattr(given, "next_backoff") or isinstance(given, NamedPolicy):
        require_policy("backoff", given)  # raises: it is a class or makes one, or lacks reset()
    if options and callable(given):
        raise TypeError(
            f"retry() decorates {safe_repr(given)} without options, or takes options first: "
            "retry(...)(function), or retry_call(function, ...)"
        )
    return decorated(given, checked_options("retry()", None, {}))


class DecoratorWithOptions:
    """What ``retry(...)`` returns.

    Attributes:
        options: The options, checked.
    """

    __slots__ = ("options",)

    def __init__(self, options: Options) -> None:
        self.options: Options = options

    def __call__(self, function: Any, /) -> Any:
        """Return ``function``, retried."""
        return decorated(function, self.options)

    def __repr__(self) -> str:
        given = ", ".join(
            f"{name}={safe_repr(value)}" for name, value in self.options.given.items()
        )
        return f"retry({given})"


MARK: Final = "__backoff_ticker_retry__"
"""The attribute of a decorated function that has its ``Decoration``."""


class Decoration:
    """What a decorated function was made of.

    Attributes:
        result: A weak reference to the decorated function: who has a copy of the mark, is another.
        function: The function inside.
        given: The options as they were given, the policy among them.
    """

    __slots__ = ("function", "given", "result")

    def __init__(self, result: object, function: Operation, given: Mapping[str, Any]) -> None:
        self.result = ref(result)
        self.function: Operation = function
        self.given: Mapping[str, Any] = given


def checked_options(what: str, backoff: BackOff | None, options: Mapping[str, Any]) -> Options:
    """Return the options of a decorator, checked; it remembers what was given."""
    checked = Options(what, backoff, options)
    checked.given = options if backoff is None else {"backoff": backoff, **options}
    return checked


def decorated(function: Any, options: Options) -> Any:
    """Return a function, decorated; raise a TypeError if that is impossible."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(decorated(function.__func__, options))
    if isinstance(function, type):
        raise TypeError(
            f"retry() decorates functions and methods, not the class {function.__name__}, "
            f"which would become a function: retry_call({function.__name__}) retries making one"
        )
    raise_if_makes_policy("retry()", function)
    if not callable(function):
        below = " (a property or the like goes above it)" if hasattr(function, "__get__") else ""
        raise TypeError(
            f"retry() takes a BackOff as backoff, or decorates a function, "
            f"not {safe_repr(function)}" + below
        )
    result = _wrapper_for(function)(function, name_of(function), options)
    setattr(result, MARK, Decoration(result, function, options.given))
    return result


def _wrapper_for(function: object) -> Callable[[Operation, str, Options], Any]:
    kind = kind_of(function)
    if kind == "coroutine function":
        return _coroutine_function
    if kind == "async generator":
        return retried_async_generator
    return retried_generator if kind == "generator" else _function


def _function(function: Operation, name: str, options: Options) -> Any:
    options.raise_if_attempts_are_cut()
    if options.starts_early:

        @wraps(function)
        def run_from_start(*args: Any, **kwargs: Any) -> Any:
            return drive_from_start(options, name, function, args, kwargs)

        return run_from_start

    if options.limits_time or options.budget is not None:
        return _measured_function(function, name, options)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # As call() of _drivers.py, inlined: one more call would double the cost of the decorator.
        if settings.in_use:
            return drive_from_start(options, name, function, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except Exception as caught:  # noqa: BLE001 - the run decides about it
            error = caught
        else:
            if result.__class__ is CoroutineType:
                raise_coroutine_returned(name, result)
            return result
        try:
            return drive_after_failure(options, name, error, None, function, args, kwargs)
        finally:
            del error

    return wrapper


def _measured_function(function: Operation, name: str, options: Options) -> Any:
    limits_time, budget = options.limits_time, options.budget

    @wraps(function)
    def measured(*args: Any, **kwargs: Any) -> Any:
        # Inlined once more, with what each call costs if there are limits or a budget.
        if settings.in_use:
            return drive_from_start(options, name, function, args, kwargs)
        began = options.start_of_limits() if limits_time else None
        try:
            result = function(*args, **kwargs)
        except Exception as caught:  # noqa: BLE001 - the run decides about it
            error = caught
        else:
            if result.__class__ is CoroutineType:
                raise_coroutine_returned(name, result)
            if budget is not None:
                budget.success()
            return result
        try:
            return drive_after_failure(options, name, error, began, function, args, kwargs)
        finally:
            del error

    return measured


def _coroutine_function(function: Operation, name: str, options: Options) -> Any:
    if options.starts_early or options.can_cut:

        @wraps(function)
        async def run_from_start(*args: Any, **kwargs: Any) -> Any:
            return await drive_from_start_async(options, name, function, args, kwargs)

        return run_from_start

    limits_time, budget = options.limits_time, options.budget

    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if settings.in_use:
            return await drive_from_start_async(options, name, function, args, kwargs)
        began = options.start_of_limits() if limits_time else None
        try:
            result = await function(*args, **kwargs)
        except Exception as caught:  # noqa: BLE001 - the run decides about it
            error = caught
        else:
            if budget is not None:
                budget.success()
            return result
        try:
            return await drive_after_failure_async(
                options, name, error, began, function, args, kwargs
            )
        finally:
            del error

    return wrapper
