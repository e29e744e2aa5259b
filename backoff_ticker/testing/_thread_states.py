"""What the system says of the threads of this process, where it says it."""

from __future__ import annotations

import threading
from pathlib import Path

_THREADS = Path("/proc/self/task")


def is_active(native: int | None) -> bool:
    """Whether a thread runs or lacks a processor; False where that is not told."""
    try:
        _, _, status = (_THREADS / str(native) / "stat").read_bytes().rpartition(b")")
    except OSError:
        return False
    return status.split(None, 1)[0] == b"R"


def others_are_active() -> bool:
    """Whether any thread but this one runs or lacks a processor; False where that is not told."""
    me = threading.get_native_id()
    try:
        others = [int(thread.name) for thread in _THREADS.iterdir()]
    except OSError:
        return False
    return any(other != me and is_active(other) for other in others)


class Activity:
    """Whether a thread has done anything since it was last asked about, as far as that is told."""

    def __init__(self) -> None:
        self._switches: list[bytes] = []

    def has_changed(self, native: int | None) -> bool:
        """Whether it runs, lacks a processor, or was put to sleep anew."""
        try:
            status = (_THREADS / str(native) / "status").read_bytes()
        except OSError:
            return False
        switches = [line for line in status.splitlines() if b"ctxt_switches" in line]
        changed, self._switches = switches != self._switches, switches
        return changed or is_active(native)
