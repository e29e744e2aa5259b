"""``retry``: a decorator for functions of every kind; ``retry_with`` and ``retry_options``."""

from __future__ import annotations

from functools import wraps
from types import MethodType, UnionType
from weakref import ref

from .._operation import kind_of, name_of
from .._validation import is_duration, safe_repr
from ..policies import is_policy, makes_policies, require_policy
from ._drive import retried, retried_async, retried_async_generator, retried_generator
from ._option_table import NO_FALLBACK
from ._options import Options, raise_if_makes_policy
from ._signatures import overload, shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, Final, Unpack

    from ..policies import BackOff
    from ._option_types import RetryOptions
    from ._outcome import Outcome
    from ._signatures import D, Decorator, F, FallbackDecorator, P


@overload
def retry(function: F, /) -> F: ...
@overload
def retry(
    backoff: BackOff | None = None,
    *,
    fallback: Callable[[Outcome], Awaitable[D]],
    **options: Unpack[RetryOptions],
) -> FallbackDecorator[D]: ...
@overload
def retry(
    backoff: BackOff | None = None,
    *,
    fallback: Callable[[Outcome], D],
    **options: Unpack[RetryOptions],
) -> FallbackDecorator[D]: ...
@overload
def retry(
    backoff: BackOff | None = None, *, fallback: D, **options: Unpack[RetryOptions]
) -> FallbackDecorator[D]: ...
@overload
def retry(backoff: BackOff | None = None, **options: Unpack[RetryOptions]) -> Decorator: ...
@shows(retry, fallback=NO_FALLBACK)
def retry(backoff: Any = None, **options: Any) -> Any:
    """Retry the decorated function: call it again after a failure, until it succeeds.

    A back-off policy says how long to wait between two attempts; the policy and the options say
    when to give up. ``@retry`` and ``@retry(policy, max_attempts=5)`` decorate functions, methods,
    coroutine functions and other callables, whose signature stays. A generator is restarted until
    it has yielded its first item.

    Without arguments, ``@retry`` waits half a second and then longer each time, and gives up after
    15 minutes. ``KeyboardInterrupt``, ``asyncio.CancelledError`` and the like are never retried.

    Example:
        >>> from backoff_ticker import ConstantBackOff, retry
        >>> answers = iter([ConnectionError("no route"), "page"])
        >>> @retry(ConstantBackOff(0.001), on=ConnectionError, max_attempts=5)
        ... def fetch():
        ...     answer = next(answers)
        ...     if isinstance(answer, Exception):
        ...         raise answer
        ...     return answer
        >>> fetch()
        'page'

    Thread safety: each call is a run of its own, on copies of its policies, in any thread or loop.
    Wakes when: the time of a wait is over, or a token is cancelled.
    If cancelled or interrupted: the exception is raised, and nothing stays behind.
    In a running event loop: a plain function that has to wait blocks the loop, as ``time.sleep()``
    does, and a ``RuntimeWarning`` names the line that called it.

    Source: order and meaning of ``Retry`` in cenkalti/backoff v4, unless stated otherwise.

    Args:
        backoff: The policy. None means ``ExponentialBackOff()``. Its own limit of elapsed time
            counts from the first failure. A feedback policy is told of each failure.
        **options: Each of the following, by keyword.
        on: The errors to retry. None means every ``Exception`` except ``NameError``,
            ``AttributeError``, ``TypeError``, ``ImportError``, ``SyntaxError``,
            ``NotImplementedError``, ``AssertionError`` and their subclasses, which indicate a bug.
            Give a subclass of ``Exception``, a tuple or a union (``A | B``) of them; a mapping from
            them to True (``backoff`` says the wait), False, seconds or a policy, in which the most
            specific class decides; or a function that takes the error and returns a bool or the
            seconds to wait.
        until: A function that takes the result and returns whether to accept it. A result that is
            not accepted counts as a ``RejectedResult`` and is retried whatever ``on`` says. In
            coroutines ``until`` and ``on`` may return an awaitable.
        token: A ``CancellationToken`` that stops the run. It ends a wait at once, cuts a coroutine
            that is running, and no further call follows. The first attempt is made even if the
            token is already cancelled, and is then not cut by it. A token of a policy does the
            same.
        timeout: The time limit for everything: seconds >= 0 or a timedelta, from the start of the
            first attempt. A wait that would reach it is not begun, and a running coroutine is cut.
            A function in a thread cannot be cut: its result is returned even if it is late.
        attempt_timeout: The time limit of each attempt: seconds >= 0 or a timedelta. Coroutines
            only. An attempt that is cut counts as a ``TimeoutError``, and is retried whatever
            classes ``on`` names, unless a function, or False in a mapping, says no.
        max_elapsed_time: A time limit that cuts nothing: seconds > 0 or a timedelta, from the
            start of the first attempt. No attempt begins after it, and no wait that would end after
            it.
        max_attempts: The maximum number of calls, including the first: an int >= 1.
        max_retry_after: The longest wait that a ``RetryAfter``, or a number from ``on``, can ask
            for: seconds >= 0 or a timedelta. The default is six hours; None means no bound.
        notify: Called with the error and the seconds to wait, before each wait. Like the next five
            options it can be one function, or a list or tuple of functions, called in order. In
            coroutines they may be coroutine functions. What they return does not matter.
        around: Called with an ``Outcome``; returns a context manager (in coroutines an
            asynchronous one, too) that is entered around each attempt. It sees the error of the
            attempt, and cannot swallow it.
        on_attempt: A hook, called with an ``Outcome`` before each attempt.
        on_retry: A hook, called before each wait.
        on_success: A hook, called when a result was accepted.
        on_give_up: A hook, called when the run ends without an accepted result.
        fallback: What to return instead of raising, when the run gives up: a value, or a function
            that takes the ``Outcome`` and returns the value (in coroutines, or an awaitable of it).
            It does not stand for a cancel or an interrupt, for an error that ``on`` does not retry,
            nor for one of a hook, policy or predicate.
        note: False leaves off the note on the final error, True adds it. None means what
            ``configure(notes=)`` says, by default True.
        budget: A ``RetryBudget``, or a ``BudgetLike``, that each retry takes from.
        breaker: A ``CircuitBreaker`` that each attempt goes through. While its circuit is open the
            function is not called: the attempt fails with ``CircuitOpen``, and the wait lasts at
            least until the circuit lets calls through. If the limits do not allow that wait, the
            ``CircuitOpen`` is raised.
        clock: Measures all times. None means the current clock at the time of the call.
        timer: A ``Timer``, or an object like one, that measures the waits instead of ``clock``. It
            serves one run at a time.
        name: What outcomes, notes, logs and ``current_attempt()`` call the operation: a str. None
            means its ``__qualname__``.

    Raises:
        TypeError, ValueError: An option is unknown or invalid, or does not fit this kind of
            function. All options are checked when the function is decorated.

    The decorated function raises:
        Exception: The last error itself, with a note (PEP 678) that says why there was no further
            attempt; for a ``Permanent`` or a ``RetryAfter`` the error inside. An error at the first
            attempt that ``on`` does not retry is raised as if the function were not decorated.
        Cancelled: A token was cancelled. Its ``__cause__`` is the last error.
        DeadlineExceeded: ``timeout``, or the deadline of a token, was reached; likewise.
        Exception: A hook, ``around``, the policy, the timer, ``on`` or ``until`` raised an error.
    """
    if backoff is None or is_policy(backoff):
        return DecoratorWithOptions("retry()", backoff, options)
    kinds = backoff.__args__ if isinstance(backoff, UnionType) else backoff
    kind = kinds[0] if isinstance(kinds, tuple) and kinds else kinds
    if isinstance(kind, type) and issubclass(kind, BaseException):
        raise TypeError(
            f"errors to retry are given by keyword: retry(on=...), not retry({backoff!r})"
        )
    if hasattr(backoff, "next_backoff") or makes_policies(backoff) or is_duration(backoff):
        require_policy("backoff", backoff)  # raises, and says what it has to be instead
    if options and callable(backoff):
        raise TypeError(
            f"retry() decorates {safe_repr(backoff)} without options, or takes options first: "
            "retry(...)(function), or retry_call(function, ...)"
        )
    return DecoratorWithOptions("retry()", None, {})(backoff)


