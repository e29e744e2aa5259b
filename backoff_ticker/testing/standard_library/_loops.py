"""Event loops that are made or run inside a virtual clock are its participants.

A loop is parked exactly while its ``select()`` may block.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events, selector_events
from contextlib import contextmanager, nullcontext
from math import ulp
from typing import TYPE_CHECKING, Any

from ...clock import SystemClock
from .._errors import (
    ClockUsageError,
    ParticipantAborted,
    SettleTimeout,
    UntrackedLoopError,
    VirtualDeadlockError,
    VirtualTimeError,
)
from .._kernel import kernel_here
from .._participants import POLLS_PER_TURN, Participant
from .._reports import never_waits
from .._thread_side import counted, wait_for_turn
from ._loop_timers import LoopTimer, LoopTimers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...clock import TimerHandle
    from .._kernel import Kernel
    from ._patches import Patch

HOW_TO_DRIVE = "run the code on clock.new_event_loop(), or begin the loop inside `with clock:`"
"""Advice for loops that a clock does not drive."""

_DRIVER = "_backoff_ticker_driver"


class LoopDriver:
    """Drives one event loop by one clock, in place of the loop's selector.

    Attributes:
        kernel: The kernel of the clock.
        timers: The timers of the loop.
        participant: The participant that the loop is, while it runs.
    """

    def __init__(self, kernel: Kernel, loop: Any) -> None:  # noqa: ANN401 - much of it is private
        self.kernel: Kernel = kernel
        self._loop = loop
        self.participant: Participant | None = None
        self._selector = loop._selector
        self._write_to_self = loop._write_to_self
        self.timers: LoopTimers = LoopTimers(loop, kernel.participants.next_order)
        self._holders: dict[object, str] = {}
        self._polls = 0
        self._polls_since = 0.0
        self._own_resolution = loop._clock_resolution
        self.timers.move(kernel.participants.seconds - loop.time())
        setattr(loop, _DRIVER, self)
        loop._selector = self
        loop._write_to_self = self._wake
        loop.run_forever = self._run_forever
        loop.call_at = self.timers.call_at
        loop.time = lambda: kernel.participants.seconds
        self._set_resolution()
        kernel.post(kernel.add_loop, self)

    def detach(self) -> None:
        """Give the loop its own time back, continuing from the clock's."""
        loop = self._loop
        now = loop.time()
        loop._selector = self._selector
        loop._clock_resolution = self._own_resolution
        for name in ("_write_to_self", "run_forever", "call_at", "time", _DRIVER):
            vars(loop).pop(name, None)
        self.timers.move(loop.time() - now)

    # Called by the loop in place of its own attributes

    def _run_forever(self) -> None:
        with nullcontext() if self.kernel.closed else self._running():
            type(self._loop).run_forever(self._loop)

    def _wake(self) -> None:
        participant = self.participant
        if participant is None:
            self._write_to_self()
        else:
            self.kernel.post(self.kernel.participants.wake_loop, participant)

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return the events that are ready; park the participant until there are any."""
        participant = self.participant
        if participant is None:
            return self._selector.select(timeout)  # type: ignore[no-any-return]
        loop = self._loop
        # A loop without descriptors of its own and without signals needs no real selector: it only
        # waits for its turn, which saves two system calls per wait.
        alone = len(self._selector.get_map()) <= 1 and not getattr(loop, "_signal_handlers", None)
        events: list[Any] = [] if alone else self._selector.select(0)
        if events or (timeout is not None and timeout <= 0.0):
            self._set_resolution()  # time may have moved while the loop did not run
            self._polls = 0 if events else self._polls + 1
            if self._polls % POLLS_PER_TURN == 1:
                self._yield_turn(participant)
            return events
        self._polls = 0
        when, order = self.timers.next()
        return self._park(participant, when, order, alone=alone)

    def _park(
        self, participant: Participant, when: float | None, order: int | None, *, alone: bool
    ) -> list[Any]:
        kernel = self.kernel
        events: list[Any] = []
        if not alone:
            participant.break_select = self._write_to_self
            participant.has_news = lambda: self._selector.select(0)

        def begin() -> None:
            kernel.post(kernel.participants.park, participant, None, when, order)
            if not alone:
                # It blocks here until a descriptor is ready, or until break_select() is called.
                # In the first case it has no turn yet and asks for one.
                events.extend(self._selector.select(None))
                if participant.turn.locked():
                    kernel.post(kernel.participants.wake_loop, participant)

        try:
            wait_for_turn(kernel, participant, begin)
        except (VirtualDeadlockError, ClockUsageError) as error:
            if not self._raise_in_tasks(error):
                raise
        except ParticipantAborted as error:
            if kernel.participants.closing:
                raise
            raise VirtualDeadlockError(*error.args) from None  # its tasks caught every error
        finally:
            participant.break_select = participant.has_news = None
        self._set_resolution()
        return events

    def _set_resolution(self) -> None:
        """Make the loop's timers fire at exactly their own time."""
        self._loop._clock_resolution = ulp(self._loop.time())

    def _yield_turn(self, participant: Participant) -> None:
        """Let others run, although this loop always has something to do and never waits.

        Raises:
            SettleTimeout: It has done so for longer than the settle timeout.
        """
        kernel = self.kernel
        now = SystemClock().monotonic()
        if self._polls == 1:
            self._polls_since = now
            return
        if now - self._polls_since >= kernel.settle_timer.seconds:
            self._polls = 0
            raise SettleTimeout(never_waits(kernel.participants.now, participant))
        wait_for_turn(
            kernel, participant, lambda: kernel.post(kernel.participants.yield_turn, participant)
        )

    def pending(self) -> list[tuple[float, str, str]]:
        """Return when the timers are due, what they call, and the name of the participant."""
        participant = self.participant
        if participant is None:
            return []
        return [(*timer, participant.name) for timer in self.timers.pending()]

    def _tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks of the loop that are not done, in the order of their names."""
        return sorted(asyncio.all_tasks(self._loop), key=lambda task: task.get_name())

    @property
    def closed(self) -> bool:
        """Whether the loop is closed."""
        return bool(self._loop.is_closed())

    def _raise_in_tasks(self, error: VirtualTimeError) -> bool:
        """Raise an error in the tasks of the loop that wait; return whether there are any."""
        found = False
        for task in asyncio.all_tasks(self._loop):
            future = getattr(task, "_fut_waiter", None)
            # A future with other callbacks, such as of a shield(), would report the error again.
            shared = len(getattr(future, "_callbacks", None) or ()) > 1
            if type(future) is asyncio.Future and not future.done() and not shared:
                future.set_exception(type(error)(*error.args))
                found = True
        return found

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest of a selector
        return getattr(self._selector, name)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Make this thread a participant while the loop runs in it."""
        kernel = self.kernel
        participant = kernel.participant_here("an event loop")
        with counted(kernel, participant):
            self.participant = participant
            participant.loop_tasks = self._tasks
            try:
                for holder, what in self._holders.items():
                    kernel.post(kernel.hold_time, holder, what)
                yield
            finally:
                self.participant = participant.loop_tasks = None
                for holder in self._holders:
                    kernel.post(kernel.release_time, holder)

    def hold_time(self, holder: object, what: str) -> None:
        """Stop time while the loop runs, until ``release_time(holder)``."""
        self._holders[holder] = what
        if self.participant is not None:
            self.kernel.post(self.kernel.hold_time, holder, what)

    def release_time(self, holder: object) -> None:
        """Undo ``hold_time(holder)``."""
        self._holders.pop(holder, None)
        self.kernel.post(self.kernel.release_time, holder)


