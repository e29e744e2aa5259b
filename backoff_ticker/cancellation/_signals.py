"""``cancel_on_signals``: a token that signals cancel; they wake the loop of the main thread, too.

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
from .._validation import as_flag
from ..clock import SystemClock
from ..waiting import on_loop_wait
from ._exit import Exit
from ._token import CancellationToken, require_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable
    from types import FrameType

    from ..clock import Clock

    Handler = Callable[[int, FrameType | None], object]
    Handlers = dict[int, Handler | int | None]


class SignalBlock:
    """The ``with`` block that ``cancel_on_signals()`` returns; it can be entered more than once.

    Example:
        >>> from backoff_ticker import cancel_on_signals
        >>> block = cancel_on_signals()
        >>> with block as token:
        ...     token.cancelled
        False
    """

    __slots__ = ("_cells", "_chain", "_clock", "_entered", "_numbers", "_token")

    def __init__(
        self,
        numbers: tuple[int, ...],
        token: CancellationToken | None,
        chain: bool,  # noqa: FBT001 - as cancel_on_signals() has it
        clock: Clock | None,
    ) -> None:
        self._numbers = numbers
        self._token = token
        self._chain = chain
        self._clock = clock
        self._cells: dict[str, object] = {}
        self._entered: list[tuple[Handler, Handlers, object]] = []

    def __enter__(self) -> CancellationToken:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("cancel_on_signals() must be entered in the main thread")
        token = CancellationToken(clock=self._clock) if self._token is None else self._token
        chain = self._chain
        former: Handlers = {}

        def handle(number: int, frame: FrameType | None) -> None:
            try:
                token.cancel(_name_of(number))
            finally:
                before = former.get(number)
                if chain and callable(before):
                    before(number, frame)

        guard = self._cells.pop("guard", None)
        try:
            self._entered.append((handle, former, guard))
            if isinstance(token.clock, SystemClock):  # a virtual clock moves by itself
                _loop_wakeup.begin(handle)
            for number in dict.fromkeys(self._numbers):
                former[number] = signal.getsignal(number)  # before it can be interrupted
                signal.signal(number, handle)
        except BaseException:
            self._leave()
            raise
        return token

    __exit__ = Exit()

    def _leave(self, *_: object) -> None:
        handle, former = self._entered[-1][:2]
        for number, handler in former.items():
            current = signal.getsignal(number)
            # In a chain, somebody else may have come before this handler, or taken its place.
            if current is handle or not (self._chain or current is handler):
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        _loop_wakeup.end(handle)
        del self._entered[-1]  # with the guard

    def _leave_statement(self, guard: object) -> None:
        if self._entered and self._entered[-1][-1] is guard:
            self._leave()

    def __repr__(self) -> str:
        arguments = [*map(_name_of, self._numbers)]
        arguments += ["chain=True"] if self._chain else []
        return f"cancel_on_signals({', '.join(arguments)})"


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name, and what is no signal neither
        return f"signal {number!r}"


def cancel_on_signals(
    *signals: int,
    token: CancellationToken | None = None,
    chain: bool = False,
    clock: Clock | None = None,
) -> SignalBlock:
    """Return a ``with`` block that yields a token, which Ctrl-C or a SIGTERM cancels.

    The cause of the token is the name of the signal. In the block the signals do nothing else,
    unless you chain them: a second Ctrl-C is ignored, as with Go's ``signal.NotifyContext``. The
    end of the block restores the previous handlers and does not cancel the token, which may be
    shared with any threads and event loops.

    CPython runs signal handlers in the main thread. An event loop that runs there notices a signal
    at once, if a coroutine in it waits for the token, or for anything else of this package. Where
    the main thread waits for a lock, such as in ``join()``, a signal that arrives in the few
    instructions before, or in another thread, is noticed when that wait ends.

    Args:
        *signals: Signal numbers. If none is given: SIGINT and SIGTERM.
        token: The token to cancel and to yield. None means a new one for each time the block is
            entered.
        chain: Whether the previous handler of a signal is called, too, right after the cancel: that
            of a server, which shuts down, or Python's own for Ctrl-C, which raises
            ``KeyboardInterrupt``. A signal that had no handler in Python only cancels the token. At
            the end of the block a handler that somebody else has set meanwhile is left alone.
        clock: The clock of a new token. None means the current clock.

    Raises:
        TypeError: ``token`` is not a token, ``chain`` is not a bool, or there are both a ``token``
            and a ``clock``.
        RuntimeError: On entering the block: this is not the main thread.
        TypeError, ValueError, OSError: On entering the block: an argument is not a signal that
            can be handled.

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
    return SignalBlock(signals or (signal.SIGINT, signal.SIGTERM), token, chain, clock)


class _LoopWakeup:
    """Two connected sockets, and the loop that reads one, from its first wait in a block on.

    All methods are called in the main thread, and may be repeated.
    """

    def __init__(self) -> None:
        self._blocks: set[object] = set()
        self._loop: ref[asyncio.AbstractEventLoop] | None = None
        self._pair: tuple[socket.socket, socket.socket] | None = None

    def begin(self, block: object) -> None:
        self._blocks.add(block)
        on_loop_wait(self._attach)

    def end(self, block: object) -> None:
        self._blocks.discard(block)
        if not self._blocks:
            on_loop_wait(None)
            self._detach()

    def _attach(self, loop: asyncio.AbstractEventLoop) -> None:
        known = self._loop is not None and self._loop() is loop
        if known or threading.get_ident() != threading.main_thread().ident:
            return
        import socket

        self._detach()
        try:
            self._pair = reader, writer = socket.socketpair()
            reader.setblocking(False)  # noqa: FBT003
            writer.setblocking(False)  # noqa: FBT003
            self._loop = ref(loop)
            loop.add_reader(reader, reader.recv, 4096)
        except NotImplementedError:  # Windows: there asyncio itself looks for signals
            self._detach(ref(loop))
        except OSError:  # no free file descriptors: the next wait may find some
            self._detach()
        else:
            former = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
            if former != -1:  # asyncio does the same for loop.add_signal_handler()
                signal.set_wakeup_fd(former)
                self._detach(ref(loop))

    def _detach(self, then: ref[asyncio.AbstractEventLoop] | None = None) -> None:
        """Close the sockets; leave the loop ``then`` alone until another comes."""
        if self._pair is not None:
            reader, writer = self._pair
            former = signal.set_wakeup_fd(-1)
            if former != writer.fileno():
                signal.set_wakeup_fd(former)
            loop = None if self._loop is None else self._loop()
            if loop is not None and not loop.is_closed():
                with contextlib.suppress(NotImplementedError, ValueError):  # Windows; closed
                    loop.remove_reader(reader)
            reader.close()
            writer.close()
            self._pair = None
        self._loop = then

    def forget(self) -> None:
        """In a forked child: leave all to the parent, or signals here would wake its loop."""
        self._loop = None  # it shares what it waits for with the parent's
        self._detach()


_loop_wakeup = _LoopWakeup()

_process.after_fork(_loop_wakeup.forget)
