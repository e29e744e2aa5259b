"""Helper threads of other packages do not hold time up while they wait for something to do.

A helper is a thread that the standard library or an installed package has started. It does not
count while it waits in a ``Condition`` without a time-out, as ``Queue.get()`` and ``Event.wait()``
do. The call that notifies it counts it again before it returns, so time never moves past work that
was handed over.

The thread that manages a ``ProcessPoolExecutor`` waits for pipes instead. It does not count
meanwhile; time stands still from the submit of a job until its future is done.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from .._kernel import kernel_here
from ..liveness._reports import name_of
from ..participants._participant import State

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from .._kernel import Kernel
    from ..participants._participant import Participant

_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.path.abspath(os.__file__)), "")  # noqa: PTH100, PTH118, PTH120 - a prefix of names
_PACKAGE = __file__.partition(f"{os.sep}testing{os.sep}")[0] + os.sep
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def is_of_others(frame: FrameType) -> bool:
    """Whether a frame runs code of the standard library or of an installed package.

    The threads of this package run operations of the user, so they are none of others.
    """
    path = frame.f_code.co_filename
    if path.startswith(_PACKAGE):
        return False
    return path.startswith(_STANDARD_LIBRARY) or any(part in path for part in _INSTALLED)


class Absence:
    """One wait during which a helper does not count."""

    def __init__(self, kernel: Kernel, participant: Participant) -> None:
        self._kernel = kernel
        self._participant = participant
        self._began = self._ended = False

    def begin(self) -> None:
        """Stop counting this thread, unless the wait is over already."""
        self._kernel.post(self._leave)

    def end(self) -> None:
        """Count the helper again; from any thread, once."""
        self._ended = True
        self._kernel.post(self._return)

    def take_turn(self) -> None:
        """Block this thread until the wait has ended and its turn has come."""
        self._participant.turn.acquire()

    def wait(self, register: Callable[[Callable[[], object]], object]) -> None:
        """Do not count this thread until the callback is called that ``register`` registers."""
        register(self.end)
        self.begin()
        self.take_turn()

    # Commands: whichever of the two runs second sees what the first has done.

    def _leave(self) -> None:
        if self._ended and not self._began:
            self._kernel.run_queue.let_go_on(self._participant)
        else:
            self._began = True
            self._kernel.run_queue.leave(self._participant)

    def _return(self) -> None:
        if not self._began:
            return
        if self._kernel.parking.closing:
            self._kernel.run_queue.let_go_on(self._participant)  # its turn might never come
        else:
            self._kernel.run_queue.enter(self._participant)


def absence_here() -> Absence | None:
    """Return a wait that has not begun, if this thread is a helper that counts."""
    kernel = kernel_here()
    participant = None if kernel is None else kernel.member_here()
    if kernel is None or participant is None or not participant.helper:
        return None
    return Absence(kernel, participant) if participant.state is State.RUNNING else None


# Patches


def _waiting_for_pipes(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(objects: Any, timeout: float | None = None) -> list[Any]:  # noqa: ANN401
        absence = absence_here() if timeout is None else None
        if absence is None:
            return list(original(objects, timeout))
        absence.begin()
        try:
            return list(original(objects))
        finally:
            absence.end()
            absence.take_turn()

    return wait


def _submitting(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(
        executor: ProcessPoolExecutor,
        function: Callable[..., Any],
        /,
        *args: object,
        **kwargs: object,
    ) -> Future[Any]:
        kernel = kernel_here()
        if kernel is None:
            future: Future[Any] = original(executor, function, *args, **kwargs)
            return future
        key = object()
        try:
            kernel.post(kernel.freeze_time, key, f"{name_of(function)} in a process pool")
            future = original(executor, function, *args, **kwargs)
        except BaseException:
            kernel.post(kernel.unfreeze_time, key)
            raise
        future.add_done_callback(lambda _: kernel.post(kernel.unfreeze_time, key))
        return future

    return submit


def _shutting_down(original: Callable[..., Any]) -> Callable[..., Any]:
    def shutdown(
        executor: ProcessPoolExecutor,
        wait: bool = True,  # noqa: FBT001, FBT002 - as in the standard library
        *,
        cancel_futures: bool = False,
    ) -> None:
        kernel = kernel_here()
        key = object()
        try:
            if kernel is not None:
                kernel.post(kernel.freeze_time, key, "the end of a process pool")
            original(executor, wait, cancel_futures=cancel_futures)
        finally:
            if kernel is not None:
                kernel.post(kernel.unfreeze_time, key)

    return shutdown


HELPER_PATCHES = [
    (connection, "wait", _waiting_for_pipes),
    (ProcessPoolExecutor, "submit", _submitting),
    (ProcessPoolExecutor, "shutdown", _shutting_down),
]