def loop_timer(
    loop: asyncio.AbstractEventLoop, when: float, callback: Callable[[], object]
) -> TimerHandle:
    """Call ``callback()`` in a loop that a clock drives, at ``when`` on that clock."""
    driver = found_driver(loop)
    assert driver is not None  # noqa: S101 - the caller knows its kernel
    return LoopTimer(loop, when, callback)


def found_driver(loop: object) -> LoopDriver | None:
    """Return the driver of a loop, if a clock drives it."""
    driver = getattr(loop, "__dict__", {}).get(_DRIVER)
    return driver if isinstance(driver, LoopDriver) else None


def loop_kernel(loop: object) -> Kernel | None:
    """Return the kernel of the clock that drives a loop; None: the loop has real time."""
    driver = found_driver(loop)
    return None if driver is None else driver.kernel


def driver_of(loop: Any, kernel: Kernel) -> LoopDriver:  # noqa: ANN401
    """Return the driver of a loop; the kernel's clock drives the loop from now on.

    Raises:
        UntrackedLoopError: The loop has no selector, or is not one of asyncio's own.
    """
    driver = found_driver(loop)
    if driver is not None:
        if driver.kernel is kernel:
            return driver
        driver.detach()
    if not isinstance(loop, selector_events.BaseSelectorEventLoop):
        raise UntrackedLoopError(
            f"a virtual clock drives asyncio's own loops with a selector, not {loop!r}: run the "
            "code with asyncio.run(), or on clock.new_event_loop()"
        )
    return LoopDriver(kernel, loop)


# Patches


def _running_forever(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_forever(loop: Any) -> None:  # noqa: ANN401
        kernel = kernel_here()
        if kernel is None or found_driver(loop) is not None:
            original(loop)
        else:
            driver_of(loop, kernel)
            loop.run_forever()

    return run_forever


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(loop: Any, /, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(loop, *args, **kwargs)
        kernel = kernel_here()
        if kernel is not None:
            driver_of(loop, kernel)

    return make


LOOP_PATCHES = [
    (base_events.BaseEventLoop, "run_forever", _running_forever),
    (selector_events.BaseSelectorEventLoop, "__init__", _making),
]


# Loops that are not asyncio's, such as uvloop's, are refused where they run


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(loop: object, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        kernel = kernel_here()
        if kernel is not None and kernel.strict:
            driver_of(loop, kernel)
        return original(loop, *args, **kwargs)

    return run


def foreign_loop_patches(apply: Callable[[Patch], None]) -> list[Patch]:
    """Return the patches of all classes of such loops.

    Args:
        apply: Applies those of a class that is defined later.
    """

    def patches_of(loop_class: type) -> list[Patch]:
        if issubclass(loop_class, asyncio.BaseEventLoop):
            return []
        return [(loop_class, name, _refusing) for name in ("run_forever", "run_until_complete")]

    def subclassing(_original: object) -> Any:  # noqa: ANN401
        def init_subclass(subclass: type, /, **kwargs: Any) -> None:  # noqa: ANN401
            super(asyncio.AbstractEventLoop, subclass).__init_subclass__(**kwargs)  # type: ignore[misc]
            for patch in patches_of(subclass):
                apply(patch)

        return classmethod(init_subclass)

    known = asyncio.AbstractEventLoop.__subclasses__()
    patches: list[Patch] = [patch for loop_class in known for patch in patches_of(loop_class)]
    return [(asyncio.AbstractEventLoop, "__init_subclass__", subclassing), *patches]
