"""``cancel_on_signals``: a token that signals cancel; they wake the loop of the main thread, too.

CPython runs a signal handler when the main thread comes to its next instruction. A loop that has
just begun to wait for its sockets comes there at its next timer, maybe in an hour. So the loop also
waits for a socket, into whose other end CPython writes a byte at each signal.
"""

from __future__ import annotations

import signal
import threading
from functools import partial
from weakref import ref

from .. import _process
from .._validation import as_flag, as_signal
from ..clock import SystemClock
from ..waiting import complete, on_loop_wait
from ._token import CancellationToken, require_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable
    from typing import Any

    from ..clock import Clock

    Entry = tuple[Any, dict[int, Any]]


class SignalBlock:
    """The ``with`` block that ``cancel_on_signals()`` returns; it can be entered more than once."""

    __slots__ = ("_chain", "_entries", "_new_token", "_numbers")

    def __init__(
        self, numbers: tuple[int, ...], new_token: Callable[[], CancellationToken], *, chain: bool
    ) -> None:
        self._numbers = numbers
        self._new_token = new_token
        self._chain = chain
        self._entries: tuple[Entry, ...] = ()

    def __enter__(self) -> CancellationToken:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("cancel_on_signals() must be entered in the main thread")
        token = self._new_token()
        chain = self._chain
        former: dict[int, Any] = {}

        def handle(number: int, frame: object) -> None:
            try:
                token.cancel(_name_of(number))
            finally:
                if chain and callable(former.get(number)):
                    former[number](number, frame)

        entry = handle, former
        self._entries = *self._entries, entry  # no call: an interrupt comes inside of the try
        try:
            _entered.append(entry)
            if isinstance(token.clock, SystemClock):  # a virtual clock moves by itself
                on_loop_wait(_loop_wakeup.attach)
            for number in self._numbers:
                former.setdefault(number, signal.getsignal(number))  # before an interrupt
                signal.signal(number, handle)
        except BaseException:
            self.__exit__()
            raise
        return token

    def __exit__(self, *_: object) -> None:
        complete(self._restore, self._entries[-1])

    def _restore(self, entry: Entry) -> None:
        """Bring the former handlers back; may be repeated."""
        handle, former = entry
        for number, handler in former.items():
            current = signal.getsignal(number)
            # In a chain, another handler may have been set over this one, or in its place.
            if current is handle or not (self._chain or current is handler):
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if entry in _entered:
            _entered.remove(entry)
        if not _entered:
            on_loop_wait(None)
            _loop_wakeup.detach()
        if self._entries and self._entries[-1] is entry:
            self._entries = self._entries[:-1]

    def __repr__(self) -> str:
        numbers = ", ".join(map(_name_of, self._numbers))
        return f"cancel_on_signals({numbers}{', chain=True' if self._chain else ''})"


_entered: list[Entry] = []
"""Of each block that is entered, its handler, and the handlers before."""


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of a real-time signal, or of no signal
        return f"signal {number!r}"


def cancel_on_signals(
    *signals: int,
    token: CancellationToken | None = None,
    chain: bool = False,
    clock: Clock | None = None,
) -> SignalBlock:
    """Return a ``with`` block that yields a token, which Ctrl-C or a SIGTERM cancels.

    The cause is the name of the signal. In the block the signals do nothing else, unless you chain
    them: a second Ctrl-C is ignored, as with Go's ``signal.NotifyContext``. At the end of the block
    the previous handlers come back, and the token stays as it is.

    An event loop in the main thread notices a signal at once, if a coroutine in it waits for
    anything of this package. Where the main thread waits for a lock, such as in ``join()``, it may
    notice a signal only when that wait ends.

    Args:
        *signals: Signal numbers. If none is given: SIGINT and SIGTERM.
        token: The token to cancel and to yield. None means a new one each time.
        chain: Whether the previous handler of a signal is called after the cancel: that of a
            server, or Python's own for Ctrl-C, which raises ``KeyboardInterrupt``. Then the end of
            the block leaves a handler alone that somebody else has set meanwhile.
        clock: The clock of a new token. None means the current clock.

    Raises:
        TypeError: An argument is of a wrong type, or there are a ``token`` and a ``clock``.
        RuntimeError: On entering the block: this is not the main thread.
        ValueError, OSError: On entering the block: a signal that cannot be handled.

    Example:
        >>> import signal
        >>> from backoff_ticker import cancel_on_signals
        >>> with cancel_on_signals() as token:
        ...     signal.raise_signal(signal.SIGINT)
        ...     token.cause
        'SIGINT'
    """
    if token is not None:
        require_token("token", token)
        if clock is not None:
            raise TypeError("cancel_on_signals() takes a token, which has its clock, or a clock")
    as_flag("chain", chain)
    numbers = tuple(map(as_signal, signals)) or (signal.SIGINT, signal.SIGTERM)
    return SignalBlock(numbers, lambda: token or CancellationToken(clock=clock), chain=chain)


class _LoopWakeup:
    """Two connected sockets, and the loop that reads one. Used in the main thread only."""

    def __init__(self) -> None:
        self._loop: Callable[[], asyncio.AbstractEventLoop | None] = lambda: None
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._link: ref[partial[bytes]] | None = None  # to what the loop calls to read

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop() is loop or threading.get_ident() != threading.main_thread().ident:
            return
        import socket

        self.detach()
        self._loop = ref(loop)
        former = signal.set_wakeup_fd(-1)
        if former != -1:  # asyncio does the same for loop.add_signal_handler()
            signal.set_wakeup_fd(former)
            return
        try:
            self._pair = reader, writer = socket.socketpair()
            reader.setblocking(False)
            writer.setblocking(False)
            read = partial(reader.recv, 4096)
            loop.add_reader(reader, read)
            self._link = ref(read, self._let_go)  # a loop that is closed forgets it
            del read
            signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        except NotImplementedError:
            pass  # Windows: there asyncio itself looks for signals
        except OSError:
            self.detach()  # no free file descriptors: the next wait may find some

    def _let_go(self, link: object) -> None:
        if link is self._link and threading.get_ident() == threading.main_thread().ident:
            self.detach()

    def detach(self) -> None:
        """Close the sockets. May be repeated."""
        self._link = None
        if self._pair is not None:
            reader, writer = self._pair
            former = signal.set_wakeup_fd(-1)
            if former != writer.fileno():
                signal.set_wakeup_fd(former)
            loop = self._loop()
            if loop is not None and not loop.is_closed():
                try:
                    loop.remove_reader(reader)
                except (NotImplementedError, ValueError):  # Windows; closed
                    pass
            reader.close()
            writer.close()
            self._pair = None
        self._loop = lambda: None

    def forget(self) -> None:
        """In a forked child: leave all to the parent, or signals here would wake its loop."""
        self._loop = lambda: None  # it shares what it waits for with the parent's
        self.detach()


_loop_wakeup = _LoopWakeup()

_process.after_fork(_loop_wakeup.forget)
