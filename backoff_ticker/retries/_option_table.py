"""The options of retries, each declared once: its name, its check and its default."""

from __future__ import annotations

from collections import namedtuple

from .._validation import as_count, as_flag, as_hooks, as_seconds, safe_repr
from ..cancellation import require_token
from ..circuits import as_error_rule
from ..clock import resolve_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import Final


class NotGiven:
    """The default of a parameter for which None is a valid value."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NO_FALLBACK: Final = NotGiven("NO_FALLBACK")


# `check` returns the value to use, or raises an error that names the option. Each option may be
# None, which is not checked.
Option = namedtuple("Option", "check default", defaults=(None,))  # noqa: PYI024 - without typing


def _as_callable(name: str, value: object) -> object:
    if not callable(value):
        raise TypeError(f"{name} must be callable or None, not {safe_repr(value)}")
    return value


def _as_limit(name: str, value: float | timedelta) -> float:
    return as_seconds(name, value, "a finite number of seconds >= 0, a timedelta or None")


def _as_max_elapsed_time(name: str, value: float | timedelta) -> float:
    seconds = as_seconds(name, value, "a finite number of seconds > 0, a timedelta or None")
    if not seconds:  # in a policy, 0 means no limit, as in Go
        raise ValueError(
            f"{name} must be > 0, not {safe_repr(value)}: max_attempts=1 means a single attempt, "
            f"{name}=None no limit"
        )
    return seconds


def _as_max_attempts(name: str, value: object) -> int:
    if type(value) is int and value > 0:  # retry_call() is often called with it
        return value
    return as_count(name, value, 1, also="None")


def _as_timer(name: str, value: object) -> object:
    from ..channels import require_timer  # rarely needed

    require_timer(name, value)
    return value


def _with_methods(kind: str, *methods: str) -> Callable[[str, object], object]:
    def check(name: str, value: object) -> object:
        if isinstance(value, type) or not all(callable(getattr(value, m, None)) for m in methods):
            raise TypeError(f"{name} must be {kind} or None, not {safe_repr(value)}")
        return value

    return check


def _as_name(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        kind = ValueError if value == "" else TypeError
        raise kind(f"{name} must be a str that is not empty, or None, not {safe_repr(value)}")
    return value


HOOKS: Final = ("notify", "around", "on_attempt", "on_retry", "on_success", "on_give_up")
"""Options that are functions, of which ``configure()`` may add some for the process."""

CUTTING: Final = ("token", "timeout", "attempt_timeout")
"""Options that may cut an attempt of a coroutine."""

OPTIONS: Final[Mapping[str, Option]] = {
    "on": Option(as_error_rule),
    "until": Option(_as_callable),
    "token": Option(require_token),
    "timeout": Option(_as_limit),
    "attempt_timeout": Option(_as_limit),
    "max_elapsed_time": Option(_as_max_elapsed_time),
    "max_attempts": Option(_as_max_attempts),
    "max_retry_after": Option(_as_limit, 21_600.0),
    **dict.fromkeys(HOOKS, Option(as_hooks)),
    "fallback": Option(lambda _, value: value, NO_FALLBACK),
    "note": Option(as_flag),
    "budget": Option(
        _with_methods("a RetryBudget, a BudgetLike", "try_acquire", "release", "success")
    ),
    "breaker": Option(_with_methods("a CircuitBreaker", "allow", "record", "release")),
    "clock": Option(lambda _, value: resolve_clock(value)),
    "timer": Option(_as_timer),
    "name": Option(_as_name),
}

LOOP_OPTIONS: Final = frozenset(OPTIONS) - {"fallback"}
"""Those of ``attempts()``."""

ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "before_sleep": ("on_retry",),
    "exception": ("on",),
    "exceptions": ("on",),
    "retry": ("on", "until"),
    "retry_error_callback": ("fallback",),
    "retry_if": ("until",),
    "stop": ("max_attempts", "max_elapsed_time", "timeout"),
    "tries": ("max_attempts",),
    "wait": ("backoff",),
}
"""Option names of other retry packages, and what may be meant by them here."""