MARK: Final = "__backoff_ticker_retry__"
"""The attribute of a decorated function: a weak reference to it, and the options as given."""


class DecoratorWithOptions:
    """What ``retry(...)`` returns: a decorator, and the options as they were given."""

    __slots__ = ("_options", "given")

    def __init__(self, what: str, backoff: BackOff | None, options: Mapping[str, Any]) -> None:
        self._options = Options(what, backoff, options)
        self.given = options if backoff is None else {"backoff": backoff, **options}

    def __call__(self, function: Any, /) -> Any:
        """Return ``function``, decorated."""
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self(function.__func__))
        if isinstance(function, type):
            raise TypeError(
                f"retry() decorates functions and methods, not the class {function.__name__}, "
                f"which would become a function: retry_call({function.__name__}) makes an instance"
            )
        raise_if_makes_policy("retry()", function)
        if not callable(function):
            raise TypeError(
                "retry() takes a BackOff as backoff, or decorates a function (@property and the "
                f"like go above @retry), not {safe_repr(function)}"
            )
        options = self._options
        kind = kind_of(function)
        if kind in {"function", "generator"}:
            options.raise_if_attempts_are_cut()
            options.raise_if_functions_are_awaited()
        make = retried_async if kind == "coroutine function" else retried
        if "generator" in kind:
            options.raise_if_results_are_judged()
            make = retried_generator if kind == "generator" else retried_async_generator
        result = wraps(function)(make(function, options.name or name_of(function), options))
        setattr(result, MARK, (ref(result), self.given))
        return result

    def __repr__(self) -> str:
        given = (f"{name}={safe_repr(value)}" for name, value in self.given.items())
        return f"retry({', '.join(given)})"


