"""``cancel_on_signals``: a token that signals cancel."""

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

    While the block runs, these signals do nothing else: a second Ctrl-C is ignored, as with Go's
    ``signal.NotifyContext``. Leaving the block restores the former handlers and does not cancel
    the token, which may be shared with any threads and event loops.

    CPython runs handlers in the main thread between two instructions. If the signal arrives in the
    few instructions before the main thread begins to wait on a lock, the handler runs when that
    wait ends.

    Args:
        *signals: Signal numbers; if none are given, SIGINT and SIGTERM.
        clock: The clock of the token; None: the current clock.

    Raises:
        RuntimeError: It is not entered in the main thread.
        TypeError, ValueError, OSError: An argument is not a signal that can be handled.

    Example:
        >>> import signal
        >>> from backoff_ticker import cancel_on_signals
        >>> with cancel_on_signals() as token:
        ...     signal.raise_signal(signal.SIGINT)
        ...     token.cause
        'SIGINT'
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("cancel_on_signals() must be entered in the main thread")
    numbers = dict.fromkeys(signals or (signal.SIGINT, signal.SIGTERM))
    token = CancellationToken(clock=clock)

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
