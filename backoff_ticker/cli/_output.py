"""The command's stdout on its way through a pipe: passed on as it comes, and searched."""

from __future__ import annotations

import asyncio
import fcntl
import os
import select
import struct
import termios
from typing import TYPE_CHECKING

from .._token import CancellationToken
from .._waiting import give_way

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import IO

    Pattern = re.Pattern[bytes] | re.Pattern[str]

__all__ = ["LineSearch", "Output"]

_STDOUT = 1
_CHUNK = 65_536
_LONGEST_LINE = 65_536
"""Bytes: a line that is longer is searched in parts, which overlap by half of this."""


class LineSearch:
    """Looks for a match in output that comes in parts, a line at a time, as grep does.

    Args:
        pattern: For str each line is decoded as the arguments of a program are.

    Attributes:
        matched: Whether a line matched.
    """

    def __init__(self, pattern: Pattern) -> None:
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
        if isinstance(self._pattern.pattern, bytes):
            found = any(map(self._pattern.search, lines))
        else:
            found = any(map(self._pattern.search, map(os.fsdecode, lines)))
        self.matched = self.matched or found


async def _ready(
    watch: Callable[[int, Callable[[], None]], object],
    unwatch: Callable[[int], object],
    descriptor: int,
    *also: CancellationToken,
) -> None:
    """Wait until a descriptor is ready, or one of the tokens is cancelled."""
    news = asyncio.get_running_loop().create_future()

    def wake() -> None:
        if not news.done():
            news.set_result(None)

    watch(descriptor, wake)
    handles = [token.on_cancel(wake) for token in also]
    try:
        await news
    finally:
        unwatch(descriptor)
        for handle in handles:
            handle.remove()


class Output:
    """Passes on what comes out of a pipe.

    Args:
        source: The end of the pipe to read from, unbuffered; it becomes non-blocking.
        pattern: What to look for.

    Attributes:
        done: Cancelled once all is passed on.
        search: What was found.
    """

    def __init__(self, source: IO[bytes], pattern: Pattern) -> None:
        os.set_blocking(source.fileno(), False)
        self._pipe = source
        self._source = source.fileno()
        self._loop = asyncio.get_running_loop()
        self.search = LineSearch(pattern)
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
                    await _ready(loop.add_reader, loop.remove_reader, self._source, exited)
                    continue
                if not part:
                    return
                await self._write(part)
                await give_way
            left = self._available()
            while left and (part := os.read(self._source, min(left, _CHUNK))):
                left -= len(part)
                await self._write(part)
        except OSError:
            pass  # nobody reads our stdout; closing the pipe tells the command
        finally:
            self._pipe.close()
            self.search.close()
            self.done.cancel()

    def _available(self) -> int:
        count = fcntl.ioctl(self._source, termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", count)[0])

    async def _write(self, part: bytes) -> None:
        """Write to our stdout, which may be slow: only what it takes without blocking us."""
        self.search.feed(part)
        view = memoryview(part)
        while view:
            try:
                if select.select([], [_STDOUT], [], 0)[1]:
                    view = view[os.write(_STDOUT, view[: select.PIPE_BUF]) :]
                    continue
            except BlockingIOError:
                pass  # somebody made it non-blocking
            await _ready(self._loop.add_writer, self._loop.remove_writer, _STDOUT)
