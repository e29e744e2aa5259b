"""Replaces attributes of modules and classes for as long as somebody needs the replacements."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    Original: TypeAlias = Callable[..., Any]  # what a patch replaces
    # The owner, the attribute's name, and a function from original to replacement.
    Patch: TypeAlias = tuple[Any, str, Callable[[Any], Any]]

_INHERITED = object()  # the original of an attribute that the owner does not define itself


def around(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes a replacement: it calls ``function(original, ...)``."""

    def replace(original: Original) -> Original:
        @wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        return replacement

    return replace


class Patches:
    """Patches that are in place while at least one user needs them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._applied: list[tuple[Any, str, Any, Any]] = []
        self._users = 0

    @contextmanager
    def installed(self, patches: Iterable[Patch]) -> Iterator[None]:
        """Apply patches inside the block, unless another user has done so."""
        with self._lock:
            if not self._users:
                for patch in [*patches]:  # what fails to find one has applied none
                    self.apply(patch)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                if self._users:  # 0 in a forked child
                    self._users -= 1
                if not self._users:
                    self._restore()

    def apply(self, patch: Patch) -> None:
        """Apply one patch until the last user has gone."""
        owner, name, replace = patch
        original = vars(owner).get(name, _INHERITED)
        replacement = replace(getattr(owner, name))
        setattr(owner, name, replacement)
        self._applied.append((owner, name, replacement, original))

    def _restore(self) -> None:
        while self._applied:
            owner, name, replacement, original = self._applied.pop()
            if vars(owner).get(name) is not replacement:
                continue  # somebody else has replaced ours, which does nothing from now on
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def forget_users(self) -> None:
        """Undo all patches in a forked child."""
        self._lock = threading.Lock()
        self._users = 0
        self._restore()
