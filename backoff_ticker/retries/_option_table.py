"""The options of retries, each declared once: its check, its default, who takes it.

``Options`` gets its attributes from here; error messages, signatures and the reference page, names.
"""

from __future__ import annotations

from .._validation import as_count, as_hooks, as_seconds, safe_repr
from ..cancellation import require_token
from ..channels import require_timer
from ..circuits import as_error_rule
from ..clock import resolve_clock
from ._settings import HOOKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import Any, Final


class NoFallback:
    """The type of ``NO_FALLBACK``."""

    def __repr__(self) -> str:
        return "NO_FALLBACK"


NO_FALLBACK: Final = NoFallback()
"""The default of ``fallback``, of which None is a valid value."""


class Option:
    """One option.

    Args:
        check: Returns the value to use, or raises an error that names the option. It is not asked
            about None if that is the default.
        default: The value where the option is not given.
        hedges: Whether hedged calls take it.
        turns_on: The attributes of ``Options`` that are true if the option is given.
    """

    __slots__ = ("check", "default", "hedges", "turns_on")

    def __init__(
        self,
        check: Callable[[str, Any], object],
        default: object = None,
        *,
        hedges: bool = False,
        turns_on: tuple[str, ...] = (),
    ) -> None:
        self.check: Callable[[str, Any], object] = check
        self.default: Any = default
        self.hedges = hedges
        self.turns_on: tuple[str, ...] = turns_on


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


def _required(require: Callable[[str, object], None]) -> Callable[[str, object], object]:
    def check(name: str, value: object) -> object:
        require(name, value)
        return value

    return check


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


_BETWEEN = ("needs_steps", "starts_early")  # functions of the user, called between attempts
_JUDGES = (*_BETWEEN, "judges_results")
_BUDGET = ("try_acquire", "release", "success")
_BREAKER = ("allow", "record", "release")

OPTIONS: Final[Mapping[str, Option]] = {
    "on": Option(as_error_rule, hedges=True),
    "until": Option(_as_callable, hedges=True, turns_on=_JUDGES),
    "retry_if": Option(_as_callable, hedges=True, turns_on=_JUDGES),
    "token": Option(_required(require_token), hedges=True),
    "timeout": Option(_as_limit, hedges=True, turns_on=("can_cut", "limits_time")),
    "attempt_timeout": Option(_as_limit, turns_on=("can_cut",)),
    "max_elapsed_time": Option(_as_max_elapsed_time, hedges=True, turns_on=("limits_time",)),
    "max_attempts": Option(_as_max_attempts, hedges=True),
    "max_retry_after": Option(_as_limit, 21_600.0, hedges=True),
    "notify": Option(as_hooks, turns_on=_BETWEEN),
    **{hook: Option(as_hooks, turns_on=_BETWEEN) for hook in HOOKS},
    "fallback": Option(lambda _, value: value, NO_FALLBACK, hedges=True),
    "budget": Option(_with_methods("a RetryBudget, a BudgetLike", *_BUDGET), hedges=True),
    "breaker": Option(
        _with_methods("a CircuitBreaker", *_BREAKER), hedges=True, turns_on=("starts_early",)
    ),
    "clock": Option(lambda _, value: resolve_clock(value), hedges=True),
    "timer": Option(_required(require_timer), turns_on=("is_special",)),
    "name": Option(_as_name, hedges=True),
}

LOOP_OPTIONS: Final = frozenset(OPTIONS) - {"fallback"}
HEDGE_OPTIONS: Final = frozenset(name for name, one in OPTIONS.items() if one.hedges)

# Options of other packages for retries, with what they are called here.
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
