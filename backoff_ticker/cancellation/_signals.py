"""``cancel_on_signals``: a token that signals cancel."""

from __future__ import annotations

import signal
import threading

from ..clock import SystemClock
from ._loop_wakeup import loop_wakeup
from ._token import CancellationToken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ..clock import Clock

    Handlers = dict[int, Callable[[int, FrameType | None], object] | int | None]


class SignalBlock:
    """The ``with`` block that ``cancel_on_signals()`` returns; it can be entered more than once.

    Example:
        >>> from backoff_ticker import cancel_on_signals
        >>> block = cancel_on_signals()
        >>> with block as token:
        ...     token.cancelled
        False
    """

    __slots__ = ("_clock", "_former", "_numbers")

    def __init__(self, numbers: tuple[int, ...], clock: Clock | None) -> None:
        self._numbers = numbers
        self._clock = clock
        self._former: list[tuple[Handlers, bool]] = []

    def __enter__(self) -> CancellationToken:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("cancel_on_signals() must be entered in the main thread")
        token = CancellationToken(clock=self._clock)

        def handle(number: int, frame: object) -> None:  # noqa: ARG001 - as Python calls it
            token.cancel(_name_of(number))

        former: Handlers = {}
        # A virtual clock moves by itself.
        in_real_time = isinstance(token.clock, SystemClock)
        self._former.append((former, in_real_time))
        if in_real_time:
            loop_wakeup.begin()
        try:
            for number in dict.fromkeys(self._numbers):
                former[number] = signal.signal(number, handle)
        except BaseException:
            self._restore()
            raise
        return token

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _restore(self) -> None:
        former, in_real_time = self._former.pop()
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if in_real_time:
            loop_wakeup.end()

    def __repr__(self) -> str:
        return f"cancel_on_signals({', '.join(map(_name_of, self._numbers))})"


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name, and what is no signal neither
        return f"signal {number!r}"


def cancel_on_signals(*signals: int, clock: Clock | None = None) -> SignalBlock:
    """Return a ``with`` block that yields a token, which Ctrl-C or a SIGTERM cancels.

    The cause of the token is the name of the signal. In the block the signals do nothing else: a
    second Ctrl-C is ignored, as with Go's ``signal.NotifyContext``. The end of the block restores
    the previous handlers and does not cancel the token, which may be shared with any threads and
    event loops.

    CPython runs signal handlers in the main thread. An event loop that runs there notices a signal
    at once, if a coroutine in it waits for the token, or for anything else of this package. Where
    the main thread waits for a lock, such as in ``join()``, a signal that arrives in the few
    instructions before, or in another thread, is noticed when that wait ends.

    Args:
        *signals: Signal numbers. If none is given: SIGINT and SIGTERM.
        clock: The clock of the token. None means the current clock.

    Raises:
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
    return SignalBlock(signals or (signal.SIGINT, signal.SIGTERM), clock)
