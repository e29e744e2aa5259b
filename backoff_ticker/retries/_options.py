"""The options of a retry, checked once for all its runs; ``configure``: what holds for them all."""

from __future__ import annotations

from operator import attrgetter
from types import FunctionType

from .._operation import kind_of
from .._validation import as_flag, safe_repr, unknown_option
from ..cancellation import CancellationToken, any_of
from ..circuits import rules_by_class
from ..policies import (
    ExponentialBackOff,
    copy_policy,
    is_immutable,
    is_policy,
    makes_policies,
    require_policy,
    token_of,
)
from ..waiting import FREED, acquire, claim_of
from ._option_table import CUTTING, ELSEWHERE, HOOKS, OPTIONS, NotGiven

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, Final

    from ..policies import BackOff
    from ._option_types import Around, Hooks, Notify

_PACKAGE = __name__.partition(".")[0] + "."
_DEFAULT_BACKOFF = ExponentialBackOff()
_what_cuts = attrgetter(*CUTTING)


def require_operation(operation: object) -> None:
    """Raise a TypeError unless ``operation`` can be called, and does not make policies."""
    if type(operation) is FunctionType:  # most often, and saves time
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

    Most attributes are the options as ``retry`` describes them, durations in seconds. ``token``
    combines the given token with those of all policies. Errors name the public function, ``what``.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    backoff: BackOff = _DEFAULT_BACKOFF
    policies: tuple[BackOff, ...] = (_DEFAULT_BACKOFF,)  # with those that ``on`` names
    # How to ask the only policy, by its id, if it has no state, so that no run needs a copy.
    fixed_polls: Mapping[int, Callable[[], Any]] | None = None
    # What ``on`` says, by class of error: a bool, seconds or a policy. None: a function decides.
    rules: Mapping[type, Any] | None = rules_by_class(None)
    token: CancellationToken | None
    note: bool | None
    is_off: bool = False  # there is one attempt, and its error passes
    _under_settings: tuple[Mapping[str, Any], Any] = ({}, None)  # settings, and the options changed

    def __init__(
        self,
        what: str,
        backoff: BackOff | None,
        options: Mapping[str, Any],
        allowed: Collection[str] = OPTIONS,
    ) -> None:
        self.what = what
        for name, value in options.items():
            if name not in allowed:
                known = ["backoff", *(option for option in OPTIONS if option in allowed)]
                raise unknown_option(what, name, known, ELSEWHERE.get(name, ()))
            setattr(self, name, None if value is None else OPTIONS[name].check(name, value))
        if backoff is not None:
            self.backoff = backoff
            self.policies = (backoff,)
            if is_immutable(backoff):
                self.fixed_polls = {id(backoff): backoff.next_backoff}
            self._check_policy("backoff", backoff)
        if self.on is not None:
            self._use_rules(self.on)
        self._note_needs()

    def _use_rules(self, on: Any) -> None:
        self.rules = rules_by_class(on)
        for kind, rule in (self.rules or {}).items():
            if is_policy(rule):
                self._check_policy(f"on[{kind.__name__}]", rule)
                if not any(rule is known for known in self.policies):
                    self.policies = (*self.policies, rule)
                    self.fixed_polls = None

    def _check_policy(self, name: str, policy: BackOff) -> None:
        """Check a policy, and have its token cancel the runs as well."""
        if is_immutable(policy):
            return
        require_policy(name, policy)
        if not type(policy).__module__.startswith(_PACKAGE):
            copy_policy(name, policy)  # raises now, not at the first failure, if it must
        self._obey(token_of(policy))

    def _obey(self, token: CancellationToken | None) -> None:
        """Let ``token``, if given, cancel the runs as well."""
        if token is not None and token is not self.token:
            self.token = token if self.token is None else any_of(token, self.token)

    def _note_needs(self) -> None:
        """Note what comes around attempts, before and after them, and what limits them."""
        self.is_watched: bool = bool(self.around or self.breaker)
        self.has_entry: bool = self.is_watched or bool(self.on_attempt)
        self.has_exit: bool = self.is_watched or bool(self.on_success or self.budget or self.until)
        self.has_steps_between: bool = bool(self.notify or self.on_retry or self.timer)
        self.can_cut: bool = _what_cuts(self) != (None, None, None)
        is_counted = self.max_attempts is not None or self.max_elapsed_time is not None
        self.has_limits: bool = self.can_cut or is_counted

    def under_settings(self) -> Options:
        """Return these options, changed by what ``configure()`` has set for the process."""
        values = settings.values
        if not values:
            return self
        if not values.get("active", True):
            return _OFF
        known, changed = self._under_settings
        if known is values:
            return changed
        changed = object.__new__(Options)
        changed.__dict__.update(self.__dict__, _under_settings=None)  # keeps no earlier ones alive
        for name in HOOKS:
            if name in values:
                setattr(changed, name, (*(getattr(self, name) or ()), *values[name]))
        changed._obey(values.get("token"))
        if self.note is None:
            changed.note = values.get("notes")
        changed._note_needs()
        self._under_settings = values, changed
        return changed

    @property
    def awaits_budget(self) -> bool:
        """Whether coroutines await the budget."""
        return hasattr(self.budget, "try_acquire_async")

    def awaited_functions(self) -> list[str]:
        """Return the options that are coroutine functions, which only a coroutine can await."""
        found = []
        for name in ("on", "until", "fallback", *HOOKS):
            given = getattr(self, name)
            functions = given if isinstance(given, tuple) else (given,)
            if any(callable(one) and kind_of(one) == "coroutine function" for one in functions):
                found.append(name)
        return found

    def raise_if_functions_are_awaited(self) -> None:
        """Raise a TypeError if an option is a coroutine function."""
        for name in self.awaited_functions():
            raise TypeError(
                f"{self.what} got a coroutine function as {name}, which only a coroutine "
                "function can await: give a plain one"
            )

    def raise_if_attempts_are_cut(self) -> None:
        """Raise a TypeError for ``attempt_timeout``: only a coroutine can be cut."""
        if self.attempt_timeout is not None:
            raise TypeError(
                f"{self.what} got attempt_timeout={self.attempt_timeout!r}, but only coroutines "
                "can be cut (in a loop: `async for`)"
            )

    def raise_if_results_are_judged(self) -> None:
        """Raise a TypeError for options about a result: a generator has none."""
        for name in ("until", "fallback"):
            if getattr(self, name) is not OPTIONS[name].default:
                raise TypeError(f"{self.what} cannot use {name} with a generator")


