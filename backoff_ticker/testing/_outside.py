"""Participants that wait for what no clock knows: before time moves on, whether it has come.

A loop may wait for descriptors, and a thread that said it is idle for anything. What another
participant gave them, they have: but they need real time to notice, and time must not pass them by.
"""

from __future__ import annotations

from time import sleep
from typing import TYPE_CHECKING

from ._participant import State
from ._thread_states import is_active

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ._participant import Participant

__all__ = ["loops_with_news", "wait_for_idle"]

_MOMENT = 1e-4
"""Seconds for which the interpreter is let go, so that whoever was woken can take it."""
_QUIET = 2
"""In how many looks in a row all must be found asleep."""
_LOOKS = 250
"""After how many looks one who is never asleep is waited for no more: it works, and said so."""


def loops_with_news(outside: Iterable[Participant]) -> list[Participant]:
    """Return those loops whose descriptors are ready."""
    return [one for one in outside if one.has_news is not None and one.has_news()]


def wait_for_idle(outside: Iterable[Participant], came: Callable[[], object]) -> bool:
    """Give threads that are idle the real time to come back, if they were woken.

    Args:
        outside: Among whom they are.
        came: Whether anybody did.

    Returns:
        Whether anybody came; False: all are asleep.
    """
    idle = [one for one in outside if one.state is State.AWAY and not one.works_idle]
    if not idle:
        return False
    quiet = 0
    for _ in range(_LOOKS):
        sleep(_MOMENT)
        if came():
            return True
        if any(is_active(one.native) for one in idle):
            quiet = 0
        else:
            quiet += 1
            if quiet == _QUIET:
                return False
    for one in idle:
        one.works_idle = is_active(one.native)
    return False
