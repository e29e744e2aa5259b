"""Signals that cancel: a token that lives as long as a ``with`` block."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager

from ._token import CancellationToken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..clock import Clock


@contextmanager
def cancel_on_signals(*signals: int, clock: Clock | None = None) -> Iterator[CancellationToken]:
    """Yield a token that the first of ``signals`` cancels, with the signal's name as its cause.

    While the block runs, these signals do nothing else: a second Ctrl-C is taken too, as with Go's
    ``signal.NotifyContext``. Leaving it restores the handlers that were there and leaves the
    token as it is.

    The token may be shared with any threads and event loops. CPython runs handlers in the main
    thread between two instructions; should the signal arrive in the few before the main thread
    begins to wait on a lock, the handler runs when that wait ends.

    Args:
        *signals: Which signals; none given: SIGINT and SIGTERM.
        clock: The clock of the token; None: the current clock.

    Raises:
        RuntimeError: It is not entered in the main thread.
        TypeError, ValueError, OSError: Not the number of a signal that can be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("cancel_on_signals() must be entered in the main thread")
    numbers = dict.fromkeys(signals or (signal.SIGINT, signal.SIGTERM))
    token = CancellationToken(clock)

    def handle(number: int, frame: object) -> None:  # noqa: ARG001 - the interpreter's signature
        try:
            token.cancel(signal.Signals(number).name)
        except ValueError:  # a real-time signal has no name
            token.cancel(f"signal {number}")

    before = {}
    try:
        for number in numbers:
            before[number] = signal.signal(number, handle)
        yield token
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
