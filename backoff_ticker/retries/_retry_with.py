"""``retry_with`` and ``retry_options``: the options of a decorated function, changed and read."""

from __future__ import annotations

from types import MethodType

from .._validation import safe_repr
from ._decorator import MARK, DecoratorWithOptions, checked_options, decorated
from ._signatures import shows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Unpack, overload

    from ..policies import BackOff
    from ._decorator import Decoration
    from ._option_types import AsyncRetryOptions, RetryOptions
    from ._signatures import AsyncF, F, P
else:
    from ._signatures import overload

if TYPE_CHECKING:

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

    Options that are not named keep their value, and ``function`` itself does not change. The copy
    is of the same kind: a bound method, for example, is bound to the same object.

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
        **changes: Options of ``retry``. None removes an option whose default is None. A fallback
            cannot be removed here, as ``fallback=None`` makes the function return None: decorate
            ``function.__wrapped__`` with what ``retry_options(function)`` has beside it.

    Raises:
        TypeError, ValueError: ``retry`` did not decorate ``function``, or an option is invalid.
    """
    given = function
    if isinstance(given, (staticmethod, classmethod)):
        return type(given)(retry_with(given.__func__, backoff, **changes))
    if isinstance(given, MethodType):
        return MethodType(retry_with(given.__func__, backoff, **changes), given.__self__)
    is_decorator = isinstance(given, DecoratorWithOptions)
    source = given.options if is_decorator else _decoration_of("retry_with()", given)
    options = {**source.given, **changes}
    kept = options.pop("backoff", None)
    checked = checked_options("retry_with()", kept if backoff is None else backoff, options)
    return DecoratorWithOptions(checked) if is_decorator else decorated(source.function, checked)


def retry_options(function: Callable[..., object], /) -> dict[str, Any]:
    """Return the options that a function was decorated with, as they were given to ``retry``.

    If a policy was given, it is among them as ``backoff``. So ``retry(**retry_options(f))(g)``
    decorates ``g`` as ``f`` is decorated.

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
    if isinstance(given, DecoratorWithOptions):
        return dict(given.options.given)
    return dict(_decoration_of("retry_options()", given).given)


def _decoration_of(what: str, function: Any) -> Decoration:
    decoration: Any = getattr(function, MARK, None)
    if decoration is None:
        raise TypeError(f"{what} needs a function that retry decorated, not {safe_repr(function)}")
    if decoration.result() is not function:  # functools.wraps() has copied the mark
        raise TypeError(
            f"{what} needs the function that retry returned, but {safe_repr(function)} has another "
            f"decorator around it: call {what} inside of that decorator"
        )
    return decoration  # type: ignore[no-any-return]