# Changing the options of a decorated function


@overload
def retry_with(
    function: Callable[P, object],
    /,
    backoff: BackOff | None = None,
    *,
    fallback: object,
    **changes: Unpack[RetryOptions],
) -> Callable[P, Any]: ...
@overload
def retry_with(
    function: F, /, backoff: BackOff | None = None, **changes: Unpack[RetryOptions]
) -> F: ...
def retry_with(function: Any, /, backoff: Any = None, **changes: Any) -> Any:
    """Return a copy of a decorated function with other options, such as fewer attempts.

    Example:
        >>> from backoff_ticker import retry, retry_options, retry_with
        >>> @retry(on=ConnectionError, max_attempts=5)
        ... def fetch(url): ...
        >>> retry_options(retry_with(fetch, max_attempts=1))["max_attempts"]
        1

    Args:
        function: A function or method of any kind that ``retry`` decorated, or a decorator that
            ``retry(...)`` returned. It does not change.
        backoff: The policy. None keeps the policy of ``function``.
        **changes: Options of ``retry``; others stay. None removes an option, but ``fallback=None``
            makes the function return None.

    Raises:
        TypeError, ValueError: ``retry`` did not decorate ``function``, or an option is invalid.
    """
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(retry_with(function.__func__, backoff, **changes))
    if isinstance(function, MethodType):
        return MethodType(retry_with(function.__func__, backoff, **changes), function.__self__)
    options = {**_given_to("retry_with()", function), **changes}
    kept = options.pop("backoff", None)
    policy = kept if backoff is None else backoff
    decorator = DecoratorWithOptions("retry_with()", policy, options)
    is_decorator = isinstance(function, DecoratorWithOptions)
    return decorator if is_decorator else decorator(function.__wrapped__)


def retry_options(function: Callable[..., object], /) -> dict[str, Any]:
    """Return the options that a function was decorated with, as they were given to ``retry``.

    A policy is among them as ``backoff``: ``retry(**retry_options(f))(g)`` decorates ``g`` as ``f``
    is decorated.

    Example:
        >>> from backoff_ticker import ConstantBackOff, retry, retry_options
        >>> @retry(ConstantBackOff(60), max_attempts=5)
        ... def fetch(url): ...
        >>> retry_options(fetch)
        {'backoff': ConstantBackOff(60.0), 'max_attempts': 5}

    Raises:
        TypeError: ``retry`` did not decorate ``function``.
    """
    given: Any = function
    if isinstance(given, (staticmethod, classmethod, MethodType)):
        given = given.__func__
    return dict(_given_to("retry_options()", given))


def _given_to(what: str, function: Any) -> Mapping[str, Any]:
    """Return the options of a decorated function, or of a decorator, as they were given."""
    if isinstance(function, DecoratorWithOptions):
        return function.given
    if not hasattr(function, MARK):
        raise TypeError(f"{what} needs a function that retry decorated, not {safe_repr(function)}")
    result, given = getattr(function, MARK)
    if result() is not function:  # functools.wraps() has copied the mark
        raise TypeError(
            f"{what} needs the function that retry returned, but {safe_repr(function)} has another "
            f"decorator around it: call {what} inside of that decorator"
        )
    return given
