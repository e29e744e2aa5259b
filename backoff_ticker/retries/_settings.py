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
        values: All of them by name, and the ``blocks`` that are open, in their order: each with the
            setting that it has changed, and the value to restore. Each change replaces the dict.
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
            "blocks": {},
        }

    def update(self, changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Replace the values by what ``changed`` makes of them, asked again if others changed."""
        is_done = False
        while not is_done:
            seen = self.values
            values = changed(seen)
            tracks: bool = values["tracks_attempts"]
            has_defaults = bool(values["hooks"]) or values["token"] is not None
            overrides = not values["active"] or has_defaults
            claim = self._claim
            acquire(claim)
            try:
                is_done = self.values is seen
                if is_done:
                    self.values = values
                    self.in_use = overrides or tracks
                    self.overrides = overrides
                    self.tracks_attempts = tracks
            finally:
                claim[FREE] = True

    def change(self, name: str, value: object) -> None:
        """Change the setting ``name``."""
        self.update(lambda seen: {**seen, name: value})

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

    __slots__ = ("_call", "_is_entered", "_key")

    def __init__(self, call: str, name: str, value: object) -> None:
        self._call = call
        self._is_entered = False
        self._key = key = object()

        def changed(seen: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**seen, name: value, "blocks": {**seen["blocks"], key: (name, seen[name])}}

        settings.update(changed)

    def __repr__(self) -> str:
        return self._call

    def __enter__(self) -> None:
        self._is_entered = True

    def __exit__(self, *_: object) -> None:
        settings.update(self._restored)

    def __del__(self) -> None:
        if not self._is_entered:
            settings.update(self._forgotten)

    def _forgotten(self, seen: Mapping[str, Any]) -> Mapping[str, Any]:
        blocks = dict(seen["blocks"])
        blocks.pop(self._key, None)
        return {**seen, "blocks": blocks}

    def _restored(self, seen: Mapping[str, Any]) -> Mapping[str, Any]:
        blocks = dict(seen["blocks"])
        if self._key not in blocks:
            return seen
        later = [*blocks][[*blocks].index(self._key) + 1 :]
        name, before = blocks.pop(self._key)
        after = {**seen, "blocks": blocks}
        inner = next((each for each in later if blocks[each][0] == name), None)
        if inner is None:
            after[name] = before
        else:
            blocks[inner] = name, before
        return after


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

    They replace all that were set before, so ``set_default_hooks()`` removes them. Hedged calls
    have no hooks. A default hook must not call a function that is retried: that retry would call
    the hook again, without end.

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
    shown = ", ".join(f"{name}={safe_repr(hook)}" for name, hook in given.items())
    hooks = {name: as_hooks(name, hook) for name, hook in given.items()}
    kept = {name: hook for name, hook in hooks.items() if hook is not None}
    return _Change(f"set_default_hooks({shown})", "hooks", kept)


def set_default_token(token: CancellationToken | None) -> AbstractContextManager[None]:
    """Set a token that stops every retry and every hedged call of this process.

    Set it once, for example to the token of ``cancel_on_signals()``, and all retries stop when the
    process shuts down. A retry that has its own token stops when either is cancelled.

    As a block it restores the previous token, and like ``set_active`` it affects later runs only.

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
