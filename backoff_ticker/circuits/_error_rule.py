"""The option ``on``: which errors a retry retries, and which are failures to a circuit breaker."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType

from .._error_chain import find_permanent
from .._errors import RetryAfter
from .._operation import is_awaitable, raise_async
from .._validation import as_seconds, safe_repr
from ..policies import is_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def as_error_rule(name: str, on: Any) -> Any:
    """Return ``on``, checked: a type, a tuple of them, a mapping or a function."""
    if isinstance(on, UnionType):
        on = on.__args__
    for kind in on if isinstance(on, (tuple, Mapping)) else (on,):
        if isinstance(kind, type) and issubclass(kind, Exception):
            continue
        if isinstance(kind, type) and issubclass(kind, BaseException):
            raise TypeError(
                f"{name} must name types of Exception, not {kind.__name__}: interrupts and cancels "
                f"of tasks are never retried; {name}=Exception means every other error"
            )
        if isinstance(kind, type) or kind is not on or not callable(on):
            raise TypeError(
                f"{name} must be an exception type, a tuple of them, a mapping from them to "
                f"policies or bools, or a function of an error, not {safe_repr(on)}"
            )
    if isinstance(on, Mapping):
        for kind, rule in on.items():
            if not isinstance(rule, bool) and not is_policy(rule):
                raise TypeError(
                    f"{name}[{kind.__name__}] must be True, False or a BackOff, "
                    f"not {safe_repr(rule)}"
                )
    return on


def is_failure(on: Any, error: Exception) -> bool:
    """Whether ``on``, which was checked, says that a call which raised ``error`` has failed.

    Raises:
        TypeError, ValueError: ``on`` returned none of what it may.
        Exception: ``on`` raised it.
    """
    if isinstance(error, RetryAfter) and error.error is not None:
        error = error.error
    if find_permanent(error) is not None:
        return False
    if isinstance(error, RetryAfter):
        return True
    if isinstance(on, (type, tuple)):
        return isinstance(error, on)
    if isinstance(on, Mapping):
        return next((on[kind] for kind in type(error).__mro__ if kind in on), False) is not False
    answer = on(error)
    if is_awaitable(answer):
        raise_async("on", answer)
    if not isinstance(answer, bool) and not is_policy(answer):
        as_seconds("what on returns", answer, "a bool, seconds >= 0, a timedelta or a BackOff")
    return answer is not False
