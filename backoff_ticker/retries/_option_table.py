"""The options of retries, each declared once: default, check, help, and where it can be given.

``Options`` gets its defaults and checks from here, error messages and signatures the names, the
reference page its table. The types are in ``_option_types.py``, where type checkers can read them.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._validation import as_count, as_seconds, safe_repr
from ..cancellation import require_token
from ..channels import require_timer
from ..clock import resolve_clock
from ..policies import is_policy
from ._settings import HOOKS, as_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from typing import Any, Final

    from ..clock import Clock


class NoFallback:
    """The type of ``NO_FALLBACK``."""

    def __repr__(self) -> str:
        return "NO_FALLBACK"


NO_FALLBACK: Final = NoFallback()
"""The default of ``fallback``, of which None is a valid value."""

CALLS: Final = "calls"
LOOPS: Final = "loops"
HEDGES: Final = "hedged calls"


class Option:
    """One option.

    Attributes:
        check: Returns the value to use, or raises an error that names the option. It is not asked
            about None, unless ``takes_none`` is false.
        default: The value where the option is not given.
        help: What it sets, in one line.
        faces: Where it can be given: in ``CALLS`` (which decorated functions are), in ``LOOPS``, in
            ``HEDGES``.
        turns_on: The attributes of ``Options`` that are true if the option is given.
        takes_none: Whether None says that it is not given.
    """

    __slots__ = ("check", "default", "faces", "help", "takes_none", "turns_on")

    def __init__(  # noqa: PLR0913 - a declaration
        self,
        check: Callable[[str, Any], object],
        help: str,  # noqa: A002 - as in other tables of options
        *,
        default: object = None,
        faces: tuple[str, ...] = (CALLS, LOOPS, HEDGES),
        turns_on: tuple[str, ...] = (),
        takes_none: bool = True,
    ) -> None:
        self.check: Callable[[str, Any], object] = check
        self.default: Any = default
        self.help: str = help
        self.faces: tuple[str, ...] = faces
        self.turns_on: tuple[str, ...] = turns_on
        self.takes_none: bool = takes_none


def _as_on(name: str, value: object) -> object:
    for kind in value if isinstance(value, (tuple, Mapping)) else (value,):
        if isinstance(kind, type) and issubclass(kind, Exception):
            continue
        if isinstance(kind, type) and issubclass(kind, BaseException):
            raise TypeError(
                f"{name} must name types of Exception, not {kind.__name__}: interrupts and cancels "
                f"of tasks are never retried; {name}=Exception means every other error"
            )
        if isinstance(kind, type) or kind is not value or not callable(value):
            raise TypeError(
                f"{name} must be an exception type, a tuple of them, a mapping from them to "
                f"policies or bools, or a function of an error, not {safe_repr(value)}"
            )
    if isinstance(value, Mapping):
        for kind, rule in value.items():
            if not isinstance(rule, bool) and not is_policy(rule):
                raise TypeError(
                    f"{name}[{kind.__name__}] must be True, False or a BackOff, "
                    f"not {safe_repr(rule)}"
                )
    return value


def _as_anything(name: str, value: object) -> object:  # noqa: ARG001 - all checks take a name
    return value


def _as_callable(name: str, value: object) -> object:
    if not callable(value):
        raise TypeError(f"{name} must be callable or None, not {safe_repr(value)}")
    return value


def _as_limit(name: str, value: float | timedelta) -> float:
    return as_seconds(name, value, "a finite number of seconds >= 0, a timedelta or None")


def _as_max_attempts(name: str, value: object) -> int:
    if type(value) is int and value > 0:  # retry_call() is often called with it
        return value
    return as_count(name, value, 1, also="None")


def _as_token(name: str, value: object) -> object:
    require_token(name, value)
    return value


def _as_budget(name: str, value: object) -> object:
    _require_methods(
        name, value, "a RetryBudget, a BudgetLike", "try_acquire", "release", "success"
    )
    return value


def _as_breaker(name: str, value: object) -> object:
    _require_methods(name, value, "a CircuitBreaker", "allow", "record", "release")
    return value


def _require_methods(name: str, value: object, kind: str, *methods: str) -> None:
    if isinstance(value, type) or not all(callable(getattr(value, m, None)) for m in methods):
        raise TypeError(f"{name} must be {kind} or None, not {safe_repr(value)}")


def _as_clock(name: str, value: Clock) -> Clock:  # noqa: ARG001 - all checks take a name
    return resolve_clock(value)


def _as_name(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str or None, not {safe_repr(value)}")
    if not value:
        raise ValueError(f"{name} must not be empty; None means the name of the operation")
    return value


def _as_timer(name: str, value: object) -> object:
    require_timer(name, value)
    return value


_NOT_HEDGED = (CALLS, LOOPS)
_BETWEEN = ("needs_steps", "starts_early")  # functions of the user, called between attempts
_JUDGES = (*_BETWEEN, "judges_results")

OPTIONS: Final[Mapping[str, Option]] = {
    "on": Option(_as_on, "The errors to retry.", default=Exception, takes_none=False),
    "until": Option(_as_callable, "Says of a result whether to accept it.", turns_on=_JUDGES),
    "retry_if": Option(_as_callable, "Says of a result whether to retry.", turns_on=_JUDGES),
    "token": Option(_as_token, "A token that stops the run."),
    "timeout": Option(
        _as_limit,
        "The time for everything. It cuts a coroutine, and ``DeadlineExceeded`` is raised.",
        turns_on=("can_cut", "limits_time"),
    ),
    "attempt_timeout": Option(
        _as_limit,
        "The time for each attempt. Coroutines only.",
        faces=_NOT_HEDGED,
        turns_on=("can_cut",),
    ),
    "max_elapsed_time": Option(
        _as_limit,
        "A time limit that cuts nothing: no attempt begins after it. The last error is raised.",
        turns_on=("limits_time",),
    ),
    "max_attempts": Option(
        _as_max_attempts, "The greatest number of calls, the first included; 5 in hedged calls."
    ),
    "max_retry_after": Option(
        _as_limit, "The longest wait that a ``RetryAfter`` can ask for.", default=21_600.0
    ),
    "notify": Option(
        as_hooks,
        "Called with the error and the delay, before each wait.",
        faces=_NOT_HEDGED,
        turns_on=_BETWEEN,
    ),
    **{
        hook: Option(as_hooks, f"A hook, called {when}.", faces=_NOT_HEDGED, turns_on=_BETWEEN)
        for hook, when in zip(
            HOOKS,
            (
                "before each attempt",
                "before each wait",
                "when a result was accepted",
                "when the run ends without an accepted result",
            ),
            strict=True,
        )
    },
    "fallback": Option(
        _as_anything,
        "What to return instead of raising, or a function that returns it.",
        default=NO_FALLBACK,
        faces=(CALLS, HEDGES),
        takes_none=False,
    ),
    "budget": Option(_as_budget, "A budget that each retry takes from."),
    "breaker": Option(
        _as_breaker, "A circuit breaker that each attempt goes through.", turns_on=("starts_early",)
    ),
    "clock": Option(_as_clock, "Measures all times."),
    "timer": Option(
        _as_timer,
        "Measures the waits, instead of the clock.",
        faces=_NOT_HEDGED,
        turns_on=("is_special",),
    ),
    "name": Option(
        _as_name, "What outcomes, notes and logs call the operation, instead of its own name."
    ),
}

LOOP_OPTIONS: Final = frozenset(name for name, one in OPTIONS.items() if LOOPS in one.faces)
HEDGE_OPTIONS: Final = frozenset(name for name, one in OPTIONS.items() if HEDGES in one.faces)
