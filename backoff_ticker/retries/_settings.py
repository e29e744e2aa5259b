"""What holds for all retries of the process: whether they are active, default hooks and token.

A call of a decorated function reads one attribute, ``settings.in_use``, and looks no further unless
that is true.
"""

from __future__ import annotations

from .._validation import as_flag, as_hooks, safe_repr
from ..cancellation import require_token
from ..waiting import FREE, acquire, claim_of, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Final

    from ..cancellation import CancellationToken
    from ._outcome import Outcome

    Hook = Callable[[Outcome], object]
    Hooks = tuple[Hook, ...]
    Changes = tuple["Change", ...]

_AT_START: Final[Mapping[str, Any]] = {
    "active": True,
    "hooks": {},
    "token": None,
    "tracks_attempts": False,
}

active_no_wait: dict[object, int | None] = {}
"""The ``no_wait()`` blocks of tests that are open, each with its ``max_attempts``.

While there is one, retries that begin skip waits.
"""


class Settings:
    """The settings of the process.

    Attributes:
        in_use: Whether any of them differs from its value at the start of the process.
        overrides: Whether one that differs changes the options of runs.
        tracks_attempts: Whether runs show their attempts to ``current_attempt()``.
        values: All of them by name. Each change replaces the dict.
    """

    __slots__ = ("_changes", "_claim", "in_use", "overrides", "tracks_attempts", "values")

    def __init__(self) -> None:
        self._claim = claim_of(self)
        self._changes: Changes = ()  # those in effect; of two with one name, the later one counts
        self.in_use: bool = False
        self.overrides: bool = False
        self.tracks_attempts: bool = False
        self.values: Mapping[str, Any] = _AT_START

    def update(self, changed: Callable[[Changes], Changes]) -> None:
        """Replace the changes by what ``changed`` returns; call it again if others were faster."""
        is_done = False
        while not is_done:
            seen = self._changes
            changes = changed(seen)
            values = {**_AT_START, **{each.name: each.value for each in changes}}
            tracks: bool = values["tracks_attempts"]
            has_defaults = bool(values["hooks"]) or values["token"] is not None
            overrides = not values["active"] or has_defaults
            claim = self._claim
            acquire(claim)
            try:
                is_done = self._changes is seen
                if is_done:
                    self._changes = changes
                    self.values = values
                    self.in_use = overrides or tracks
                    self.overrides = overrides
                    self.tracks_attempts = tracks
            finally:
                claim[FREE] = True


settings: Settings = Settings()


class Change:
    """A change of a setting."""

    __slots__ = ("is_plain", "name", "value")

    def __init__(self, name: str, value: object) -> None:
        self.is_plain: bool = False  # it is not, and never will be, the change of a block
        self.name: str = name
        self.value: object = value

    def added(self, seen: Changes) -> Changes:
        return (*(each for each in seen if each is not self), self)

    def removed(self, seen: Changes) -> Changes:
        """Return the changes without this one, and without plain ones that were made inside it."""
        if self not in seen:
            return seen
        place = seen.index(self)
        kept, is_inside = [*seen[:place]], True
        for each in seen[place + 1 :]:
            is_inside = is_inside and (each.is_plain or each.name != self.name)
            if not is_inside or each.name != self.name:
                kept.append(each)
        return tuple(kept)

    def settled(self, seen: Changes) -> Changes:
        """Return the changes without plain ones that another plain one has replaced for good."""
        kept: list[Change] = []
        for each in seen:
            last = next((old for old in reversed(kept) if old.name == each.name), None)
            if last is not None and last.is_plain and each.is_plain:
                kept.remove(last)
            kept.append(each)
        return tuple(kept)


class _Block:
    """A change that was made at once. Used as a block, it is undone at the end of the block.

    Blocks may overlap, for example in coroutines. A change that is not used as a block lasts until
    the next one, or until a block around it ends. Another change may come before the block is
    entered; one that is dropped instead is none.
    """

    __slots__ = ("_call", "_change")

    def __init__(self, name: str, value: object, call: str) -> None:
        self._call = call
        self._change = change = Change(name, value)
        settings.update(change.added)

    def __repr__(self) -> str:
        return self._call

    def __enter__(self) -> None:
        change = self._change
        change.is_plain = False
        try:
            settings.update(change.added)  # again: another change may have been made in between
        except BaseException:  # an interrupt
            settings.update(change.removed)
            raise

    def __exit__(self, *_: object) -> None:
        complete(settings.update, self._change.removed)

    def __del__(self) -> None:
        change = getattr(self, "_change", None)
        if change is not None:  # else an interrupt came before
            change.is_plain = True
            settings.update(change.settled)


