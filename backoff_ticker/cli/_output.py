"""The command's stdout on its way through a pipe: passed on as it comes, and searched."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import struct
import termios
from typing import TYPE_CHECKING

from ..cancellation import CancellationToken
from ..waiting import checkpoint
from ._ready import ready

if TYPE_CHECKING:
    from typing import IO

    from ._search import SearchProcess
    from ._terminal import Terminal

_STDOUT = 1
_CHUNK = 65_536
_NOBODY_READS = (errno.EPIPE, errno.ECONNRESET, errno.EIO)
"""EIO is what a terminal says that was closed."""


def somebody_reads() -> bool:
    """Whether what is written to our stdout can still reach somebody."""
    poll = select.poll()
    poll.register(_STDOUT, 0)
    return not any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


class Output:
    """Passes on what comes out of a pipe.

    Args:
        source: The end of the pipe to read from, unbuffered; it becomes non-blocking.
        search: Searches it; it is closed here.
        terminal: What our stdout may be.

    Attributes:
        done: Cancelled once all is passed on and searched.
        failed: Why our stdout takes no more, if not because nobody reads it.
        search: What was found.
    """

    def __init__(self, source: IO[bytes], search: SearchProcess, terminal: Terminal) -> None:
        os.set_blocking(source.fileno(), False)
        self._pipe = source
        self._source = source.fileno()
        self._loop = asyncio.get_running_loop()
        self._terminal = terminal
        self.search = search
        self.failed: OSError | None = None
        self.done = CancellationToken()

    async def pass_on(self, exited: CancellationToken) -> None:
        """Pass on all that is written until the command has exited.

        The pipe is closed then, and as soon as nobody reads our stdout: who still writes to it gets
        SIGPIPE.
        """
        try:
            while not exited.cancelled:
                try:
                    part = os.read(self._source, _CHUNK)
                except BlockingIOError:
                    loop = self._loop
                    await ready(loop.add_reader, loop.remove_reader, self._source, exited)
                    continue
                if not part:
                    return
                await self._write(part)
                await checkpoint
            left = self._available()
            while left and (part := os.read(self._source, min(left, _CHUNK))):
                left -= len(part)
                await self._write(part)
        except OSError as error:  # closing the pipe tells the command
            if error.errno not in _NOBODY_READS:
                self.failed = error
        finally:
            self._pipe.close()
            try:
                await self.search.finish()
            finally:
                self.search.close()
                self.done.cancel()

    def _available(self) -> int:
        count = fcntl.ioctl(self._source, termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", count)[0])

    async def _write(self, part: bytes) -> None:
        """Write to our stdout, which may be slow: only what it takes without blocking us."""
        await self.search.feed(part)
        view = memoryview(part)
        while view:
            try:
                if select.select([], [_STDOUT], [], 0)[1]:
                    with self._terminal.writing():
                        view = view[os.write(_STDOUT, view[: select.PIPE_BUF]) :]
                    continue
            except BlockingIOError:
                pass  # somebody made it non-blocking
            await ready(self._loop.add_writer, self._loop.remove_writer, _STDOUT)
