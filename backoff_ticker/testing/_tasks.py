"""A function in a thread that a virtual clock tracks, and its outcome."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from .._validation import as_seconds
from ._errors import ParticipantAborted, VirtualTimeError
from ._participants import State
from ._thread_side import wait_for_end
from .standard_library._threads import start_participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._kernel import Kernel

T = TypeVar("T")


class Task(Generic[T]):
    """A function that runs in a thread of its own, as ``clock.spawn()`` returns it.

    Thread safety: every method may be called in any thread of the clock. ``name`` is that in
    reports.

    Example:
        >>> from backoff_ticker.testing import VirtualClock
        >>> with VirtualClock(auto=True) as clock:
        ...     task = clock.spawn(lambda: clock.sleep(5) or "slept")
        ...     print(task.result(), clock.monotonic())
        slept 5.0
    """

    def __init__(self, kernel: Kernel, work: Callable[[], T], name: str) -> None:
        self.name: str = name
        self._kernel = kernel
        self._result: T | None = None
        self._error: BaseException | None = None
        self._joined = False
        run = copy_context().run
        thread = threading.Thread(target=run, args=(self._run, work), name=name, daemon=True)
        self._participant = start_participant(kernel, thread, is_task=True)

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._result = work()
        except BaseException as error:  # join() raises it
            self._error = error
            if not isinstance(error, (ParticipantAborted, VirtualTimeError, SystemExit)):
                self._kernel.unretrieved.append(self._unretrieved_error)

    def _unretrieved_error(self) -> BaseException | None:
        """Return the error of the function, if no caller has received it."""
        if self._joined or self._error is None:
            return None
        self._joined = True
        self._error.add_note(f"in task {self.name!r}, which nobody joined")
        return self._error

    def done(self) -> bool:
        """Whether the function has ended."""
        return self._participant.state is State.ENDED

    def join(self, timeout: float | None = None) -> None:
        """Wait on the clock until the function has ended, at most ``timeout`` seconds of the clock.

        In a thread that moves the clock by hand, a wait with a timeout ends as soon as nothing can
        happen without that thread; one without is a ``ClockUsageError``.

        Raises:
            TimeoutError: The function has not ended in time. It goes on.
            BaseException: The function raised it.
        """
        if timeout is not None:
            timeout = as_seconds("timeout", timeout)
        what = f"Task.join({self.name})"
        if not self.done() and not wait_for_end(self._kernel, self._participant, what, timeout):
            raise TimeoutError(f"task {self.name!r} has not ended within {timeout!r} s")
        self._joined = True
        error = self._error
        if error is not None and not isinstance(error, ParticipantAborted):
            raise error

    def result(self, timeout: float | None = None) -> T:
        """Wait as ``join()`` does, and return the result of the function."""
        self.join(timeout)
        return cast("T", self._result)

    def __repr__(self) -> str:
        return f"<Task {self.name!r} {self._participant.state.value}>"
