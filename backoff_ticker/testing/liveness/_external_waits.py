"""Participants that wait for something other than the clock, and whether it has come.

An event loop may wait for file descriptors, and a thread inside ``idle()`` for anything. An item
that another participant sent reaches them at the current virtual time; but they need real time to
notice it, and virtual time must not move before they have.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...clock import SystemClock
from ..participants._participant import State
from ._stall_detector import Activity, is_active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..participants._participant import Participant

_never = threading.Lock()
_never.acquire()  # a wait for it sleeps, even if `time.sleep` was patched

_PAUSE = 1e-4
"""Seconds for which the interpreter is released, so that a woken thread can run."""
_QUIET_LOOKS = 2
"""How many checks in a row must find all of them asleep."""
_SLOW = 0.01
"""If these checks take more seconds than this, another thread has the interpreter."""
_QUIET_LOOKS_IF_DOUBTFUL = 5
"""How many checks must find them asleep in that case, or if one has done something meanwhile."""
_LIMIT = 0.25
"""Seconds after which a thread that never sleeps is not waited for: it computes inside idle()."""


def loops_with_news(external: Iterable[Participant]) -> list[Participant]:
    """Return the event loops whose file descriptors are ready."""
    return [one for one in external if one.has_news is not None and one.has_news()]


def works_inside_idle(participant: Participant) -> bool:
    """Whether a thread inside ``idle()`` computes there, and has done so for a while."""
    inside = participant.state is State.EXTERNAL and participant.works_idle
    return inside and is_active(participant.native)


def wait_for_return(idle: Iterable[Participant], came_back: Callable[[], bool]) -> bool:
    """Give idle threads the real time to come back, in case something woke them.

    Args:
        idle: The participants inside ``idle()`` or ``external()``.
        came_back: Returns whether any of them has posted a command.

    Returns:
        Whether any of them came back; False: all are asleep.
    """
    watched = [one for one in idle if not one.works_idle]
    if not watched:
        return False
    # A thread that was woken may be found asleep because it waits for the interpreter.
    activities = [(Activity(), one.native) for one in watched]

    def have_acted() -> bool:
        return any([activity.has_changed(native) for activity, native in activities])  # noqa: C419

    have_acted()  # from now on
    monotonic = SystemClock().monotonic
    quiet, began = 0, monotonic()
    end, needed = began + _LIMIT, _QUIET_LOOKS
    while monotonic() < end:
        _never.acquire(timeout=_PAUSE)
        if came_back():
            return True
        if any(is_active(one.native) for one in watched):
            quiet, needed, began = 0, _QUIET_LOOKS, monotonic()
            continue
        quiet += 1
        if monotonic() - began > _SLOW or (quiet == _QUIET_LOOKS and have_acted()):
            needed = _QUIET_LOOKS_IF_DOUBTFUL
        if quiet >= needed:
            return False
    for one in watched:
        one.works_idle = is_active(one.native)
    return False