for _name, _option in OPTIONS.items():
    setattr(Options, _name, _option.default)

_OFF: Final = Options("", None, {})
_OFF.is_off, _OFF.rules = True, {}


# What holds for the process

_DEFAULTS: Final[Mapping[str, Any]] = {"active": True, "notes": True}
"""Of the settings that are bools. The others are options of retries, too, and None by default."""


class Settings:
    """What ``configure()`` has set: ``values`` other than defaults, which a change replaces."""

    __slots__ = ("_claim", "values")

    def __init__(self) -> None:
        self._claim = claim_of(self)
        self.values: Mapping[str, Any] = {}

    def change(self, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change some settings at once; return what they were."""
        while True:
            seen = self.values
            before = {name: seen.get(name, _DEFAULTS.get(name)) for name in changes}
            merged = {**seen, **changes}
            values = {name: own for name, own in merged.items() if own != _DEFAULTS.get(name)}
            claim = self._claim
            acquire(claim)
            try:
                if self.values is seen:  # else another thread was faster
                    self.values = values
                    return before
            finally:
                claim += FREED


settings: Final = Settings()
_UNCHANGED: Any = NotGiven("<unchanged>")


class _Block:
    """Settings that were changed at once. Used as a block, it puts back what they replaced."""

    __slots__ = ("_before",)

    def __init__(self, changes: Mapping[str, Any]) -> None:
        self._before = settings.change(changes)

    def __enter__(self) -> None:
        """Do nothing: the settings hold since the call."""

    def __exit__(self, *_: object) -> None:
        settings.change(self._before)


def configure(
    *,
    active: bool = _UNCHANGED,
    token: CancellationToken | None = _UNCHANGED,
    notes: bool = _UNCHANGED,
    notify: Notify | None = _UNCHANGED,
    around: Around | None = _UNCHANGED,
    on_attempt: Hooks | None = _UNCHANGED,
    on_retry: Hooks | None = _UNCHANGED,
    on_success: Hooks | None = _UNCHANGED,
    on_give_up: Hooks | None = _UNCHANGED,
) -> AbstractContextManager[None]:
    """Set what holds for every retry of this process that begins from now on.

    What is not given stays as it is. ``with configure(...):`` puts back what it has replaced at the
    end of the block; otherwise the settings last until the next call.

    Example:
        >>> from backoff_ticker import configure, retry
        >>> @retry(max_attempts=5)
        ... def fetch():
        ...     raise ConnectionError("no route")
        >>> with configure(active=False):
        ...     fetch()
        Traceback (most recent call last):
        ConnectionError: no route

    Args:
        active: False switches all retries off, mostly in tests: each operation is called once, as
            if it were not decorated. The default is True.
        token: A token that ends every retry and every hedged call, beside its own token, as when
            the process shuts down. If it has a deadline, all retries must use its clock.
        notes: False leaves off the note that a run adds to the error at its end, unless the
            retry's own option ``note`` is given. The default is True.
        notify: Called after that of each retry. Like the next five, it is as ``retry`` describes
            it, is removed by None, and not used by hedged calls. It must not call a function that
            is retried: that retry would call it again, without end.
        around: Entered inside that of each retry.
        on_attempt: Called after those of each retry.
        on_retry: The same.
        on_success: The same.
        on_give_up: The same.

    Raises:
        TypeError: An argument is invalid; then nothing is changed.
    """
    given = dict(locals())
    changes = {name: value for name, value in given.items() if value is not _UNCHANGED}
    for name, value in changes.items():
        if name in _DEFAULTS:
            changes[name] = as_flag(name, value)
        elif value is not None:
            changes[name] = OPTIONS[name].check(name, value)
    return _Block(changes)


def is_active() -> bool:
    """Return False if ``configure(active=False)`` has switched retries off, else True.

    Example:
        >>> from backoff_ticker import is_active
        >>> is_active()
        True
    """
    return bool(settings.values.get("active", True))
