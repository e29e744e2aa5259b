"""Threads for work of the user that the package does not wait for."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start_thread(target: Callable[[], object], name: str) -> None:
    """Call ``target()`` in a new thread, which does not keep the process alive.

    Raises:
        RuntimeError: No thread can be started.
    """
    threading.Thread(target=target, name=name, daemon=True).start()
