"""An event loop as a participant: it is parked exactly while its ``select()`` may block."""

from __future__ import annotations

import asyncio
from asyncio import selector_events
from contextlib import contextmanager
from math import ulp
from typing import TYPE_CHECKING, Any

from ..clock import SystemClock
from ._driven_timers import DrivenTimer, DrivenTimers
from ._errors import (
    ClockUsageError,
    SettleTimeout,
    UntrackedLoopError,
    Unwind,
    VirtualDeadlockError,
    VirtualTimeError,
)
from ._parker import wait_for_turn
from ._reports import at
from ._tracking import counted
from ._turns import POLLS_A_TURN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..clock import TimerHandle
    from ._kernel import Kernel
    from ._participant import Participant

HOW_TO_DRIVE = "run the code on clock.new_event_loop(), or begin the loop inside `with clock:`"
"""What to do about a loop that a clock does not drive."""

_DRIVER = "_backoff_ticker_driver"
_RESOLUTION = 1e-9
"""Seconds between two times that a loop with a time of its own is to tell apart."""


class LoopDriver:
    """Drives one event loop by one clock, in place of its selector.

    Attributes:
        kernel: Of that clock.
        timers: Those of the loop.
    """

    def __init__(self, kernel: Kernel, loop: Any) -> None:  # noqa: ANN401 - much of it is private
        self.kernel: Kernel = kernel
        self._loop = loop
        self._participant: Participant | None = None
        self._selector = loop._selector
        self._write_to_self = loop._write_to_self
        # A loop that has timers already goes on from its own time.
        ahead = loop.time() - kernel.seconds if loop._scheduled else 0.0
        self.timers: DrivenTimers = DrivenTimers(loop, ahead, kernel.next_order)
        self._polls = 0
        self._polls_since = 0.0
        self._own_resolution = loop._clock_resolution
        setattr(loop, _DRIVER, self)
        loop._selector = self
        loop._write_to_self = self._wake
        loop.call_at = self.timers.noting(loop.call_at)
        loop.time = self._reading()
        self._set_resolution()
        kernel.loop_drivers[:] = [one for one in kernel.loop_drivers if not one.closed]
        kernel.loop_drivers.append(self)

    def detach(self) -> None:
        """Give the loop back its own time, going on from here."""
        loop = self._loop
        passed = loop.time()
        loop._selector = self._selector
        loop._clock_resolution = self._own_resolution
        for name in ("_write_to_self", "call_at", "time", _DRIVER):
            vars(loop).pop(name, None)
        if loop._scheduled and not loop.is_closed():
            own, ahead = loop.time, passed - loop.time()
            loop.time = lambda: own() + ahead

    # What the loop calls

    def _reading(self) -> Callable[[], float]:
        """Return what reads the time: called for each timer, so it looks up little."""
        kernel, ahead = self.kernel, self.timers.ahead
        return (lambda: kernel.seconds + ahead) if ahead else (lambda: kernel.seconds)

    def _wake(self) -> None:
        participant = self._participant
        if participant is None:
            self._write_to_self()
        else:
            self.kernel.post(self.kernel.wake_loop, participant)

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready; while nothing is, the participant is parked."""
        participant = self._participant
        if participant is None:
            return self._selector.select(timeout)  # type: ignore[no-any-return]
        loop = self._loop
        alone = len(self._selector.get_map()) <= 1 and not getattr(loop, "_signal_handlers", None)
        events: list[Any] = [] if alone else self._selector.select(0)
        if events or (timeout is not None and timeout <= 0.0):
            self._set_resolution()  # time may have gone on while the loop did not run, or was held
            self._polls = 0 if events else self._polls + 1
            if self._polls % POLLS_A_TURN == 1:
                self._share(participant)
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
            kernel.post(kernel.park, participant, None, when, order, "event loop")
            if not alone:
                events.extend(self._selector.select(None))
                if participant.turn.locked():
                    kernel.post(kernel.wake_loop, participant)

        try:
            wait_for_turn(kernel, participant, begin)
        except (VirtualDeadlockError, ClockUsageError) as error:
            if not self._raise_in_tasks(error):
                raise
        except Unwind as error:
            if kernel.closing:
                raise
            raise VirtualDeadlockError(*error.args) from None  # its tasks were told often enough
        finally:
            participant.break_select = participant.has_news = None
        self._set_resolution()
        return events

    def _set_resolution(self) -> None:
        """Let the loop's timers fire at their own time; one that is ahead is rounded twice."""
        step = ulp(self._loop.time())
        self._loop._clock_resolution = max(_RESOLUTION, 4.0 * step) if self.timers.ahead else step

    def _share(self, participant: Participant) -> None:
        """Let others run: this loop has something to do again and again, and never waits.

        Raises:
            SettleTimeout: It has done so for too long, in real time, to wait for anything real.
        """
        kernel = self.kernel
        now = SystemClock().monotonic()
        if self._polls == 1:
            self._polls_since = now
            return
        if now - self._polls_since >= kernel.patience.timeout:
            self._polls = 0
            raise SettleTimeout(f"{at(kernel)}: an event loop never waits: {participant.name}")
        kernel.post(kernel.yield_turn, participant)
        wait_for_turn(kernel, participant)

    def pending(self) -> list[tuple[float, str, str]]:
        """Return when the timers of the loop are due, what they call, and in whose loop."""
        participant = self._participant
        if participant is None:
            return []
        return [(*timer, participant.name) for timer in self.timers.pending()]

    @property
    def participant(self) -> Participant | None:
        """Who the loop is, while it runs."""
        return self._participant

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks of the loop that are not done, as they were made."""
        return sorted(asyncio.all_tasks(self._loop), key=lambda task: task.get_name())

    @property
    def closed(self) -> bool:
        """Whether the loop is."""
        return bool(self._loop.is_closed())

    def _raise_in_tasks(self, error: VirtualTimeError) -> bool:
        """Raise an error where the tasks of the loop wait; False if there is no such place."""
        found = False
        for task in asyncio.all_tasks(self._loop):
            future = getattr(task, "_fut_waiter", None)
            shared = len(getattr(future, "_callbacks", None) or ()) > 1  # by who minds an error
            if type(future) is asyncio.Future and not future.done() and not shared:
                future.set_exception(type(error)(*error.args))
                found = True
        return found

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the rest of a selector
        return getattr(self._selector, name)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be a participant while the loop runs in this thread."""
        kernel = self.kernel
        participant = kernel.here("an event loop")
        with counted(kernel, participant):
            self._participant = participant
            try:
                yield
            finally:
                self._participant = None


