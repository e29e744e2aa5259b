"""Waits for futures inside a virtual clock are waits on it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, _base
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from ._tracking import kernel_here, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(future: Future[Any], timeout: float | None = None) -> Any:  # noqa: ANN401
        kernel = None if future.done() else kernel_here()
        if kernel is None:
            return original(future, timeout)

        def register(call: Callable[[], object]) -> None:
            future.add_done_callback(lambda _: call())

        wait_until(kernel, f"Future.{original.__name__}()", register, timeout)
        return original(future, 0)

    return wait


class _Event:
    """The event on which ``wait()`` and ``as_completed()`` of futures wait, on the clock."""

    def __init__(self, *, reads_time: bool) -> None:
        self._reads_time = reads_time  # after a time-out, as `as_completed()` does
        self._is_set = False
        self._calls: list[Callable[[], object]] = []

    def set(self) -> None:
        self._is_set = True
        for call in self._calls:
            call()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        kernel = kernel_here()
        if not self._is_set and kernel is not None:
            came = wait_until(kernel, "futures.wait()", self._register, timeout)
            if not came and self._reads_time:
                _late.at = kernel.seconds
            self._calls.clear()
        return self._is_set

    def _register(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        if self._is_set:
            call()


def _creating(original: Callable[..., Any]) -> Callable[..., Any]:
    def create(waiter: Any) -> None:  # noqa: ANN401
        original(waiter)
        if kernel_here() is not None:
            waiter.event = _Event(reads_time=isinstance(waiter, _base._AsCompletedWaiter))

    return create


class _Late(threading.local):
    """When, on the clock, a wait of this thread for futures last ended by its time-out."""

    at: float | None = None


_late = _Late()


class _Time:
    """The module ``time`` as it is for futures: their time-outs are of the clock.

    ``as_completed()`` gives up only after its time has passed, so it is made to pass by a little.
    """

    @staticmethod
    def monotonic() -> float:
        kernel = kernel_here()
        if kernel is None:
            return time.monotonic()
        late, _late.at = _late.at, None
        return nextafter(kernel.seconds, inf) if late == kernel.seconds else kernel.seconds

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


FUTURE_PATCHES = [
    (Future, "result", _waiting),
    (Future, "exception", _waiting),
    (_base._Waiter, "__init__", _creating),
    (_base, "time", lambda _original: _Time()),
]
