"""Whether the participants that have a turn wait for something that only another one can do.

That cannot be known for certain, so it is judged by real time: if check after check finds that no
thread of the process computes or waits for a processor, the participants that have a turn must be
waiting for a lock or an item. One that computes itself keeps its turn, however slow the machine is:
otherwise the order of events would depend on that.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ._watchdog import LOOK_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..participants._participant import Participant

_THREADS = Path("/proc/self/task")
_STALLED_AFTER = 0.05
"""Seconds without any thread computing after which another participant gets a turn, too."""
_LATE = 2.0 * LOOK_INTERVAL
"""If two checks are further apart than this, another thread has the interpreter or processor."""
_WEIGHT_IF_UNKNOWN = 0.05
"""The weight of a second in which nothing can be judged."""


class StallDetector:
    """For how long the participants that have a turn have kept it and done nothing."""

    def __init__(self) -> None:
        self._turns_given = 0
        self._stalled_for = 0.0
        self._looked_at = 0.0

    def is_stalled(self, real: float, turns_given: int, running: Collection[Participant]) -> bool:
        """Return whether another participant should get a turn.

        Args:
            real: The real time in seconds.
            turns_given: How many turns were given so far.
            running: The participants that have a turn.
        """
        elapsed, self._looked_at = real - self._looked_at, real
        new = turns_given != self._turns_given or not running
        if new or any(is_active(one.native) for one in running):
            self._turns_given, self._stalled_for = turns_given, 0.0
            return False
        # The watchdog needs the interpreter as they do: if it is late, no judgement is possible.
        begun = all(one.ident is not None for one in running)
        known = begun and elapsed < _LATE and not others_are_active()
        self._stalled_for += elapsed if known else elapsed * _WEIGHT_IF_UNKNOWN
        return self._stalled_for >= _STALLED_AFTER


# What the operating system knows about threads (Linux)


def is_active(native: int | None) -> bool:
    """Whether a thread runs, or waits for a processor, memory or a disk; False if unknown."""
    try:
        _, _, status = (_THREADS / str(native) / "stat").read_bytes().rpartition(b")")
    except OSError:
        return False
    return status.split(None, 1)[0] in {b"R", b"D"}


def others_are_active() -> bool:
    """Whether any other thread is active; False where the system does not say."""
    me = threading.get_native_id()
    try:
        others = [int(thread.name) for thread in _THREADS.iterdir()]
    except OSError:
        return False
    return any(other != me and is_active(other) for other in others)


class Activity:
    """Whether a thread has done anything since the last check, where the system says so."""

    def __init__(self) -> None:
        self._switches: list[bytes] = []

    def has_changed(self, native: int | None) -> bool:
        """Whether the thread is active, or has been since the last call."""
        try:
            status = (_THREADS / str(native) / "status").read_bytes()
        except OSError:
            return False
        switches = [line for line in status.splitlines() if b"ctxt_switches" in line]
        changed, self._switches = switches != self._switches, switches
        return changed or is_active(native)
