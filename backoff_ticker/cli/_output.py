"""``--until-output``: the command's stdout goes through a pipe, is searched and passed on."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import IO

    from ..cancellation import CancellationToken

_STDOUT = 1
_CHUNK = 65_536
_LARGEST_PIPE = 1 << 20
_LONGEST_LINE = 65_536  # bytes; a longer one is searched in parts, which overlap by half of this
_NOBODY_READS = (errno.EPIPE, errno.ECONNRESET, errno.EIO)  # EIO: a terminal that was closed


class LineSearch:
    """Looks for a match in output that comes in parts, one line at a time, as grep does.

    Lines are decoded as the arguments of a program are. ``matched``: a line has matched.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._rest = b""
        self.matched = False

    def feed(self, part: bytes) -> None:
        """Search the lines that ``part`` completes."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = self._rest[-_LONGEST_LINE // 2 :]
        self._search(lines)

    def finish(self) -> None:
        """Search the last line, which may lack its newline."""
        self._search([self._rest] if self._rest else [])
        self._rest = b""

    def _search(self, lines: list[bytes]) -> None:
        self.matched = self.matched or any(map(self._pattern.search, map(os.fsdecode, lines)))


async def pass_on(pipe: IO[bytes], search: LineSearch, exited: CancellationToken) -> None:
    """Copy to our stdout what a command writes to an unbuffered pipe, and search it.

    That ends when ``exited`` is cancelled: background processes of the command may keep the pipe
    open, and are not waited for. The pipe is then closed, or as soon as our stdout has no reader:
    the command gets SIGPIPE. Any other error of our stdout, such as a full disk, is raised.
    """
    loop = asyncio.get_running_loop()
    os.set_blocking(pipe.fileno(), False)
    try:
        at_end = False
        while not at_end:
            # Checked before the pipe is read: if it has exited, all its output is in the pipe.
            at_end = exited.cancelled
            try:
                part = os.read(pipe.fileno(), _LARGEST_PIPE if at_end else _CHUNK)
            except BlockingIOError:
                if not at_end:
                    await _ready(loop.add_reader, loop.remove_reader, pipe.fileno(), exited)
                continue
            if not part:
                break
            search.feed(part)
            await _write(part)
            await asyncio.sleep(0)  # output that never pauses must not keep the loop busy
        search.finish()
    except OSError as error:
        if error.errno not in _NOBODY_READS:
            raise
    finally:
        pipe.close()


async def _write(data: bytes) -> None:
    """Write to our stdout without ever blocking the loop, and without making it non-blocking.

    That mode would be shared with every process that has the same terminal or pipe open.
    """
    if sys.__stdout__ is None:
        return  # the caller has closed it, and the descriptor may be another file by now
    loop = asyncio.get_running_loop()
    while data:
        if not select.select([], [_STDOUT], [], 0)[1]:
            await _ready(loop.add_writer, loop.remove_writer, _STDOUT)
            continue
        try:
            data = data[os.write(_STDOUT, data[: select.PIPE_BUF]) :]
        except BlockingIOError:
            await asyncio.sleep(0.001)  # another process made it non-blocking


async def _ready(
    watch: Callable[[int, Callable[[], None]], object],
    unwatch: Callable[[int], object],
    fd: int,
    *also: CancellationToken,
) -> None:
    """Wait until a descriptor is ready, or one of the tokens is cancelled."""
    ready = asyncio.Event()
    watch(fd, ready.set)
    handles = [token.on_cancel(ready.set) for token in also]
    try:
        await ready.wait()
    finally:
        unwatch(fd)
        for handle in handles:
            handle.remove()
