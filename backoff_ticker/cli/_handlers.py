"""Signals as callbacks of the event loop that runs.

The loop hears of a signal through a descriptor that the interpreter writes to as the signal
arrives. So none is lost and none comes late, wherever the main thread is; a handler that ends a
wait on a lock could come just before that wait.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@contextmanager
def handling(callbacks: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Have each signal call back in the loop while the block runs.

    Signals that are ignored on entering stay ignored, as ``nohup`` wants it; but not SIGCHLD,
    nor is that left blocked: no end of a child would be heard.

    Raises:
        RuntimeError, ValueError: It is not entered in the main thread.
    """
    loop = asyncio.get_running_loop()
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD} & callbacks.keys())
    before = {}
    try:
        for number, callback in callbacks.items():
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN or number == signal.SIGCHLD:
                before[number] = handler
                loop.add_signal_handler(number, callback)
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
