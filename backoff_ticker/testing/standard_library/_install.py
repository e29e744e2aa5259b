"""Patches the standard library while a virtual clock is entered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..._process import after_fork
from ...clock import current_clocks
from .._kernel import kernels
from .._other_clocks import SYSTEM_CLOCK_PATCHES
from ._conditions import CONDITION_PATCHES
from ._futures import FUTURE_PATCHES
from ._helpers import HELPER_PATCHES
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
    *CONDITION_PATCHES,
    *HELPER_PATCHES,
    *SYSTEM_CLOCK_PATCHES,
]
"""Each entry: the owner, the attribute's name, and a function from original to replacement."""

_lock = threading.Lock()
_originals: list[Any] = []
_users = 0


def install() -> None:
    """Apply all patches, unless another clock has done so."""
    global _users  # noqa: PLW0603 - one number for the process
    with _lock:
        if not _users:
            for owner, name, replace in _PATCHES:
                original = getattr(owner, name)
                replacement = replace(original)
                _originals.append(original)
                setattr(owner, name, replacement)
        _users += 1


def uninstall() -> None:
    """Undo all patches, once no clock needs them."""
    global _users  # noqa: PLW0603
    with _lock:
        if _users:  # 0 in a forked child
            _users -= 1
        if not _users:
            _restore()


def _restore() -> None:
    while _originals:
        owner, name, _ = _PATCHES[len(_originals) - 1]
        setattr(owner, name, _originals.pop())


def _forget_clocks() -> None:
    """In a forked child: belong to no clock, because the parent's participants do not exist."""
    global _lock, _users  # noqa: PLW0603
    _lock = threading.Lock()
    _users = 0
    _restore()
    current_clocks.clear()
    for kernel in kernels:
        kernel.forget_participants()


after_fork(_forget_clocks)
