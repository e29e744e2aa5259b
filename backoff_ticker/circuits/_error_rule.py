"""The option ``on``: which errors a retry retries, and which are failures to a circuit breaker."""

from __future__ import annotations

from collections.abc import Mapping

from .._error_chain import find_permanent
from .._errors import Cancelled, CircuitOpen, DeadlineExceeded, RetryAfter
from .._operation import called
from .._validation import as_error_types, as_seconds, safe_repr
from ..policies import is_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_BUGS = (
    *(AssertionError, AttributeError, ImportError, NameError),
    *(NotImplementedError, SyntaxError, TypeError),
)
_DEFAULT_RULES: Final[Mapping[type, Any]] = {Exception: True, **dict.fromkeys(_BUGS, False)}


def as_error_rule(name: str, value: Any) -> Any:
    """Return ``on``, checked; a mapping as a dict to bools, policies, and seconds as floats."""
    on = as_error_types(name, value)
    if not isinstance(on, Mapping):
        return on
    expected = "True, False, seconds >= 0, a timedelta or a BackOff"
    return {
        kind: rule
        if isinstance(rule, bool) or is_policy(rule)
        else as_seconds(f"{name}[{kind.__name__}]", rule, expected)
        for kind, rule in on.items()
    }


def rules_by_class(on: Any) -> Mapping[type, Any] | None:
    """Return what ``on``, checked, says by class of error; None: it is a function, which decides.

    A rule is True, False, a number of seconds or a policy. ``on`` None is the default of retries.
    """
    if on is None:
        return _DEFAULT_RULES
    if isinstance(on, Mapping):
        return dict(on)
    if isinstance(on, tuple):
        return dict.fromkeys(on, True)
    return {on: True} if isinstance(on, type) else None


def rule_for(rules: Mapping[type, Any], error: BaseException, base: type = object) -> Any:
    """Return the rule for the class of an error, or for the nearest of its base classes.

    Only rules for ``base`` and its subclasses count. None: there is none.
    """
    for kind in type(error).__mro__:
        if kind in rules and issubclass(kind, base):
            return rules[kind]
    return None


def checked_answer(answer: Any) -> bool | float:
    """Return what a function ``on`` has returned: a bool, or the seconds that it asks for."""
    if isinstance(answer, bool):
        return answer
    return as_seconds("what on returns", answer, "a bool, seconds >= 0 or a timedelta")


def judged(on: Any, error: BaseException) -> bool | None:
    """Return whether ``error`` is a failure; None: it says nothing about the service."""
    if not isinstance(error, BaseException):
        raise TypeError(f"error must be an exception or None, not {safe_repr(error)}")
    if not isinstance(error, Exception) or (
        isinstance(error, (Cancelled, CircuitOpen)) and not isinstance(error, DeadlineExceeded)
    ):
        return None
    if isinstance(error, RetryAfter) and error.error is not None:
        error = error.error
    if find_permanent(error) is not None:
        return False
    if isinstance(error, RetryAfter):
        return True
    rules = rules_by_class(on)
    rule = checked_answer(called("on", on, error)) if rules is None else rule_for(rules, error)
    return rule is not None and rule is not False
