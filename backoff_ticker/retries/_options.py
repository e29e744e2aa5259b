"""The options of a retry, checked once for all its runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from .._errors import (
    BackoffTickerError,
    Cancelled,
    CircuitOpen,
    CircuitState,
    DeadlineExceeded,
    RetryAfter,
)
from .._validation import as_count, as_seconds, safe_repr, unknown_option
from ..cancellation import CancellationToken, any_of, require_token
from ..channels import require_timer
from ..clock import resolve_clock
from ..policies import (
    ExponentialBackOff,
    copy_policy,
    is_immutable,
    is_policy,
    require_policy,
    token_of,
)
from ..waiting import CHECKPOINT_EVERY
from ._error_chain import find_permanent
from ._no_wait import active_no_wait
from ._operation import is_awaitable
from ._outcome import StopReason
from ._settings import HOOKS, as_hooks, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from datetime import timedelta
    from typing import Any, Final

    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ._settings import Hooks


_SIX_HOURS = 21_600.0
_PACKAGE = __name__.partition(".")[0] + "."


class NoFallback:
    """The type of ``NO_FALLBACK``."""

    def __repr__(self) -> str:
        return "NO_FALLBACK"


NO_FALLBACK: Final = NoFallback()
"""The default of ``fallback``, of which None is a valid value."""


class Awaiting:
    """Stands for the answer of a predicate that has to be awaited first.

    Calling it returns the awaitable.

    Args:
        awaitable: What the predicate returned.
    """

    __slots__ = ("_awaitable",)

    def __init__(self, awaitable: Any) -> None:
        self._awaitable = awaitable

    def __call__(self) -> Any:
        return self._awaitable


if TYPE_CHECKING:
    # What follows a failure if no limit is reached: the end, for a reason; a wait of some seconds;
    # a wait that a policy says; an answer to be awaited first; or (None) a wait that the policy of
    # the retry says.
    Demand = StopReason | float | BackOff | Awaiting | None


class Options:
    """The checked options of one retry, shared by all its runs and never changed.

    Most attributes are the options as ``retry`` describes them, durations in seconds. ``token``
    combines the token that was given with the one of the policy.

    Attributes:
        backoff: The policy; each run makes a copy.
        given: The options of a decorator as they were given, the policy among them.
        judges_results: Whether ``until`` or ``retry_if`` is given.
        is_immutable: Whether the policy has no state, so that runs share it without a copy.
        is_off: Whether these are the options of a loop while retries are switched off: its one
            attempt is all, and its error passes as it is.
        needs_steps: Whether functions of the user are called between attempts (hooks, ``notify``,
            ``until`` or ``retry_if``), so that a run performs ``Steps``.
        can_cut: Whether something may cut an attempt of a coroutine: a token or a limit of time.
        limits_time: Whether a limit of time counts from the start of the first attempt.
        awaits_budget: Whether coroutines await the answer of the budget.
        starts_early: Whether a run in a thread begins before the first attempt, not after its
            failure: if it needs steps, if there is a circuit breaker to ask, or a deadline whose
            clock has to be compared.
        most_at_once: How many attempts ``may_try_again()`` allows; None: not known yet.
        retried: Classes of errors of which it is known that they are retried.

    Args:
        what: The public function that was called, for error messages.
        backoff: The policy; None: ``ExponentialBackOff()``.
        options: The options by name.
        allowed: The names of the options that ``what`` has.

    Raises:
        TypeError, ValueError: An option is unknown or invalid.
    """

    # Defaults are attributes of the class, so that a call without options need not set them.
    backoff: BackOff = ExponentialBackOff()
    given: Mapping[str, Any] = {}
    is_immutable: bool = False
    is_off: bool = False
    judges_results: bool = False
    is_special: bool = False
    needs_steps: bool = False
    can_cut: bool = False
    limits_time: bool = False
    awaits_budget: bool = False
    starts_early: bool = False
    most_at_once: int | None = None
    on: Any = Exception
    until: Callable[[Any], object] | None = None
    retry_if: Callable[[Any], object] | None = None
    token: CancellationToken | None = None
    timeout: float | None = None
    attempt_timeout: float | None = None
    max_elapsed_time: float | None = None
    max_attempts: int | None = None
    max_retry_after: float | None = _SIX_HOURS
    notify: tuple[Callable[[Exception, float], object], ...] | None = None
    on_attempt: Hooks | None = None
    on_retry: Hooks | None = None
    on_success: Hooks | None = None
    on_give_up: Hooks | None = None
    fallback: Any = NO_FALLBACK
    budget: Any = None  # a BudgetLike, perhaps with try_acquire_async()
    breaker: Any = None  # a CircuitBreaker, whose module imports this one
    clock: Clock | None = None
    timer: TimerLike | None = None
    _with_defaults: tuple[int, Options] | None = None

    def __init__(
        self,
        what: str,
        backoff: BackOff | None,
        options: Mapping[str, Any],
        allowed: Collection[str] | None = None,
    ) -> None:
        self._what = what
        # On the instance, because classify() reads it: faster there than on the class.
        self._on_types: Any = Exception  # None: `on` is a function or a mapping
        self.retried: set[type] = set()
        self._rules: Mapping[type, Any] | None = None
        self._covers_cancelled = False
        if options:
            self._check(options, _CHECKS if allowed is None else allowed)
        if backoff is not None:
            self._check_policy(backoff)
        if self._rules is not None:
            for kind, rule in self._rules.items():
                if not isinstance(rule, bool):
                    self._check_copy_and_token(f"on[{kind.__name__}]", rule)
        token = self.token
        self.is_special = token is not None or self.timer is not None
        if token is not None:
            self.can_cut = True
            self.starts_early = self.starts_early or token.deadline is not None

    def _check(self, options: Mapping[str, Any], allowed: Collection[str]) -> None:
        for name, value in options.items():
            if name not in allowed:
                known = [option for option in _CHECKS if option in allowed]
                raise TypeError(f"{unknown_option(self._what, name, known)}{self._hint()}")
            if value is None and name not in _NONE_IS_NOT_ABSENT:
                setattr(self, name, None)
                continue
            checked = _CHECKS[name](name, value)
            setattr(self, name, checked)
            if name == "on":
                self._use_on(value)
            elif name in _CALLED_BETWEEN_ATTEMPTS and checked is not None:
                self.needs_steps = self.starts_early = True
                self.judges_results = self.judges_results or name in ("until", "retry_if")
            elif name in ("timeout", "attempt_timeout", "max_elapsed_time"):
                self.can_cut = self.can_cut or name != "max_elapsed_time"
                self.limits_time = self.limits_time or name != "attempt_timeout"
            elif name == "breaker":
                self.starts_early = True
            elif name == "budget":
                self.awaits_budget = hasattr(checked, "try_acquire_async")
        if self.until is not None and self.retry_if is not None:
            raise TypeError(f"{self._what} takes until or retry_if, not both")

    def _use_on(self, on: Any) -> None:
        self._on_types = on if isinstance(on, (type, tuple)) else None
        if isinstance(on, Mapping):
            self._rules = dict(on)
        elif self._on_types is None:
            self._covers_cancelled = True  # a function decides about every error itself
            return
        self._covers_cancelled = any(issubclass(kind, Cancelled) for kind in _types_of(on))

    def _check_policy(self, backoff: BackOff) -> None:
        """Store the policy, and combine its token with the one that was given."""
        self.backoff = backoff
        self.is_immutable = is_immutable(backoff)
        if self.is_immutable:
            return
        try:
            require_policy("backoff", backoff)
        except TypeError as error:
            raise TypeError(f"{error}{self._hint()}") from None
        self._check_copy_and_token("backoff", backoff)

    def _check_copy_and_token(self, name: str, policy: BackOff) -> None:
        if not type(policy).__module__.startswith(_PACKAGE):
            copy_policy(name, policy)  # raises now, not at the first failure, if it must
        self._obey(token_of(policy))

    def _obey(self, token: CancellationToken | None) -> None:
        if token is not None and token is not self.token:
            self.token = token if self.token is None else any_of(token, self.token)

    def _hint(self) -> str:
        """Return how arguments reach the operation, for errors of functions that call one."""
        takes_operation = "call" in self._what
        return (
            "; functools.partial(...) gives arguments to the operation" if takes_operation else ""
        )

    def under_settings(self) -> Options:
        """Return these options with the default hooks and token of the process.

        While retries are switched off, an operation is called once, and its error passes.
        """
        values = settings.values
        if not values["active"]:
            return _OFF
        if not values["hooks"] and values["token"] is None:
            return self
        number, made = values["number"], self._with_defaults
        if made is None or made[0] != number:
            made = number, self._make_with_defaults(values)
            self._with_defaults = made
        return made[1]

    def _make_with_defaults(self, values: Mapping[str, Any]) -> Options:
        made = object.__new__(Options)
        made.__dict__.update(self.__dict__, _with_defaults=None)
        for name, hooks in values["hooks"].items():
            setattr(made, name, (*(getattr(self, name) or ()), *hooks))
            made.needs_steps = True
        made._obey(values["token"])
        made.is_special = made.is_special or made.token is not None
        made.can_cut = made.can_cut or made.token is not None
        return made

    def start_of_limits(self) -> float | None:
        """Return the current time, if a limit of time counts from it; else None."""
        return resolve_clock(self.clock).monotonic() if self.limits_time else None

    def raise_if_attempts_are_cut(self) -> None:
        """Raise a TypeError for ``attempt_timeout``: only a coroutine can be cut."""
        if self.attempt_timeout is not None:
            raise TypeError(
                f"{self._what} got attempt_timeout={self.attempt_timeout!r}, but only coroutines "
                "can be cut (in a loop: `async for`)"
            )

    def raise_if_results_are_judged(self) -> None:
        """Raise a TypeError for options about a result: a generator has none."""
        for name in ("until", "retry_if"):
            if getattr(self, name) is not None:
                raise TypeError(f"{self._what} cannot use {name} with a generator")
        if self.fallback is not NO_FALLBACK:
            raise TypeError(f"{self._what} cannot use fallback with a generator")

    def classify(  # noqa: PLR0911 - one for each rule
        self, error: Exception, *, was_cut: bool = False
    ) -> Demand:
        """Return whether, and when, an error is retried, apart from all limits.

        Types in ``on`` do not cover a ``Cancelled``, since that work was stopped on purpose, unless
        they name it or a deadline stopped the work.

        Args:
            error: The error of an attempt.
            was_cut: Whether ``attempt_timeout`` cut it: only a function, or a rule for the type,
                then says that it is not retried.

        Returns:
            Why it must not be retried; else the seconds to wait, the policy to ask, or None: as the
            policy of the retry says.

        Raises:
            TypeError, ValueError: ``on`` returned none of what it may.
            Exception: ``on`` raised it.
        """
        types = self._on_types
        # The markers are errors of the package: most errors cost only this check.
        if error.__cause__ is not None or isinstance(error, BackoffTickerError):
            if find_permanent(error) is not None:
                return StopReason.PERMANENT
            if isinstance(error, RetryAfter):
                return self._clamped(error.seconds)
            if isinstance(error, CircuitOpen):
                is_ours = self.breaker is not None and error.breaker is self.breaker
                may_retry = is_ours or types is None or isinstance(error, types)
                if may_retry and error.seconds is None and error.state is CircuitState.OPEN:
                    return StopReason.CIRCUIT_OPEN
                if is_ours:
                    return None
            if (
                isinstance(error, Cancelled)
                and not isinstance(error, DeadlineExceeded)
                and not self._covers_cancelled
            ):
                return StopReason.NOT_RETRIED
        if types is not None:
            if isinstance(error, types):
                self._remember(error)
                return None
            return None if was_cut else StopReason.NOT_RETRIED
        if self._rules is None:
            return self.parse_answer(self.on(error))
        named = (self._rules[kind] for kind in type(error).__mro__ if kind in self._rules)
        return self.parse_answer(next(named, was_cut))

    def _remember(self, error: Exception) -> None:
        """Note that errors of this class are retried: nothing but their class decides that."""
        kind = type(error)
        if type(kind) is type and not issubclass(kind, BackoffTickerError):
            self.retried.add(kind)

    def parse_answer(self, answer: Any) -> Demand:
        """Return what an answer of ``on`` means, as ``classify()`` does."""
        if isinstance(answer, bool):
            return None if answer else StopReason.NOT_RETRIED
        if is_awaitable(answer):
            return Awaiting(answer)
        if is_policy(answer):
            return answer  # type: ignore[no-any-return]
        expected = "a bool, seconds >= 0, a timedelta or a BackOff"
        return self._clamped(as_seconds("what on returns", answer, expected))

    def may_try_again(self, error: Exception, attempts: int) -> bool:
        """Whether an attempt follows a failure at once, as it did for errors of this class before.

        Nothing but the class decides then: there is no wait, limit, hook, budget or token.
        """
        if error.__class__ not in self.retried or error.__cause__ is not None or active_no_wait:
            return False
        if self.most_at_once is None:
            is_plain = self.budget is None and not (
                self.limits_time or self.is_special or self.starts_early or self.is_off
            )
            repeats = is_plain and self.is_immutable and self.backoff.next_backoff() == 0.0
            self.most_at_once = (self.max_attempts or sys.maxsize) if repeats else 0
        return attempts < self.most_at_once and attempts % CHECKPOINT_EVERY != 0

    def accepts(self, result: object) -> bool | Awaiting:
        """Return whether ``until`` or ``retry_if`` accepts a result.

        Raises:
            Exception: The function raised it.
        """
        judge = self.until or self.retry_if
        if judge is None:
            return True
        answer = judge(result)
        return Awaiting(answer) if is_awaitable(answer) else self.parse_judgement(answer)

    def parse_judgement(self, answer: object) -> bool:
        """Return whether a result is accepted, from the answer of ``until`` or ``retry_if``."""
        return bool(answer) if self.until is not None else not answer

    def _clamped(self, seconds: float) -> float:
        """Return a wait that the operation or ``on`` asked for, at most ``max_retry_after``."""
        most = self.max_retry_after
        return seconds if most is None else min(seconds, most)


_OFF = Options("", None, {})
_OFF.is_off = True


def _types_of(on: type | tuple[type, ...] | Mapping[type, object]) -> Iterable[type]:
    return (on,) if isinstance(on, type) else on


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


def _as_fallback(name: str, value: object) -> object:  # noqa: ARG001 - all checks take a name
    return value


def _as_callable(name: str, value: object) -> object:
    if not callable(value):
        raise TypeError(f"{name} must be callable or None, not {safe_repr(value)}")
    return value


def _as_limit(name: str, value: float | timedelta) -> float:
    return as_seconds(name, value, "a finite number of seconds >= 0, a timedelta or None")


def _as_max_attempts(name: str, value: object) -> int:
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


def _as_timer(name: str, value: object) -> object:
    require_timer(name, value)
    return value


_CALLED_BETWEEN_ATTEMPTS = {"until", "retry_if", "notify", *HOOKS}

_NONE_IS_NOT_ABSENT = {"on", "fallback"}

# For all other options None means that the option is absent.
_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "on": _as_on,
    "until": _as_callable,
    "retry_if": _as_callable,
    "token": _as_token,
    "timeout": _as_limit,
    "attempt_timeout": _as_limit,
    "max_elapsed_time": _as_limit,
    "max_attempts": _as_max_attempts,
    "max_retry_after": _as_limit,
    **dict.fromkeys(("notify", *HOOKS), as_hooks),
    "fallback": _as_fallback,
    "budget": _as_budget,
    "breaker": _as_breaker,
    "clock": _as_clock,
    "timer": _as_timer,
}

LOOP_OPTIONS = frozenset(_CHECKS) - {"fallback"}
"""The options of a loop, which has no result that a fallback could stand for."""

HEDGE_OPTIONS = frozenset(
    (
        *("on", "until", "retry_if", "token", "timeout", "max_elapsed_time", "max_attempts"),
        *("max_retry_after", "fallback", "budget", "breaker", "clock"),
    )
)
"""The options of a hedged call: those that hedging knows what to do with."""
