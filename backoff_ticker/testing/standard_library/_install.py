"""Patches the standard library while a virtual clock is entered."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..._process import after_fork
from ...clock import current_clocks
from .._kernel import kernels
from .._other_clocks import SYSTEM_CLOCK_PATCHES
from ._conditions import CONDITION_PATCHES
from ._foreign_loops import foreign_loop_patches
from ._futures import FUTURE_PATCHES
from ._helpers import HELPER_PATCHES
from ._loops import LOOP_PATCHES
from ._pools import POOL_PATCHES
from ._sockets import SOCKET_PATCHES
from ._subprocesses import SUBPROCESS_PATCHES
from ._threads import THREAD_PATCHES

if TYPE_CHECKING:
    from ._foreign_loops import Patch

_PATCHES: list[Patch] = [
    *THREAD_PATCHES,
    *FUTURE_PATCHES,
    *POOL_PATCHES,
    *LOOP_PATCHES,
    *SUBPROCESS_PATCHES,
    *SOCKET_PATCHES,
    *CONDITION_PATCHES,
    *HELPER_PATCHES,
    *SYSTEM_CLOCK_PATCHES,
]

_INHERITED = object()
"""The original of an attribute that the owner does not define itself."""

_lock = threading.Lock()
_applied: list[tuple[Any, str, Any]] = []
"""Owner, name and replacement of each attribute that is replaced now."""
_originals: dict[Any, Any] = {}
"""The original of each replacement that is in place, or may be put back by somebody."""
_users = 0


def install() -> None:
    """Apply all patches, unless another clock has done so."""
    global _users  # noqa: PLW0603 - one number for the process
    with _lock:
        if not _users:
            for patch in (*_PATCHES, *foreign_loop_patches(_apply)):
                _apply(patch)
        _users += 1


def _apply(patch: Patch) -> None:
    owner, name, replace = patch
    replacement = original = vars(owner).get(name, _INHERITED)
    # It is one of ours if somebody had replaced that before we could, and has put it back since.
    if original not in _originals:
        replacement = replace(getattr(owner, name))
        setattr(owner, name, replacement)
        _originals[replacement] = original
    _applied.append((owner, name, replacement))


def uninstall() -> None:
    """Undo all patches, once no clock needs them."""
    global _users  # noqa: PLW0603
    with _lock:
        if _users:  # 0 in a forked child
            _users -= 1
        if not _users:
            _restore()


def _restore() -> None:
    while _applied:
        owner, name, replacement = _applied.pop()
        if vars(owner).get(name) is not replacement:
            continue  # that of somebody else stays, and may call ours, which does nothing by now
        original = _originals.pop(replacement)
        if original is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


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
