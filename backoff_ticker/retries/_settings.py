"""What holds for all retries of the process: whether they are active, default hooks and token.

The state is one object, ``settings``. A call of a decorated function reads one attribute of it,
``in_use``, and looks no further unless that is true.
"""

from __future__ import annotations

from .._validation import as_flag, as_hooks, safe_repr
from ..cancellation import require_token
from ..waiting import FREE, acquire, claim_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from ..cancellation import CancellationToken
    from ._outcome import Outcome

    Hook = Callable[[Outcome], object]
    Hooks = tuple[Hook, ...]

HOOKS = ("on_attempt", "on_retry", "on_success", "on_give_up")
"""The options that are hooks, in the order in which a run calls them."""


class Settings:
    """The settings of the process.

    Attributes:
        in_use: Whether any of them differs from what it is at the start of the process.
        overrides: Whether one that differs changes the options of runs.
        tracks_attempts: Whether runs show their attempts to ``current_attempt()``.
        values: All of them by name; also the ``number`` of changes, and, by their numbers, the
            ``blocks`` that are open: each with the setting that it has changed, and the value to
            restore. Each change replaces the dict, and none changes it.
    """

    __slots__ = ("_claim", "in_use", "overrides", "tracks_attempts", "values")

    def __init__(self) -> None:
        self._claim = claim_of(self)
        self.in_use: bool = False
        self.overrides: bool = False
        self.tracks_attempts: bool = False
        self.values: Mapping[str, Any] = {
            "active": True,
            "hooks": {},
            "token": None,
            "tracks_attempts": False,
            "number": 0,
            "blocks": {},
        }

    def replace(self, seen: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Replace the values that were seen; False: another thread has replaced them before."""
        tracks_attempts = values["tracks_attempts"]
        has_defaults = bool(values["hooks"]) or values["token"] is not None
        overrides = not values["active"] or has_defaults
        claim = self._claim
        acquire(claim)
        try:
            is_seen = self.values is seen
            if is_seen:
                self.values = values
                self.in_use = overrides or tracks_attempts
                self.overrides = overrides
                self.tracks_attempts = tracks_attempts
        finally:
            claim[FREE] = True
        return is_seen

    def change(self, name: str, value: object) -> None:
        """Change the setting ``name``."""
        is_changed = False
        while not is_changed:
            seen = self.values
            number = seen["number"] + 1
            is_changed = self.replace(seen, {**seen, name: value, "number": number})

    def track_attempts(self) -> None:
        """Let runs show their attempts from now on."""
        self.change("tracks_attempts", True)  # noqa: FBT003 - a setting and its value


settings: Settings = Settings()


class _Change:
    """A change of a setting that was made; used as a block, it restores the previous value.

    Blocks may overlap, for example in coroutines. If a block ends inside a later one, the later one
    restores the value from before both. A change counts as a block from the start, as another one
    may be made or end before it is entered; if it is dropped instead, it is none.
    """

    __slots__ = ("_call", "_is_entered", "_number")

    def __init__(self, call: str, name: str, value: object) -> None:
        self._call = call
        self._is_entered = False
        self._number = 0
        while not self._number:
            seen = settings.values
            number = seen["number"] + 1
            blocks = {**seen["blocks"], number: (name, seen[name])}
            after = {**seen, name: value, "number": number, "blocks": blocks}
            if settings.replace(seen, after):
                self._number = number

    def __repr__(self) -> str:
        return self._call

    def __enter__(self) -> None:
        self._is_entered = True

    def __exit__(self, *_: object) -> None:
        self._end(restores=True)

    def __del__(self) -> None:
        if not self._is_entered:
            self._end(restores=False)

    def _end(self, *, restores: bool) -> None:
        """Count no more as a block."""
        has_ended = False
        while not has_ended:
            seen = settings.values
            if self._number not in seen["blocks"]:
                return
            blocks = dict(seen["blocks"])
            name, before = blocks.pop(self._number)
            after = {**seen, "blocks": blocks, "number": seen["number"] + 1}
            later = [each for each in blocks if each > self._number and blocks[each][0] == name]
            if restores and later:
                blocks[min(later)] = name, before
            elif restores:
                after[name] = before
            has_ended = settings.replace(seen, after)


def set_active(active: bool) -> AbstractContextManager[None]:  # noqa: FBT001 - it says which
    """Switch all retries of this process off, or on again; mostly for tests.

    While they are off, a decorated function is called as if it were not decorated,
    ``retry_call()``, ``retry_call_async()`` and hedged calls call the operation once, and
    ``attempts()`` makes one attempt. Results and errors pass unchanged, ``Permanent`` and
    ``RetryAfter`` included. Hooks, limits, tokens and notes are not used. Options are still
    checked.

    It affects all threads, and every call made from now on. ``with set_active(False):`` restores
    the previous setting at the end of the block.

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

    Args:
        active: Whether failures are retried.

    Raises:
        TypeError: ``active`` is not a bool.
    """
    return _Change(f"set_active({active!r})", "active", as_flag("active", active))


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

    They replace the default hooks that were set before; a hook that is not named is removed, so
    ``set_default_hooks()`` removes all. Hedged calls have no hooks. A default hook must not call a
    function that is retried: that retry would call the hook again, without end.

    It affects all threads, and every run that begins from now on. ``with set_default_hooks(...):``
    restores the previous hooks at the end of the block.

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
        on_attempt: A function that takes an ``Outcome``, or a list or tuple of them, called as
            ``retry`` describes. It serves functions and coroutines alike, so it must not be a
            coroutine function unless all retries are in coroutines.
        on_retry: The same, before each wait.
        on_success: The same, when a result was accepted.
        on_give_up: The same, when a run ends without an accepted result.

    Raises:
        TypeError: A hook is neither a callable nor a list or tuple of callables.
    """
    values = (on_attempt, on_retry, on_success, on_give_up)
    given = {name: hook for name, hook in zip(HOOKS, values, strict=True) if hook is not None}
    hooks = {name: as_hooks(name, hook) for name, hook in given.items()}
    shown = ", ".join(f"{name}={safe_repr(hook)}" for name, hook in given.items())
    kept = {name: hook for name, hook in hooks.items() if hook is not None}
    return _Change(f"set_default_hooks({shown})", "hooks", kept)


def set_default_token(token: CancellationToken | None) -> AbstractContextManager[None]:
    """Set a token that stops every retry and every hedged call of this process.

    Set it once, for example to the token of ``cancel_on_signals()``, and all retries stop when the
    process shuts down. A retry that has its own token stops when either is cancelled.

    It affects all threads, and every run that begins from now on. ``with set_default_token(...):``
    restores the previous token at the end of the block.

    Example:
        >>> from backoff_ticker import Cancelled, CancellationToken, retry_call, set_default_token
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

    Args:
        token: The token. None removes it. If it has a deadline, all retries must use its clock.

    Raises:
        TypeError: ``token`` is neither a token nor None.
    """
    if token is not None:
        require_token("token", token)
    return _Change(f"set_default_token({safe_repr(token)})", "token", token)
