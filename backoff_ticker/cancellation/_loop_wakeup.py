"""Signals wake the event loop of the main thread while a ``cancel_on_signals()`` block runs.

CPython notes a signal, and runs its handler when the main thread comes to its next instruction. A
loop that has just begun to wait for its sockets comes there at its next timer, maybe in an hour. So
the loop also waits for a socket, into whose other end CPython writes a byte as it notes a signal.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from weakref import ref

from .. import _process
from ..waiting import on_loop_wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable


class LoopWakeup:
    """The pair of sockets, and the loop that reads it. All methods are called in the main thread.

    A loop gets them as its first coroutine waits for something of this package.
    """

    def __init__(self) -> None:
        self._blocks: set[object] = set()
        self._loop: Callable[[], asyncio.AbstractEventLoop | None] = _no_loop
        self._pair: tuple[socket.socket, socket.socket] | None = None

    def begin(self, block: object) -> None:
        """Note a block that begins."""
        self._blocks.add(block)
        on_loop_wait(self._attach)

    def end(self, block: object) -> None:
        """Note a block that ends. With the last one, undo everything. May be repeated."""
        self._blocks.discard(block)
        if not self._blocks:
            on_loop_wait(None)
            self.detach()

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop is self._loop() or threading.get_ident() != threading.main_thread().ident:
            return
        import socket

        self.detach()
        try:
            self._pair = reader, writer = socket.socketpair()
            reader.setblocking(False)  # noqa: FBT003
            writer.setblocking(False)  # noqa: FBT003
            self._loop = ref(loop)
            loop.add_reader(reader, _drain, reader)
        except NotImplementedError:  # Windows: there asyncio itself looks for signals
            self.detach(ref(loop))
        except OSError:  # no free file descriptors: the next wait may find some
            self.detach()
        else:
            former = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
            if former != -1:  # asyncio does the same for loop.add_signal_handler()
                signal.set_wakeup_fd(former)
                self.detach(ref(loop))

    def detach(self, then: Callable[[], asyncio.AbstractEventLoop | None] | None = None) -> None:
        """Forget the loop, and close the sockets. May be repeated.

        Args:
            then: A reference to the loop that is left alone until another comes.
        """
        loop = self._loop()
        if self._pair is not None:
            reader, writer = self._pair
            former = signal.set_wakeup_fd(-1)
            if former != writer.fileno():
                signal.set_wakeup_fd(former)
            if loop is not None and not loop.is_closed():
                with contextlib.suppress(NotImplementedError, ValueError):  # Windows; closed
                    loop.remove_reader(reader)
            reader.close()
            writer.close()
            self._pair = None
        self._loop = then or _no_loop

    def forget(self) -> None:
        """In a forked child: leave all to the parent, or signals here would wake its loop."""
        self._loop = _no_loop  # it shares what it waits for with the parent's
        self.detach()


def _no_loop() -> None:
    return None


def _drain(reader: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        reader.recv(4096)


loop_wakeup = LoopWakeup()

_process.after_fork(loop_wakeup.forget)
