"""Participants that wait for what no clock knows: before time moves on, whether it has come.

A loop may wait for descriptors, and a thread that said it is idle for anything. What another
participant gave them, they have: but they need real time to notice, and time must not pass them by.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING

from ._thread_states import is_active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._participant import Participant

_MOMENT = 1e-4
"""Seconds for which the interpreter is let go, so that whoever was woken can take it."""
_QUIET = 2
"""In how many looks in a row all must be found asleep."""
_SLOW = 0.01
"""Seconds for such looks that tell that somebody else has the interpreter."""
_QUIET_IF_SLOW = 5
"""In how many looks they must be found asleep then."""
_LIMIT = 0.25
"""Seconds after which one who is never asleep is waited for no more: it works, and said so."""


def loops_with_news(outside: Iterable[Participant]) -> list[Participant]:
    """Return those loops whose descriptors are ready."""
    return [one for one in outside if one.has_news is not None and one.has_news()]


def wait_for_idle(idle: Iterable[Participant], came: Callable[[], bool]) -> bool:
    """Give threads that are idle the real time to come back, if they were woken.

    Args:
        idle: Those.
        came: Whether anybody did.

    Returns:
        Whether anybody came; False: all are asleep.
    """
    watched = [one for one in idle if not one.works_idle]
    if not watched:
        return False
    quiet, began = 0, monotonic()
    end, needed = began + _LIMIT, _QUIET
    while monotonic() < end:
        sleep(_MOMENT)
        if came():
            return True
        if any(is_active(one.native) for one in watched):
            quiet, needed, began = 0, _QUIET, monotonic()
            continue
        quiet += 1
        if monotonic() - began > _SLOW:
            needed = _QUIET_IF_SLOW
        if quiet >= needed:
            return False
    for one in watched:
        one.works_idle = is_active(one.native)
    return False
