"""``configure``: what holds for all retries of the process."""

from __future__ import annotations

from .._validation import as_flag
from ..waiting import FREED, acquire, claim_of
from ._option_table import OPTIONS, NotGiven

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from typing import Any, Final

    from ..cancellation import CancellationToken
    from ._option_types import Around, Hooks, Notify

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
