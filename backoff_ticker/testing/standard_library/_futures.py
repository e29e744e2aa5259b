"""Inside a virtual clock, waits for futures are waits on the clock."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, _base
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from .._kernel import kernel_here
from .._thread_side import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(future: Future[Any], timeout: float | None = None) -> Any:  # noqa: ANN401
        kernel = None if future.done() else kernel_here()
        if kernel is None:
            return original(future, timeout)

        def register(callback: Callable[[], object]) -> None:
            future.add_done_callback(lambda _: callback())

        wait_until(kernel, f"Future.{original.__name__}()", register, timeout)
        return original(future, 0)

    return wait


class _Event:
    """The event that ``futures.wait()`` and ``as_completed()`` wait for, on the clock."""

    def __init__(self, *, reads_time: bool) -> None:
        self._reads_time = reads_time  # `as_completed()` reads the time after a time-out
        self._is_set = False
        self._callbacks: list[Callable[[], object]] = []

    def set(self) -> None:
        self._is_set = True
        for callback in self._callbacks.copy():
            callback()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        kernel = kernel_here()
        if not self._is_set and kernel is not None:
            came = wait_until(kernel, "futures.wait()", self._register, timeout)
            if not came and self._reads_time:
                _late.at = kernel.parking.seconds
            self._callbacks.clear()
        return self._is_set

    def _register(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)
        if self._is_set:
            callback()


def _creating(original: Callable[..., Any]) -> Callable[..., Any]:
    def create(waiter: Any) -> None:  # noqa: ANN401
        original(waiter)
        if kernel_here() is not None:
            waiter.event = _Event(reads_time=isinstance(waiter, _base._AsCompletedWaiter))

    return create


class _Late(threading.local):
    """When a wait of this thread for futures last timed out, in seconds of the clock."""

    at: float | None = None


_late = _Late()


class _Time:
    """The module ``time`` for futures: their time-outs are measured on the clock.

    ``as_completed()`` gives up only once its end is past, not at it. So the first reading after a
    wait that has timed out is the next float.
    """

    @staticmethod
    def monotonic() -> float:
        kernel = kernel_here()
        if kernel is None:
            return time.monotonic()
        late, _late.at = _late.at, None
        now = kernel.parking.seconds
        return nextafter(now, inf) if late == now else now

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


FUTURE_PATCHES = [
    (Future, "result", _waiting),
    (Future, "exception", _waiting),
    (_base._Waiter, "__init__", _creating),
    (_base, "time", lambda _original: _Time()),
]