def loop_timer(
    loop: asyncio.AbstractEventLoop, when: float, callback: Callable[[], object]
) -> TimerHandle:
    """Have ``callback()`` called in a loop that a clock drives, at ``when`` on that clock."""
    driver = _found_driver(loop)
    assert driver is not None  # noqa: S101 - the caller has asked for its kernel
    return DrivenTimer(loop, driver.timers.ahead, when, callback)


def _found_driver(loop: object) -> LoopDriver | None:
    """Return what drives a loop by a clock, if anything does."""
    driver = getattr(loop, "__dict__", {}).get(_DRIVER)
    return driver if isinstance(driver, LoopDriver) else None


def loop_kernel(loop: object) -> Kernel | None:
    """Return the kernel of the clock that drives a loop."""
    driver = _found_driver(loop)
    return None if driver is None else driver.kernel


def driver_of(loop: Any, kernel: Kernel) -> LoopDriver:  # noqa: ANN401
    """Return what drives a loop by a clock from now on.

    Raises:
        UntrackedLoopError: It is of a kind that cannot be driven.
    """
    driver = _found_driver(loop)
    if driver is not None:
        if driver.kernel is kernel:
            return driver
        driver.detach()
    if not isinstance(loop, selector_events.BaseSelectorEventLoop):
        raise UntrackedLoopError(
            f"a virtual clock cannot drive {loop!r}: run the code on clock.new_event_loop()"
        )
    return LoopDriver(kernel, loop)
