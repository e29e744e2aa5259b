"""What signals do to this process, for a while: other than else, or nothing yet."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ALL = signal.valid_signals()


@contextmanager
def blocked(numbers: Iterable[int]) -> Iterator[set[int]]:
    """Keep signals pending while the block runs; give the mask that was before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield {*before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def acting(number: int, action: Callable[..., object] | signal.Handlers) -> Iterator[None]:
    """Have a signal do something else while the block runs, unless it is ignored.

    Raises:
        ValueError: It is not entered in the main thread.
    """
    before = signal.getsignal(number)
    if before is None or before is signal.SIG_IGN:  # None: it is not Python's to restore
        yield
        return
    signal.signal(number, action)
    try:
        yield
    finally:
        signal.signal(number, before)


def forget_handlers() -> None:
    """Give each signal that has a handler its default action; drop those that are pending."""
    for number in ALL:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_IGN)
            signal.signal(number, signal.SIG_DFL)
