"""The options of a retry, checked where they enter, and what they say of errors and results."""

from __future__ import annotations

from types import CoroutineType

from .._errors import Cancelled, DeadlineExceeded
from .._validation import as_count, as_seconds, safe_repr
from ..cancellation import any_of, require_token
from ..channels import require_timer
from ..clock import resolve_clock
from ..policies import (
    BackOffWrapper,
    ExponentialBackOff,
    copy_policy,
    is_feedback,
    is_immutable,
    token_of,
)
from ._budget import RetryBudget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import timedelta
    from typing import Any, ClassVar, Self

    from ..cancellation import CancellationToken
    from ..channels import TimerLike
    from ..clock import Clock
    from ..policies import BackOff
    from ._outcome import Outcome

_SIX_HOURS = 21_600.0
_PACKAGE = f"{__name__.partition('.')[0]}."


class Rules:
    """What one retry goes by: shared by all its runs, and never changed.

    Most attributes are the options as ``retry`` describes them, durations in seconds.

    Attributes:
        backoff: The policy of which each run makes a copy.
        simple: Whether that can be asked by itself: it is of this package, wants no feedback, and
            holds no token.
        immutable: Whether it has no state either, and so is its own copy.
        token: What cancels each run: the token that was given, those found inside the policy.
        policy_decides: Whether nothing but it, ``on`` by its type, and ``max_attempts`` has a say.
        at_once: Whether no retry waits, and besides these three only a token has a say.
        scripted: Whether users' functions are called on the way, so that a script has to say what
            comes when.
        early: Whether a run has to begin before its first attempt: it is scripted, or clocks are
            to be compared.
        early_async: The same for coroutines, whose first attempt may be cut, too.
        judges_results: Whether ``until`` or ``retry_if`` is given.

    Args:
        what: Whose options they are, for errors.
        backoff: The policy; None: ``ExponentialBackOff()``.
        options: The options by name.

    Raises:
        TypeError, ValueError: One is unknown, or not what it should be.
    """

    backoff: BackOff = ExponentialBackOff()
    simple: bool = True
    immutable: bool = False
    policy_decides: bool = False
    at_once: bool = False
    scripted: bool = False
    early: bool = False
    early_async: bool = False
    judges_results: bool = False
    on: Any = Exception
    until: Callable[[Any], object] | None = None
    retry_if: Callable[[Any], object] | None = None
    token: CancellationToken | None = None
    timeout: float | None = None
    attempt_timeout: float | None = None
    max_attempts: int | None = None
    max_retry_after: float | None = _SIX_HOURS
    notify: Callable[[Exception, float], object] | None = None
    on_attempt: Callable[[Outcome], object] | None = None
    on_retry: Callable[[Outcome], object] | None = None
    on_success: Callable[[Outcome], object] | None = None
    on_give_up: Callable[[Outcome], object] | None = None
    budget: RetryBudget | None = None
    clock: Clock | None = None
    timer: TimerLike | None = None

    _without: ClassVar[Collection[str]] = ()
    """Options that a subclass does not have."""

    def __init__(self, what: str, backoff: BackOff | None, options: Mapping[str, Any]) -> None:
        self._what = what
        tokens = () if backoff is None else self._take_policy(backoff)
        if options:
            self._take_options(options)
        if tokens or self.token is not None:
            self._take_tokens(tokens)

    def settle(self) -> Self:
        """Find out which short ways lead there; before the first failure that would cost too much.

        Without it each failure goes the long way, to the same end.
        """
        decides = self.simple and self._leaves_it_to_policy()
        self.policy_decides = decides and self.token is None
        never_waits = self.timer is None and self.immutable and self.backoff.next_backoff() == 0.0
        self.at_once = decides and never_waits
        return self

    def _take_options(self, options: Mapping[str, Any]) -> None:
        """Check each option and keep it."""
        for name, value in options.items():
            check = _CHECKS.get(name)
            if check is None or name in self._without:
                known = ", ".join(option for option in _CHECKS if option not in self._without)
                raise TypeError(f"{self._what} has no option {name!r}; it has {known}")
            if value is None and name != "on":
                setattr(self, name, None)
                continue
            setattr(self, name, check(name, value))
            if name in _CONSEQUENCES:
                for consequence in _CONSEQUENCES[name]:
                    setattr(self, consequence, True)
        if self.until is not None and self.retry_if is not None:
            raise TypeError(f"{self._what} takes until or retry_if, not both")

    def _leaves_it_to_policy(self) -> bool:
        """Whether there is no limit of time, no budget, and only the type of an error counts."""
        if self.timeout is not None or self.budget is not None:
            return False
        on = self.on
        # A metaclass might run code of its own in isinstance().
        return isinstance(on, (type, tuple)) and all(type(kind) is type for kind in _kinds(on))

    def _take_policy(self, backoff: BackOff) -> Sequence[CancellationToken]:
        """Keep the policy; return the tokens inside that can be found without asking it."""
        self.backoff = backoff
        if is_immutable(backoff):
            self.immutable = True
            return ()
        copy_policy("backoff", backoff)  # only to raise, before the first call, that it fails
        token = token_of(backoff)
        self.simple = token is None and not is_feedback(backoff) and _is_builtin(backoff)
        return () if token is None else (token,)

    def _take_tokens(self, inside: Sequence[CancellationToken]) -> None:
        tokens = dict.fromkeys([*inside, self.token] if self.token is not None else inside)
        self.token = token = any_of(*tokens) if len(tokens) > 1 else next(iter(tokens))
        self.early_async = True
        self.early = self.early or token.deadline is not None

    def begin(self) -> float | None:
        """Return the time, where it matters how long a first attempt takes."""
        return None if self.timeout is None else resolve_clock(self.clock).monotonic()

    def refuse_attempt_timeout(self) -> None:
        """Raise a TypeError if attempts are to be cut, which only a coroutine can be."""
        if self.attempt_timeout is not None:
            raise TypeError(
                f"{self._what} got attempt_timeout={self.attempt_timeout!r}, but only coroutines "
                "can be cut (in a loop: `async for`)"
            )

    def refuse_results(self) -> None:
        """Raise a TypeError if results are judged, which a generator has none of."""
        if self.judges_results:
            raise TypeError(f"{self._what} got until or retry_if, but decorates a generator")

    def wants(self, error: Exception) -> bool | float:
        """Return what ``on`` says of an error: whether to retry it, or after how many seconds.

        A ``Cancelled`` tells that work was called off, unless a deadline did it: it is retried
        only where ``on`` names it.

        Raises:
            TypeError, ValueError: It returned neither a bool nor a duration.
            Exception: What it raised.
        """
        on = self.on
        if isinstance(on, (type, tuple)):
            return isinstance(error, on) and (
                not isinstance(error, Cancelled)
                or isinstance(error, DeadlineExceeded)
                or any(issubclass(kind, Cancelled) for kind in _kinds(on))
            )
        answer = on(error)
        _refuse_coroutine("on", answer)
        if isinstance(answer, bool):
            return answer
        return as_seconds("what on returns", answer, "a bool, seconds >= 0 or a timedelta")

    def accepts(self, result: object) -> bool:
        """Whether a result is no reason to try again.

        Raises:
            TypeError: ``until`` or ``retry_if`` is a coroutine function.
            Exception: What it raised.
        """
        if self.until is not None:
            return _truth("until", self.until(result))
        return self.retry_if is None or not _truth("retry_if", self.retry_if(result))

    def clamped(self, seconds: float) -> float:
        """Return a wait that the operation asked for, as far as it is granted."""
        most = self.max_retry_after
        return seconds if most is None else min(seconds, most)


