"""Skips the waits of retries, for tests that need no clock."""

from __future__ import annotations

from contextlib import ContextDecorator
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from .._operation import kind_of
from .._validation import as_count, safe_repr
from ..retries import active_no_wait

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


class _NoWait(ContextDecorator):
    """See ``no_wait``."""

    def __init__(self, max_attempts: int | None) -> None:
        if max_attempts is not None:
            if callable(max_attempts):
                raise TypeError(
                    f"max_attempts must be an int >= 1 or None, not {safe_repr(max_attempts)}: "
                    "a function is decorated by @no_wait()"
                )
            as_count("max_attempts", max_attempts, 1, also="None")
        self._max_attempts = max_attempts
        self._keys: list[object] = []

    def __repr__(self) -> str:
        return f"no_wait({'' if self._max_attempts is None else self._max_attempts})"

    def __enter__(self) -> None:
        key = object()
        self._keys.append(key)
        active_no_wait[key] = self._max_attempts

    def __exit__(self, *_: object) -> None:
        del active_no_wait[self._keys.pop()]

    def __call__(self, function: F, /) -> F:
        """Decorate a function or coroutine function; the body of a generator would run too late."""
        given: Any = function
        kind = kind_of(given)
        if not callable(given) or isinstance(given, type) or "generator" in kind:
            raise TypeError(
                f"no_wait() decorates functions and coroutine functions, not {safe_repr(function)}"
            )
        if kind == "function":
            return super().__call__(function)

        @wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await given(*args, **kwargs)

        return coroutine  # type: ignore[return-value]


def no_wait(max_attempts: int | None = None) -> _NoWait:
    """Skip the waits of retries in a block or a test; for tests that need no clock.

    Use it as ``with no_wait():``, or as a decorator of a test function or coroutine function. It
    affects the retries that begin while the block runs, in all threads and event loops. A skipped
    wait counts as waited, for policies, hooks and time limits. A coroutine yields to its event
    loop instead of waiting. A ``timer=`` is not started. Not skipped are the time for which a
    circuit is open (the retry raises ``CircuitOpen``), the waits of tickers, and the delays of
    hedged calls: use a ``VirtualClock`` for these. Blocks may be nested.

    Args:
        max_attempts: The greatest number of attempts of each retry and hedged call, an int >= 1; a
            smaller ``max_attempts`` of their own counts. None means no other limit.

    Example:
        >>> from backoff_ticker import ConstantBackOff, retry_call
        >>> from backoff_ticker.testing import no_wait
        >>> numbers = iter([0, 0, 4])
        >>> with no_wait():
        ...     retry_call(lambda: 1 / next(numbers), ConstantBackOff(60), on=ZeroDivisionError)
        0.25
    """
    return _NoWait(max_attempts)
