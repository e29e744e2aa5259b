"""What of the standard library is replaced while a virtual clock is entered, and put back."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from .._process import after_fork
from ..clock import current_clocks
from ._futures import FUTURE_PATCHES
from ._kernel import kernels
from ._loops import LOOP_PATCHES
from ._pools import POOL_PATCHES
from ._threads import THREAD_PATCHES

if TYPE_CHECKING:
    from collections.abc import Callable

_PATCHES: list[tuple[Any, str, Callable[[Any], Any]]] = [
    *THREAD_PATCHES,
    *FUTURE_PATCHES,
    *POOL_PATCHES,
    *LOOP_PATCHES,
]
"""Each: of what, which attribute, and what makes the replacement of the original."""

_lock = threading.Lock()
_originals: list[Any] = []
_users = 0


def patch() -> None:
    """Replace everything, if nobody has done so before.

    What is put in place asks in whose thread it is called, and does what it replaced for all that
    belong to no clock.
    """
    global _users  # noqa: PLW0603 - one for the process, as what it counts
    with _lock:
        if not _users:
            for owner, name, make in _PATCHES:
                original = getattr(owner, name)
                replacement = make(original)
                _originals.append(original)
                setattr(owner, name, replacement)
        _users += 1


def unpatch() -> None:
    """Put everything back once nobody needs it."""
    global _users  # noqa: PLW0603
    with _lock:
        if _users:  # none in a forked child
            _users -= 1
        if not _users:
            _put_back()


def _put_back() -> None:
    while _originals:
        owner, name, _ = _PATCHES[len(_originals) - 1]
        setattr(owner, name, _originals.pop())


def _forget() -> None:
    """Belong to no clock in a forked child: the participants of its parent's are not there."""
    global _lock, _users  # noqa: PLW0603
    _lock = threading.Lock()
    _users = 0
    _put_back()
    current_clocks.clear()
    for kernel in kernels:
        kernel.forget_participants()


after_fork(_forget)
