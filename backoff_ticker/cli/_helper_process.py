"""A process that does one small thing beside the event loop, and never outlives its use.

Invariants:
    * Every signal is blocked in it from its first moment on: no handler of ours runs there, and
      only SIGKILL and SIGSTOP reach it.
    * It has one descriptor, a socket whose other end we hold. That ends with us.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

from ._signals import ALL, blocked

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_DESCRIPTORS = 65_536
"""Where a system allows far more, closing every number takes too long."""


class HelperProcess:
    """A forked child that runs a function and ends.

    Args:
        work: Called in the child with the descriptor of its socket.

    Attributes:
        pid: Its number.
        socket: Our end of the socket.

    Raises:
        OSError: It cannot be begun.
    """

    def __init__(self, work: Callable[[int], object]) -> None:
        self.socket, theirs = socket.socketpair()
        try:
            self.pid = _process(work, theirs.fileno())
        except OSError:
            self.socket.close()
            raise
        finally:
            theirs.close()
        self._ended = False

    def close(self) -> None:
        """End it."""
        if self._ended:
            return
        self._ended = True
        self.socket.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # the children of a process that ignores SIGCHLD leave no trace


def _process(work: Callable[[int], object], descriptor: int) -> int:
    with blocked(ALL):
        pid = os.fork()
        if pid == 0:
            _be_child(work, descriptor)
    return pid


def _be_child(work: Callable[[int], object], descriptor: int) -> None:
    try:
        os.dup2(descriptor, 0)
        os.closerange(1, min(os.sysconf("SC_OPEN_MAX"), _MOST_DESCRIPTORS))
        work(0)
    finally:
        os._exit(0)
