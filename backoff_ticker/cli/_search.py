"""Looks for a pattern in output, in a process of its own.

A regular expression may take longer than anybody lives, and Python can do nothing else meanwhile:
no time-out would pass, no signal be heard. A process can be killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING

from ..cancellation import CancellationToken
from ._helper_process import HelperProcess
from ._ready import ready

if TYPE_CHECKING:
    import re

_CHUNK = 65_536
_LONGEST_LINE = 65_536
"""Bytes: a line that is longer is searched in parts, which overlap by half of this."""

_FOUND = b"y"
_LOOKS = 1.0
"""Seconds after which the process looks whether we are still there."""


class LineSearch:
    """Looks for a match in output that comes in parts, a line at a time, as grep does.

    Args:
        pattern: What to look for; lines are decoded as the arguments of a program are.

    Attributes:
        matched: Whether a line matched.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._rest = b""
        self.matched = False

    def feed(self, part: bytes) -> None:
        """Look at more output."""
        if self.matched:
            return
        *lines, self._rest = (self._rest + part).split(b"\n")
        self._look_at(lines)
        if len(self._rest) > _LONGEST_LINE:
            self._look_at([self._rest])
            self._rest = self._rest[-_LONGEST_LINE // 2 :]

    def close(self) -> None:
        """Look at the last line, which may have no end."""
        if self._rest:
            self._look_at([self._rest])
            self._rest = b""

    def _look_at(self, lines: list[bytes]) -> None:
        if not self.matched:  # a further search, which nobody needs, may take for ever
            self.matched = any(map(self._pattern.search, map(os.fsdecode, lines)))


class SearchProcess:
    """A `LineSearch` that holds up nobody.

    Args:
        pattern: What to look for.

    Attributes:
        matched: Whether a line is known to match.

    Raises:
        OSError: The process cannot be begun.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        parent = os.getpid()

        def work(descriptor: int) -> None:
            _end_with(parent)
            _search(descriptor, pattern)

        self._process = HelperProcess(work)
        self._socket = self._process.socket
        self._socket.settimeout(0)
        self._closed = CancellationToken()
        self.matched = False

    async def feed(self, part: bytes) -> None:
        """Hand over more output; wait while the search is far behind."""
        view = memoryview(part)
        loop = asyncio.get_running_loop()
        while view and not self._decided():
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await ready(
                    loop.add_writer, loop.remove_writer, self._socket.fileno(), self._closed
                )
            except OSError:
                pass  # it has found something, or somebody has killed it: the next look tells

    async def finish(self) -> None:
        """Wait until all that was handed over is searched."""
        loop = asyncio.get_running_loop()
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has ended
        while not self._decided():
            await ready(loop.add_reader, loop.remove_reader, self._socket.fileno(), self._closed)

    def _decided(self) -> bool:
        if not self._closed.cancelled:
            try:
                self.matched = self._socket.recv(1) == _FOUND
            except BlockingIOError:
                return False
            except OSError:
                pass  # somebody has killed it
            self.close()
        return True

    def close(self) -> None:
        """End it, whatever it has found by now."""
        if not self._closed.cancelled:
            self._closed.cancel()
            self._process.close()


def _search(descriptor: int, pattern: re.Pattern[str]) -> None:
    search = LineSearch(pattern)
    while not search.matched and (part := os.read(descriptor, _CHUNK)):
        search.feed(part)
    search.close()
    if search.matched:
        os.write(descriptor, _FOUND)


def _end_with(parent: int) -> None:
    """Have this process end soon after its parent, even in the midst of a search."""

    def look(*_: object) -> None:
        if os.getppid() != parent:
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, _LOOKS, _LOOKS)
