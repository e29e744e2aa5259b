"""The option ``on``: which errors a retry retries, and which are failures to a circuit breaker."""

from __future__ import annotations

from collections.abc import Mapping

from .._error_chain import find_permanent
from .._errors import Cancelled, CircuitOpen, DeadlineExceeded, RetryAfter
from .._operation import is_awaitable, raise_async
from .._validation import as_error_types, as_seconds, safe_repr
from ..policies import is_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def as_error_rule(name: str, value: Any) -> Any:
    """Return ``on``, checked: a type, a tuple of them, a mapping from them, or a function."""
    on = as_error_types(name, value)
    for kind, rule in on.items() if isinstance(on, Mapping) else ():
        if not isinstance(rule, bool) and not is_policy(rule):
            expected = "True, False or a BackOff"
            raise TypeError(f"{name}[{kind.__name__}] must be {expected}, not {safe_repr(rule)}")
    return on


def judged(on: Any, error: BaseException) -> bool | None:
    """Return whether ``error`` is a failure; None: it says nothing about the service."""
    if not isinstance(error, BaseException):
        raise TypeError(f"error must be an exception or None, not {safe_repr(error)}")
    if isinstance(error, (Cancelled, CircuitOpen)) and not isinstance(error, DeadlineExceeded):
        return None
    return _covers(on, error) if isinstance(error, Exception) else None


def _covers(on: Any, error: BaseException) -> bool:
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
