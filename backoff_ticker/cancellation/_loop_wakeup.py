"""Signals wake the event loop of the main thread while a ``cancel_on_signals()`` block runs.

CPython notes a signal, and runs its handler when the main thread comes to its next instruction. A
loop that has just begun to wait for its sockets comes there at its next timer, maybe in an hour. So
the loop also waits for a pipe, into which CPython writes a byte as it notes a signal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from weakref import ref

from .. import _process
from ..waiting import on_loop_wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class LoopWakeup:
    """The pipe, and the loop that reads it. All methods are called in the main thread.

    A loop gets the pipe as its first coroutine waits for something of this package.
    """

    def __init__(self) -> None:
        self._blocks = 0
        self._loop: Callable[[], asyncio.AbstractEventLoop | None] = _no_loop
        self._pipe: tuple[int, int] | None = None

    def begin(self) -> None:
        """Count a block that begins."""
        self._blocks += 1
        on_loop_wait(self._attach)

    def end(self) -> None:
        """Count a block that ends. With the last one, undo everything."""
        self._blocks -= 1
        if not self._blocks:
            on_loop_wait(None)
            self._detach()

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is self._loop() or threading.get_ident() != threading.main_thread().ident:
            return
        self._detach()
        self._loop = ref(loop)  # even if the rest fails: it would fail again
        try:
            self._pipe = reader, writer = os.pipe()
            os.set_blocking(reader, False)
            os.set_blocking(writer, False)
            loop.add_reader(reader, _drain, reader)
        except NotImplementedError:  # Windows: there asyncio itself looks for signals
            self._close_pipe()
            return
        except OSError:  # no free file descriptors: the next wait may find some
            self._detach()
            return
        former = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        if former != -1:  # asyncio does the same for loop.add_signal_handler()
            signal.set_wakeup_fd(former)
            self._close_pipe()

    def _detach(self) -> None:
        self._close_pipe()
        self._loop = _no_loop

    def _close_pipe(self) -> None:
        if self._pipe is None:
            return
        (reader, writer), self._pipe = self._pipe, None
        former = signal.set_wakeup_fd(-1)
        if former != writer:
            signal.set_wakeup_fd(former)
        loop = self._loop()
        if loop is not None and not loop.is_closed():
            with contextlib.suppress(NotImplementedError):  # Windows again
                loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)

    def forget(self) -> None:
        """In a forked child: leave the pipe to the parent, or signals here would wake its loop."""
        self._loop = _no_loop  # it shares what it waits for with the parent's
        self._close_pipe()


def _no_loop() -> None:
    return None


def _drain(reader: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(reader, 4096)


loop_wakeup = LoopWakeup()

_process.after_fork(loop_wakeup.forget)
