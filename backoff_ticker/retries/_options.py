"""The options of a retry, checked once for all its runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FunctionType

from .._error_chain import find_permanent
from .._errors import BackoffTickerError, Cancelled, CircuitOpen, DeadlineExceeded, RetryAfter
from .._validation import as_seconds, safe_repr, unknown_option
from ..cancellation import any_of
from ..clock import resolve_clock
from ..policies import (
    ExponentialBackOff,
    copy_policy,
    is_immutable,
    is_policy,
    makes_policies,
    require_policy,
    token_of,
)
from ..waiting import CHECKPOINT_EVERY
from ._option_table import ELSEWHERE, OPTIONS
from ._outcome import StopReason
from ._settings import active_no_wait, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any, Final

    from ..cancellation import CancellationToken
    from ..policies import BackOff


_WRONG_PROGRAM = (
    AssertionError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
)
"""The errors that a retry without ``on`` does not retry: they indicate a bug."""

_PACKAGE = __name__.partition(".")[0] + "."

ASK_ON: Final[Any] = object()
"""What ``classify()`` returns where the function that was given as ``on`` decides."""


if TYPE_CHECKING:
    # What follows a failure if no limit is reached: the end, for a reason; a wait of some seconds,
    # or one that a policy says; None: what the policy of the retry says.
    Demand = StopReason | float | BackOff | None


def require_operation(operation: object) -> None:
    """Raise a TypeError unless ``operation`` can be called, and does not make policies."""
    if type(operation) is FunctionType:  # what retry_call() is called with most often
        return
    if not callable(operation):
        raise TypeError(f"operation must be callable, not {safe_repr(operation)}")
    raise_if_makes_policy("operation", operation)


def raise_if_makes_policy(what: str, function: object) -> None:
    """Raise a TypeError for a class of policies or a ``NamedPolicy``, which was not called yet."""
    if makes_policies(function):
        raise TypeError(
            f"{what} needs the function to retry, not {safe_repr(function)}, which makes a policy: "
            "call it, and pass the policy as backoff"
        )


class Options:
    """The checked options of one retry, shared by all its runs.

    Most attributes are the options as ``retry`` describes them, durations in seconds; ``OPTIONS``
    has their defaults. ``token`` combines the given token with that of the policy.

    Attributes:
        is_immutable: Whether the policy has no state, so that runs share it without a copy.
        is_off: Whether retries are switched off: there is one attempt, and its error passes.
        needs_steps: Whether functions of the user are called between attempts.
        can_cut: Whether a token or a time limit may cut an attempt of a coroutine.
        limits_time: Whether a time limit counts from the start of the first attempt.
        starts_early: Whether a run in a thread begins before the first attempt, not after its
            failure: to call functions, to ask a breaker, or to compare the clock of a deadline.
        most_at_once: How many attempts ``may_try_again()`` allows; None: not known yet.
        half_of_time: For how many seconds it allows them, if there are time limits.
        retried: Error classes that are known to be retried; ``classify()`` adds them.

    Args:
        what: The public function that was called, for error messages.
        backoff: The policy; None: ``ExponentialBackOff()``.
        options: The options by name.
        allowed: The names of the options that ``what`` has.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    backoff: BackOff = ExponentialBackOff()
    is_immutable: bool = False
    is_off: bool = False
    judges_results: bool = False
    needs_steps: bool = False
    can_cut: bool = False
    limits_time: bool = False
    starts_early: bool = False
    most_at_once: int | None = None
    half_of_time: float = 0.0
    retried: Collection[type] = frozenset()
    _on_types: Any = Exception  # None: `on` is a function or a mapping
    _not_retried: tuple[type[Exception], ...] = _WRONG_PROGRAM  # although their class is in `on`
    _rules: Mapping[type, Any] | None = None
    _covers_cancelled: bool = False
    _with_defaults: tuple[Mapping[str, Any], Options] | None = None
    token: CancellationToken | None

    def __init__(  # noqa: C901 - retry_call() makes one at each call: a step costs less than a call
        self,
        what: str,
        backoff: BackOff | None,
        options: Mapping[str, Any],
        allowed: Collection[str] = OPTIONS,
    ) -> None:
        self._what = what
        for name in options:
            if name not in allowed:
                known = ["backoff", *(each for each in OPTIONS if each in allowed)]
                error = unknown_option(what, name, known, ELSEWHERE.get(name, ()))
                raise self._with_hint(error)
            (check, default, turns_on, _, _), value = OPTIONS[name], options[name]
            if value is not None or default is not None:
                value = check(name, value)
            setattr(self, name, value)
            if turns_on and value is not None:
                for flag in turns_on:
                    setattr(self, flag, True)
        if "until" in options and self.until is not None and self.retry_if is not None:
            raise TypeError(f"{what} takes until or retry_if, not both")
        if backoff is not None:
            self.backoff = backoff
            if is_immutable(backoff):
                self.is_immutable = True
            else:
                try:
                    require_policy("backoff", backoff)
                except TypeError as error:
                    raise self._with_hint(error) from None
                self._check_copy_and_token("backoff", backoff)
        if "on" in options and self.on is not None:
            self._use_on(self.on)
        if "token" in options:
            self._obey(self.token)

    def _use_on(self, on: Any) -> None:
        self._not_retried = ()
        self._on_types = on if isinstance(on, (type, tuple)) else None
        if isinstance(on, Mapping):
            self._rules = dict(on)
            for kind, rule in on.items():
                if not isinstance(rule, bool):
                    self._check_copy_and_token(f"on[{kind.__name__}]", rule)
        elif self._on_types is None:
            self._covers_cancelled = True  # a function decides about every error itself
            return
        kinds = (on,) if isinstance(on, type) else on
        self._covers_cancelled = any(issubclass(kind, Cancelled) for kind in kinds)

    def _check_copy_and_token(self, name: str, policy: BackOff) -> None:
        if not type(policy).__module__.startswith(_PACKAGE):
            copy_policy(name, policy)  # raises now, not at the first failure, if it must
        self._obey(token_of(policy))

    def _obey(self, token: CancellationToken | None) -> None:
        """Let ``token``, if given, cancel the runs as well."""
        if token is None:
            return
        if token is not self.token:
            self.token = token if self.token is None else any_of(token, self.token)
        self.can_cut = True
        self.starts_early = self.starts_early or self.token.deadline is not None

    def _with_hint(self, error: TypeError) -> TypeError:
        """Return an error about what may be meant as an argument of the operation."""
        hint = "; functools.partial(...) gives arguments to the operation"
        return TypeError(f"{error}{hint if 'call' in self._what else ''}")

    def under_settings(self) -> Options:
        """Return these options, changed by the settings of the process."""
        if not settings.overrides:
            return self
        values = settings.values
        if not values["active"]:
            return _OFF
        last = self._with_defaults
        if last is not None and last[0] is values:
            return last[1]
        made = object.__new__(Options)
        made.__dict__.update(self.__dict__, _with_defaults=None)
        for name, hooks in values["hooks"].items():
            setattr(made, name, (*(getattr(self, name) or ()), *hooks))
            made.needs_steps = True
        made._obey(values["token"])
        self._with_defaults = values, made
        return made

    @property
    def awaits_budget(self) -> bool:
        """Whether coroutines await the budget."""
        return hasattr(self.budget, "try_acquire_async")

    def now(self) -> float:
        """Return the time on the clock of a run that begins now."""
        return resolve_clock(self.clock).monotonic()

    def raise_if_attempts_are_cut(self) -> None:
        """Raise a TypeError for ``attempt_timeout``: only a coroutine can be cut."""
        if self.attempt_timeout is not None:
            raise TypeError(
                f"{self._what} got attempt_timeout={self.attempt_timeout!r}, but only coroutines "
                "can be cut (in a loop: `async for`)"
            )

    def raise_if_results_are_judged(self) -> None:
        """Raise a TypeError for options about a result: a generator has none."""
        for name in ("until", "retry_if", "fallback"):
            if getattr(self, name) is not OPTIONS[name].default:
                raise TypeError(f"{self._what} cannot use {name} with a generator")

    def classify(  # noqa: PLR0911 - one for each rule
        self, error: Exception, *, was_cut: bool = False
    ) -> Demand:
        """Return whether, and when, the error of an attempt is retried if no limit forbids it.

        A function that was given as ``on`` is not asked here. Types in ``on`` do not cover a
        ``Cancelled``, since that work was stopped on purpose, unless they name it or a deadline
        stopped the work. If ``attempt_timeout`` cut the attempt, only a function, or a rule for its
        type, keeps it from being retried.
        """
        types = self._on_types
        # Markers are errors of the package: most errors cost only this check.
        if error.__cause__ is not None or isinstance(error, BackoffTickerError):
            if find_permanent(error) is not None:
                return StopReason.PERMANENT
            if isinstance(error, RetryAfter):
                return self._clamped(error.seconds)
            if isinstance(error, CircuitOpen) and error.breaker is self.breaker is not None:
                return None
            was_stopped = isinstance(error, Cancelled) and not isinstance(error, DeadlineExceeded)
            if was_stopped and not self._covers_cancelled:
                return StopReason.NOT_RETRIED
        if types is not None:
            if isinstance(error, types) and not issubclass(type(error), self._not_retried):
                kind = type(error)
                if type(kind) is type and not issubclass(kind, BackoffTickerError):
                    self.retried = {*self.retried, kind}  # nothing but the class decides
                return None
            return None if was_cut else StopReason.NOT_RETRIED
        if self._rules is None:
            return ASK_ON  # type: ignore[no-any-return]
        named = (self._rules[kind] for kind in type(error).__mro__ if kind in self._rules)
        return self.parse_answer(next(named, was_cut))

    def parse_answer(self, answer: Any) -> Demand:
        """Return what an answer of ``on``, once it was awaited, means, as ``classify()`` does."""
        if isinstance(answer, bool):
            return None if answer else StopReason.NOT_RETRIED
        if is_policy(answer):
            return answer  # type: ignore[no-any-return]
        expected = "a bool, seconds >= 0, a timedelta or a BackOff"
        return self._clamped(as_seconds("what on returns", answer, expected))

    def may_try_again(self, error: Exception, attempts: int, began: float | None) -> bool:
        """Whether an attempt follows a failure at once, because nothing but its class decides.

        There is no wait, hook or budget then, and less than half of the time limits is over:
        ``began`` is known if there are some. The caller looks at the token.
        """
        if error.__class__ not in self.retried and self._on_types is not None:
            self.classify(error)  # for its effect: it adds the class to `retried`
        is_known = error.__class__ in self.retried and error.__cause__ is None
        if not is_known or active_no_wait or settings.in_use:
            return False
        if self.most_at_once is None:
            is_plain = self.budget is None and not (self.timer or self.starts_early or self.is_off)
            # An immutable policy has one delay, and no state that this call could use up.
            repeats = is_plain and self.is_immutable and self.backoff.next_backoff() == 0.0
            if self.limits_time:
                limits = self.timeout, self.max_elapsed_time
                self.half_of_time = min(each for each in limits if each is not None) / 2
            self.most_at_once = (self.max_attempts or sys.maxsize) if repeats else 0
        if self.limits_time and self.now() - began >= self.half_of_time:  # type: ignore[operator]
            return False
        return attempts < self.most_at_once and attempts % CHECKPOINT_EVERY != 0

    def _clamped(self, seconds: float) -> float:
        """Return a wait that the operation or ``on`` asked for, at most ``max_retry_after``."""
        most = self.max_retry_after
        return seconds if most is None else min(seconds, most)


for _name, _option in OPTIONS.items():
    setattr(Options, _name, _option.default)

_OFF = Options("", None, {})
_OFF.is_off = True
