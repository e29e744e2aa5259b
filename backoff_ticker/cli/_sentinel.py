"""Learns of Ctrl-C while the terminal is lent: only the foreground group gets the signals.

A command may handle SIGINT and exit with a code of its own, so its end tells nothing. A process of
ours in its group gets the same signals and keeps them pending until it is asked.
"""

from __future__ import annotations

import os
import signal
import socket

from ._helper_process import HelperProcess

__all__ = ["Sentinel"]

_TYPED = (signal.SIGINT, signal.SIGQUIT)
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
            os.read(descriptor, 1)  # we ask by shutting the socket down, or are gone
            came = [number for number in heeded if number in signal.sigpending()]
            os.write(descriptor, bytes(came[:1]))

        self._process = HelperProcess(watch)
        try:
            os.setpgid(self._process.pid, group)
        except OSError:
            self._process.close()
            raise

    def close(self) -> int:
        """End it; return SIGINT or SIGQUIT if its group got one of them, else 0."""
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
