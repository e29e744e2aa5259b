"""The options of retries, each declared once: its check, its default, who takes it.

``Options`` gets its attributes from here; error messages, signatures and the reference page, names.
"""

from __future__ import annotations

from collections import namedtuple

from .._validation import as_count, as_hooks, as_seconds, safe_repr
from ..cancellation import require_token
from ..circuits import as_error_rule
from ..clock import resolve_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import Final


class _NoFallback:
    def __repr__(self) -> str:
        return "NO_FALLBACK"


NO_FALLBACK: Final = _NoFallback()
"""The default of ``fallback``, for which None is a valid value."""


# - `check` returns the value to use, or raises an error that names the option. It is not called
#   with None if that is the default.
# - `turns_on`: the attributes of `Options` that are true if the option is given.
# - `loops`, `hedges`: whether `attempts()` and hedged calls take it.
Option = namedtuple(  # noqa: PYI024 - typing is not imported at run time
    "Option", "check default turns_on loops hedges", defaults=(None, (), True, True)
)


def _as_callable(name: str, value: object) -> object:
    if not callable(value):
        raise TypeError(f"{name} must be callable or None, not {safe_repr(value)}")
    return value


def _as_limit(name: str, value: float | timedelta | None) -> float | None:
    if value is None:
        return None
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


def _as_token(name: str, value: object) -> object:
    require_token(name, value)
    return value


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


# Functions of the user, called between attempts.
_BETWEEN = ("needs_steps", "starts_early")
_HOOK = Option(as_hooks, turns_on=_BETWEEN, hedges=False)
_JUDGE = Option(_as_callable, turns_on=(*_BETWEEN, "judges_results"))

OPTIONS: Final[Mapping[str, Option]] = {
    "on": Option(as_error_rule),
    "until": _JUDGE,
    "retry_if": _JUDGE,
    "token": Option(_as_token),
    "timeout": Option(_as_limit, turns_on=("can_cut", "limits_time")),
    "attempt_timeout": Option(_as_limit, turns_on=("can_cut",), hedges=False),
    "max_elapsed_time": Option(_as_max_elapsed_time, turns_on=("limits_time",)),
    "max_attempts": Option(_as_max_attempts),
    "max_retry_after": Option(_as_limit, 21_600.0),
    "notify": _HOOK,
    "on_attempt": _HOOK,
    "on_retry": _HOOK,
    "on_success": _HOOK,
    "on_give_up": _HOOK,
    "fallback": Option(lambda _, value: value, NO_FALLBACK, loops=False),
    "budget": Option(
        _with_methods("a RetryBudget, a BudgetLike", "try_acquire", "release", "success")
    ),
    "breaker": Option(
        _with_methods("a CircuitBreaker", "allow", "record", "release"), turns_on=("starts_early",)
    ),
    "clock": Option(lambda _, value: resolve_clock(value)),
    "timer": Option(_as_timer, hedges=False),
    "name": Option(_as_name),
}

LOOP_OPTIONS: Final = frozenset(name for name, one in OPTIONS.items() if one.loops)
HEDGE_OPTIONS: Final = frozenset(name for name, one in OPTIONS.items() if one.hedges)

# Option names of other retry packages, and their names here.
ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "before_sleep": ("on_retry",),
    "exception": ("on",),
    "exceptions": ("on",),
    "retry": ("on", "until", "retry_if"),
    "retry_error_callback": ("fallback",),
    "stop": ("max_attempts", "max_elapsed_time", "timeout"),
    "tries": ("max_attempts",),
    "wait": ("backoff",),
}
