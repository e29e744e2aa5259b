"""What only real time can show: who does something, who is stuck, what has taken too long.

If look after look finds that no thread of the process computes or waits for a processor, those that
have a turn must be waiting for a lock or an item. One that computes keeps its turn, however slow
the machine is: otherwise the order of events would depend on that.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ..clock import SystemClock
from ._participants import Participant, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_THREADS = Path("/proc/self/task")


def _read(native: int | None, name: str) -> bytes:
    """Return what Linux knows about a thread; nothing on other systems."""
    try:
        return (_THREADS / str(native) / name).read_bytes()
    except OSError:
        return b""


def is_active(native: int | None) -> bool:
    """Whether a thread runs, or waits for a processor, memory or a disk; False if unknown."""
    _, _, status = _read(native, "stat").rpartition(b") ")
    return status[:1] in {b"R", b"D"}


def computed(one: Participant) -> int:
    """Return for how many hundredths of a second a thread has had a processor; 0 if unknown."""
    _, _, status = _read(one.native, "stat").rpartition(b") ")
    return sum(map(int, status.split()[11:13]))


def waits_for_a_thread(one: Participant) -> bool:
    """Whether a thread sleeps in a lock or a queue, and holds no time by that; False if unknown."""
    return not one.waits_really and _read(one.native, "wchan").startswith(b"futex")


def others_are_active() -> bool:
    """Whether any other thread is active; False where the system does not say."""
    me = threading.get_native_id()
    try:
        others = [int(thread.name) for thread in _THREADS.iterdir()]
    except OSError:
        return False
    return any(other != me and is_active(other) for other in others)


def note_activity(one: Participant) -> None:
    """Count at how many looks in a row a thread has done anything, where the system says so."""
    status = _read(one.native, "status")
    switches = tuple(line for line in status.splitlines() if b"ctxt_switches" in line)
    active = switches != one.switches or is_active(one.native)
    one.switches = switches
    one.active_looks = one.active_looks + 1 if active else 0


# Steps and waits that take too long

_HELD = 60.0  # the timeout while time is held on purpose, unless the usual one is longer
_AFTER_ERROR = 0.5  # the timeout once something has failed, unless it is shorter anyway


class SettleTimer:
    """Measures for how long time has stood still."""

    def __init__(self, seconds: float) -> None:
        self.seconds: float = seconds  # the timeout, in real time
        self._if_held = max(_HELD, seconds)
        self._still: tuple[int, int, bool] | None = None
        self._since = 0.0

    def restart(self) -> None:
        self._still = None

    def has_expired(self, real: float, now: int, progress: int, *, held: bool) -> bool:
        """Return whether nothing has moved for too long at ``real`` seconds; if so, start again.

        ``now`` is the time of the clock; ``progress`` changes whenever a participant begins a wait
        or ends. ``held``: time is held on purpose.
        """
        if self._still != (now, progress, held):
            self._still, self._since = (now, progress, held), real
        if real - self._since < self.limit(held=held):
            return False
        self.restart()
        return True

    def limit(self, *, held: bool) -> float:
        return self._if_held if held else self.seconds

    def hurry(self) -> None:
        """Give up soon: participants may wait for what an error has prevented."""
        self.seconds = self._if_held = min(self.seconds, _AFTER_ERROR)


# Threads inside idle(). An item that a participant has sent reaches them at the current virtual
# time; but they need real time to notice it, and virtual time must not move before they have.

_never = threading.Lock()
_never.acquire()  # a wait for it sleeps, even if `time.sleep` was patched

_PAUSE = 1e-4  # seconds for which the interpreter is released, so that a woken thread can run
_QUIET_LOOKS = 5  # that find all asleep: one that waits for the interpreter seems to be asleep, too
_LIMIT = 0.25  # seconds after which a thread that never sleeps computes, and is not waited for


def works_inside_idle(participant: Participant) -> bool:
    """Whether a thread inside ``idle()`` works there: at two looks in a row, so not a poll."""
    return participant.state is State.EXTERNAL and participant.active_looks > 1


def is_busy(idle: Participant) -> bool:
    """Whether a thread does something: inside ``idle()``, or anything but waiting for a thread."""
    return is_active(idle.native) or (idle.aside and not waits_for_a_thread(idle))


def wait_for_return(idle: Iterable[Participant], came_back: Callable[[], bool]) -> bool:
    """Give idle threads real time to come back, if something woke them; return ``came_back()``."""
    watched = [one for one in idle if not one.works_idle]
    if not watched:
        return False
    monotonic = SystemClock().monotonic
    quiet, end, before = 0, monotonic() + _LIMIT, sum(map(computed, watched))
    while True:
        _never.acquire(timeout=_PAUSE)
        if came_back():
            return True
        quiet = 0 if any(map(is_busy, watched)) else quiet + 1
        if quiet == _QUIET_LOOKS:
            return False
        if any(is_active(one.native) for one in watched) and sum(map(computed, watched)) == before:
            end = monotonic() + _LIMIT  # it waits for a processor, on a busy machine
        elif monotonic() >= end:
            break
    for one in watched:
        one.works_idle = not one.aside and is_active(one.native)
    return False