def set_active(active: bool) -> AbstractContextManager[None]:  # noqa: FBT001 - it says which
    """Switch all retries of this process off, or on again; mostly for tests.

    While they are off, each operation is called once, as if it were not decorated. Results and
    errors pass unchanged, ``Permanent`` and ``RetryAfter`` included. Hooks, limits, tokens and
    notes are not used. Options are still checked.

    It affects every run that begins from now on. ``with set_active(False):`` restores the previous
    setting at the end of the block.

    Example:
        >>> from backoff_ticker import retry, set_active
        >>> @retry(max_attempts=5)
        ... def fetch():
        ...     print("called")
        ...     raise ConnectionError("no route")
        >>> with set_active(False):
        ...     fetch()
        Traceback (most recent call last):
        ConnectionError: no route

    Thread safety: any thread; it is one setting for the process.

    Raises:
        TypeError: ``active`` is not a bool.
    """
    return _Block("active", as_flag("active", active), f"set_active({active!r})")


def is_active() -> bool:
    """Return False if ``set_active(False)`` has switched retries off, else True.

    Example:
        >>> from backoff_ticker import is_active
        >>> is_active()
        True

    Thread safety: any thread.
    """
    return bool(settings.values["active"])


def set_default_hooks(
    *,
    on_attempt: Hook | Sequence[Hook] | None = None,
    on_retry: Hook | Sequence[Hook] | None = None,
    on_success: Hook | Sequence[Hook] | None = None,
    on_give_up: Hook | Sequence[Hook] | None = None,
) -> AbstractContextManager[None]:
    """Set hooks that every retry of this process calls after its own hooks.

    ``retry`` describes them. They replace all that were set before, so ``set_default_hooks()``
    removes them. Hedged calls have no hooks. They serve functions and coroutines alike, so a
    coroutine function is a hook only where all retries are in coroutines. A default hook must not
    call a function that is retried: that retry would call the hook again, without end.

    As a block it restores the previous hooks, and like ``set_active`` it affects later runs only.

    Example:
        >>> from backoff_ticker import ZeroBackOff, retry_call, set_default_hooks
        >>> def count(outcome):
        ...     print(outcome.name, outcome.attempts)
        >>> with set_default_hooks(on_success=count):
        ...     retry_call(str, ZeroBackOff())
        str 1
        ''

    Thread safety: any thread; it is one setting for the process. Each hook is called in the thread
    or task of the retry.

    Args:
        on_attempt: A function that takes an ``Outcome``, or a list or tuple of them.
        on_retry: The same, before each wait.
        on_success: The same, when a result was accepted.
        on_give_up: The same, when a run ends without an accepted result.

    Raises:
        TypeError: A hook is neither a callable nor a list or tuple of callables.
    """
    options = {
        "on_attempt": on_attempt,
        "on_retry": on_retry,
        "on_success": on_success,
        "on_give_up": on_give_up,
    }
    given = {name: hook for name, hook in options.items() if hook is not None}
    hooks = {name: as_hooks(name, hook) for name, hook in given.items()}
    shown = ", ".join(f"{name}={safe_repr(hook)}" for name, hook in given.items())
    kept = {name: hook for name, hook in hooks.items() if hook is not None}
    return _Block("hooks", kept, f"set_default_hooks({shown})")


def set_default_token(token: CancellationToken | None) -> AbstractContextManager[None]:
    """Set a token that stops every retry and every hedged call of this process; None removes it.

    Set it once, for example to the token of ``cancel_on_signals()``, and all retries stop when the
    process shuts down. A retry that has its own token stops when either is cancelled. If the token
    has a deadline, all retries must use its clock.

    As a block it restores the previous token, and like ``set_active`` it affects later runs only.

    Example:
        >>> from backoff_ticker import Cancelled, CancellationToken, retry_call
        >>> from backoff_ticker import set_default_token
        >>> shutdown = CancellationToken()
        >>> def fetch():
        ...     shutdown.cancel("shutting down")
        ...     raise ConnectionError("no route")
        >>> with set_default_token(shutdown):
        ...     try:
        ...         retry_call(fetch)
        ...     except Cancelled as error:
        ...         print(error)
        cancelled: shutting down

    Thread safety: any thread; it is one setting for the process.

    Raises:
        TypeError: ``token`` is neither a token nor None.
    """
    if token is not None:
        require_token("token", token)
    return _Block("token", token, f"set_default_token({safe_repr(token)})")
