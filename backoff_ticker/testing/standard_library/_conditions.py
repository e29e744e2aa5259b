"""Waits in ``threading.Condition``, which waits in ``queue`` and for futures are, too.

A thread that waits there waits for another thread, and the call that notifies it tells the clock
before it returns. So the clock needs no help in three cases:

- A wait for a future is one on the clock.
- With ``patch_time=True``, every wait of a participant is one on the clock.
- A wait without a timeout, of a thread that the code under test has started, is a wait for work:
  time goes on meanwhile, and the thread is queued again by whoever notifies it.

All other waits hold time still.
"""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import _base
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from ...clock import current_clocks
from .._kernel import kernel_here
from .._participants import State, real_waits, waiting_for_real
from .._thread_side import wait_until
from ._time_module import kernel_of_waits

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._kernel import Kernel


class _Notice:
    """Stands for the lock that ``notify()`` releases to end one wait.

    Attributes:
        over: Whether the wait was ended.
    """

    __slots__ = ("_wake", "over")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.over: bool = False
        self._wake = wake

    def release(self) -> None:
        """End the wait.

        Raises:
            RuntimeError: It was ended before.
        """
        if self.over:
            raise RuntimeError("a wait ends once")
        self._wake()  # again, by the next notify(), if this is interrupted
        self.over = True


def _wait_on_clock(
    kernel: Kernel,
    condition: Any,  # noqa: ANN401 - much of it is private
    what: str,
    timeout: float | None,
    *,
    for_work: bool,
) -> bool:
    """Do what ``Condition.wait()`` does, on the clock."""
    notices: list[_Notice] = []
    saved: list[Any] = []

    def register(wake: Callable[[], object]) -> None:
        notices.append(_Notice(wake))
        condition._waiters.extend(notices)
        saved.append(condition._release_save())

    try:
        woken = wait_until(kernel, what, register, timeout, for_work=for_work)
    finally:
        if saved:
            condition._acquire_restore(saved[0])
        for notice in notices:
            if not notice.over and notice in condition._waiters:
                condition._waiters.remove(notice)
    return woken or notices[0].over


def _future_call() -> str | None:
    """Return the function of ``concurrent.futures`` that waits here; None: another one does."""
    frame = sys._getframe(2)
    if frame.f_globals is vars(threading) and frame.f_back is not None:  # Event.wait()
        frame = frame.f_back
    return frame.f_code.co_name if frame.f_globals is vars(_base) else None


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(condition: Any, timeout: float | None = None) -> bool:  # noqa: ANN401
        limit = None if timeout is None or timeout >= threading.TIMEOUT_MAX else timeout
        kernel = kernel_here()
        if kernel is None or not condition._is_owned() or threading.get_ident() in waiting_for_real:
            return bool(original(condition, timeout))
        called = _future_call()
        if called is not None:
            what = f"Future.{called}()" if called in ("result", "exception") else "futures.wait()"
            came = _wait_on_clock(kernel, condition, what, limit, for_work=False)
            if not came and called == "as_completed":
                _late.at = kernel.participants.seconds
            return came
        on_clock = kernel_of_waits() is not None and (limit is None or limit > 0.0)
        here = kernel.by_ident.get(threading.get_ident()) if limit is None else None
        for_work = here is not None and here.state is State.RUNNING
        if on_clock or for_work:
            woken = _wait_on_clock(kernel, condition, "Condition.wait()", limit, for_work=for_work)
            if kernel.closed:  # a daemon thread that outlives the clock is on the system's
                current_clocks.pop(threading.get_ident(), None)
            return woken
        with real_waits():
            return bool(original(condition, timeout))

    return wait


class _Late(threading.local):
    """When a wait of this thread in ``as_completed()`` last timed out, in seconds of the clock."""

    at: float | None = None


_late = _Late()


class _Time:
    """The module ``time`` for futures: their timeouts are measured on the clock.

    ``as_completed()`` gives up only once its end is past, not at it. So the first reading after a
    wait that has timed out is the next float.
    """

    @staticmethod
    def monotonic() -> float:
        kernel = kernel_here()
        if kernel is None:
            return time.monotonic()
        late, _late.at = _late.at, None
        now = kernel.participants.seconds
        return nextafter(now, inf) if late == now else now

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


CONDITION_PATCHES = [
    (threading.Condition, "wait", _waiting),
    (_base, "time", lambda _original: _Time()),
]