def _is_builtin(policy: BackOff) -> bool:
    """Whether a policy raises nothing, because no class of a user's own is in it."""
    while isinstance(policy, BackOffWrapper):
        if not type(policy).__module__.startswith(_PACKAGE):
            return False
        policy = policy.backoff
    return type(policy).__module__.startswith(_PACKAGE) and not hasattr(policy, "backoffs")


HOOKS = ("on_attempt", "on_retry", "on_success", "on_give_up")

_SCRIPTED = ("scripted", "early", "early_async")

_CONSEQUENCES: dict[str, tuple[str, ...]] = {
    "until": (*_SCRIPTED, "judges_results"),
    "retry_if": (*_SCRIPTED, "judges_results"),
    "notify": _SCRIPTED,
    **dict.fromkeys(HOOKS, _SCRIPTED),
    "timeout": ("early_async",),
    "attempt_timeout": ("early_async",),
}
"""What else is true of rules if they have an option."""


def _kinds(on: type | tuple[type, ...]) -> tuple[type, ...]:
    return on if isinstance(on, tuple) else (on,)


def _truth(name: str, answer: object) -> bool:
    _refuse_coroutine(name, answer)
    return bool(answer)


def _refuse_coroutine(name: str, answer: object) -> None:
    if isinstance(answer, CoroutineType):
        answer.close()
        raise TypeError(f"{name} must be a plain function, not a coroutine function")


def _as_on(name: str, value: object) -> object:
    for kind in value if isinstance(value, tuple) else (value,):
        if isinstance(kind, type) and (issubclass(kind, Exception) or kind is BaseException):
            continue
        if isinstance(kind, type) and issubclass(kind, BaseException):
            raise TypeError(f"{name} names {kind.__name__}, which is no Exception and not retried")
        if isinstance(kind, type) or kind is not value or not callable(value):
            raise TypeError(
                f"{name} must be an exception type, a tuple of them, or a function of an error, "
                f"not {safe_repr(value)}"
            )
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
    if not isinstance(value, RetryBudget):
        raise TypeError(f"{name} must be a RetryBudget or None, not {safe_repr(value)}")
    return value


def _as_clock(name: str, value: Clock) -> Clock:  # noqa: ARG001 - as the others
    return resolve_clock(value)


def _as_timer(name: str, value: object) -> object:
    require_timer(name, value)
    return value


# None says that an option is not there; only ``on`` has to be something.
_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "on": _as_on,
    "until": _as_callable,
    "retry_if": _as_callable,
    "token": _as_token,
    "timeout": _as_limit,
    "attempt_timeout": _as_limit,
    "max_attempts": _as_max_attempts,
    "max_retry_after": _as_limit,
    "notify": _as_callable,
    **dict.fromkeys(HOOKS, _as_callable),
    "budget": _as_budget,
    "clock": _as_clock,
    "timer": _as_timer,
}
