"""Who takes part in a virtual clock, and who does not count for a while."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar, TypeVarTuple

from ._clock_base import ClockBase, check_callable
from ._loops import VirtualLoop
from ._parker import wait_for_turn
from ._participant import Participant, State
from ._tasks import Task, start_task
from ._tracking import attached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Unpack

P = ParamSpec("P")
T = TypeVar("T")
Args = TypeVarTuple("Args")


class Participants(ClockBase):
    """Threads and loops that time waits for."""

    _spawned: int

    def spawn(
        self, function: Callable[[Unpack[Args]], T], *args: *Args, name: str | None = None
    ) -> Task[T]:
        """Start a function in a thread that is tracked; it counts from now on.

        It runs in a copy of this ``contextvars`` context, with this clock as the current one, in a
        daemon thread. What it raises is raised by ``join()`` and ``result()`` of the task; where
        nobody calls these, as the clock is closed.

        Args:
            function: What to call, with ``args``.
            args: Its arguments.
            name: Names it in reports; None: that of the function, with a number.

        Raises:
            TypeError: ``function`` is not callable.
            ClockUsageError: The clock is closed.
        """
        check_callable("function", function)
        self._refuse_if_closed("spawn()")
        self._spawned += 1
        if name is None:
            name = f"{getattr(function, '__name__', 'task')}-{self._spawned}"
        task = Task(self._kernel, lambda: function(*args), name)
        start_task(task)
        return task

    def tracked(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return what a thread of any pool can call instead of ``function``, as a participant.

        Time stands still from now on until the first call begins, so it must be called, within
        ``settle_timeout`` real seconds of a step.
        """
        check_callable("function", function)
        self._refuse_if_closed("tracked()")
        kernel = self._kernel
        name = getattr(function, "__name__", "tracked")
        key = object()
        kernel.watch.begin()
        kernel.post(kernel.promise, key, name)

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if self._counted_here() is not None or kernel.fires_here:
                kernel.post(kernel.keep, key)
                return function(*args, **kwargs)
            participant = Participant(name)
            kernel.enter_new(participant)
            kernel.post(kernel.keep, key)
            with attached(kernel, participant):
                return function(*args, **kwargs)

        return call

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop on this clock's time, such as for ``asyncio.Runner(loop_factory=...)``.

        Raises:
            ClockUsageError: The clock is closed.
        """
        self._refuse_if_closed("new_event_loop()")
        return VirtualLoop(self._kernel)

    @contextmanager
    def external(self, why: str) -> Iterator[None]:
        """Hold time still inside the block, which waits for something real: a socket, a process.

        Other participants run meanwhile. ``why`` stands in reports. Whoever waits for the clock
        gives up after 60 seconds of real time, or ``settle_timeout`` if that is longer.

        Raises:
            ClockUsageError: It is called in the callback of a timer.
        """
        kernel = self._kernel
        kernel.refuse_in_callback("external()")
        key = object()
        kernel.post(kernel.hold, key, why)
        participant = self._counted_here()
        if participant is not None and asyncio._get_running_loop() is not None:
            participant = None  # the loop goes on, and waits where it always does
        try:
            with self._away(participant, why):
                yield
        finally:
            kernel.post(kernel.release, key)

    @contextmanager
    def idle(self, why: str) -> Iterator[None]:
        """Do not count this thread inside the block, which waits for what no clock knows.

        Such as an item of a ``queue.Queue``. Time may pass meanwhile. Where the system tells
        whether a thread is asleep (Linux), time does not pass before it has what was there.

        Raises:
            ClockUsageError: An event loop runs in this thread: its waits are not blocking ones; or
                it is called in the callback of a timer.
        """
        self._kernel.refuse_in_callback("idle()")
        self._refuse_in_loop("idle()", "external()")
        with self._away(self._counted_here(), why):
            yield

    @contextmanager
    def _away(self, participant: Participant | None, why: str) -> Iterator[None]:
        """Do not let a participant have its turn inside the block."""
        if participant is None or participant.state is State.AWAY:
            yield
            return
        kernel = self._kernel
        kernel.post(kernel.pause, participant, State.AWAY, why)
        try:
            yield
        finally:
            kernel.post(kernel.resume, participant)
            wait_for_turn(kernel, participant)
