"""``retry_with`` and ``retry_options``: the options of a decorated function, changed and read."""

from __future__ import annotations

from types import MethodType

from .._validation import safe_repr
from ._decorator import MARK, DecoratorWithOptions
from ._signatures import overload, shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Unpack

    from ..policies import BackOff
    from ._option_types import AsyncRetryOptions, RetryOptions
    from ._signatures import AsyncF, F, P


@overload
def retry_with(
    function: AsyncF, /, backoff: BackOff | None = None, **changes: Unpack[AsyncRetryOptions]
) -> AsyncF: ...
@overload
def retry_with(
    function: Callable[P, object],
    /,
    backoff: BackOff | None = None,
    *,
    fallback: object,
    **changes: Unpack[AsyncRetryOptions],
) -> Callable[P, Any]: ...
@overload
def retry_with(
    function: F, /, backoff: BackOff | None = None, **changes: Unpack[RetryOptions]
) -> F: ...
@shows(retry_with)
def retry_with(function: Any, /, backoff: Any = None, **changes: Any) -> Any:
    """Return a copy of a decorated function with other options, such as fewer attempts.

    Other options keep their value, and ``function`` itself does not change. The copy is of the same
    kind: a bound method, for example, is bound to the same object.

    Example:
        >>> from backoff_ticker import ConstantBackOff, retry, retry_with
        >>> @retry(ConstantBackOff(60), on=ConnectionError, max_attempts=5)
        ... def fetch(url):
        ...     print("called")
        ...     raise ConnectionError("no route")
        >>> try:
        ...     retry_with(fetch, max_attempts=1)("/")
        ... except ConnectionError as error:
        ...     print(error)
        called
        no route

    Thread safety: any thread.

    Args:
        function: A function, method, coroutine function, generator function, static method or
            class method that ``retry`` decorated, or a decorator that ``retry(...)`` returned.
        backoff: The policy. None keeps the policy of ``function``.
        **changes: Options of ``retry``. None removes an option, but ``fallback=None`` makes the
            function return None: to remove a fallback, decorate ``function.__wrapped__`` with the
            other ``retry_options(function)``.

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

    Thread safety: any thread.

    Args:
        function: As for ``retry_with``.

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
    return given  # type: ignore[no-any-return]
