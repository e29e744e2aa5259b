"""Learns of Ctrl-C while the terminal is lent: only the foreground group gets the signals.

A command may handle SIGINT and exit with a code of its own, so its end tells nothing. A process of
ours in its group gets the same signals, and tells which of them came from the terminal: others that
a process sent, such as `timeout`, are between the command and that process.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket

from ._helper_process import HelperProcess

_TYPED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Ctrl-C, Ctrl-\\, and the terminal was closed."""

_PATIENCE = 5.0
"""Seconds that it has to answer; it needs them only if somebody stops it again and again."""


class Sentinel:
    """A process in the command's group.

    Args:
        group: The group; its leader must not have been waited for yet.

    Raises:
        OSError: It cannot be begun, or the group is gone.
    """

    def __init__(self, group: int) -> None:
        # What is ignored stays ignored, as `nohup` wants it.
        heeded = [number for number in _TYPED if signal.getsignal(number) is not signal.SIG_IGN]

        def watch(descriptor: int) -> None:
            # We ask by shutting the socket down, or are gone.
            if hasattr(signal, "sigwaitinfo"):
                came = _sent_by_the_kernel(heeded, descriptor)
            else:  # macOS
                os.read(descriptor, 1)
                came = [number for number in heeded if number in signal.sigpending()]
            os.write(descriptor, bytes(came[:1]))

        self._process = HelperProcess(watch)
        try:
            os.setpgid(self._process.pid, group)
        except OSError:
            self._process.close()
            raise

    def close(self) -> int:
        """End it; return the first of the signals that its group got from the terminal, or 0."""
        try:
            os.kill(self._process.pid, signal.SIGCONT)
            ours = self._process.socket
            ours.settimeout(_PATIENCE)
            ours.shutdown(socket.SHUT_WR)
            answer = ours.recv(1)
        except OSError:
            answer = b""  # somebody has killed it
        self._process.close()
        return answer[0] if answer else 0


def _sent_by_the_kernel(heeded: list[signal.Signals], descriptor: int) -> list[int]:
    """Return which signals, all blocked, come from no process until ``descriptor`` is readable.

    SIGIO tells of that. Of several that are pending, the one with the lowest number is taken
    first, so SIGIO comes last.
    """
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_ASYNC)
    os.kill(os.getpid(), signal.SIGIO)  # it may be readable already
    came: list[int] = []
    while True:
        info = signal.sigwaitinfo({*heeded, signal.SIGIO})
        if info.si_signo == signal.SIGIO:
            if select.select([descriptor], [], [], 0)[0]:
                return came
        elif info.si_code > 0:
            came.append(info.si_signo)
