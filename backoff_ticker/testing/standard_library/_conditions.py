"""Waits in ``threading.Condition``, which ``Queue``, ``Event`` and ``Semaphore`` wait in, too.

With ``patch_time=True``, such a wait of a participant is one on the clock. A helper thread does not
count during one without a time-out. All others hold time still.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .._thread_side import wait_until
from ._helpers import absence_here
from ._time_module import kernel_of_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_real: set[int] = set()
"""The identifiers of threads whose waits are for something that the clock does not know."""


@contextmanager
def real_waits() -> Iterator[None]:
    """Leave the waits of this thread as they are, inside the block."""
    ident = threading.get_ident()
    _real.add(ident)
    try:
        yield
    finally:
        _real.discard(ident)


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


def _wait(condition: Any, block: Callable[[Callable[[Any], None]], object]) -> bool:  # noqa: ANN401 - much of it is private
    """Do what ``Condition.wait()`` does, but ``block(register)`` is what waits."""
    notices: list[_Notice] = []
    saved: list[Any] = []

    def register(wake: Callable[[], object]) -> None:
        notices.append(_Notice(wake))
        condition._waiters.extend(notices)
        saved.append(condition._release_save())

    try:
        woken = block(register)
    finally:
        if saved:
            condition._acquire_restore(saved[0])
        for notice in notices:
            if not notice.over and notice in condition._waiters:
                condition._waiters.remove(notice)
    return woken is not False or notices[0].over


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(condition: Any, timeout: float | None = None) -> bool:  # noqa: ANN401
        limit = None if timeout is None or timeout >= threading.TIMEOUT_MAX else timeout
        if (
            (limit is None or limit > 0)
            and condition._is_owned()
            and threading.get_ident() not in _real
        ):
            absence = absence_here() if limit is None else None
            if absence is not None:
                return _wait(condition, absence.wait)
            kernel = kernel_of_waits()
            if kernel is not None:
                return _wait(
                    condition, partial(wait_until, kernel, "Condition.wait()", timeout=limit)
                )
        return bool(original(condition, timeout))

    return wait


CONDITION_PATCHES = [
    (threading.Condition, "wait", _waiting),
]
