"""Event loops that are made or run inside a virtual clock are its participants.

A loop is parked exactly while its ``select()`` may block. Time stands still while a process runs
that a loop has started.

TCP sockets send at once. The system may hold back the end of a message until the peer has
acknowledged what came before (Nagle's algorithm), which a peer may put off for 40 ms. Nobody in the
process has anything to do meanwhile, so virtual time would move.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import base_events, selector_events
from asyncio.base_subprocess import BaseSubprocessTransport
from contextlib import suppress
from math import inf, isfinite, ulp
from typing import TYPE_CHECKING, Any

from ...clock import PendingCall, SystemClock
from .._errors import (
    ClockUsageError,
    ParticipantAborted,
    SettleTimeout,
    UntrackedLoopError,
    VirtualDeadlockError,
    VirtualTimeError,
)
from .._kernel import Kernel, kernel_here
from .._participants import POLLS_PER_TURN, ParkingPlace, Participant
from .._reports import at, called_object, name_of, on_another_clock
from .._thread_side import counted, wait_for_turn
from .._timers import in_seconds
from ._patches import around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._patches import Original, Patch

HOW_TO_DRIVE = "run the code on clock.new_event_loop(), or begin the loop inside `with clock:`"
_DRIVER = "_backoff_ticker_driver"


class LoopTimer(PendingCall):
    """The handle of ``clock.call_at(..., loop=loop)`` for a loop that runs on the clock."""

    __slots__ = ("_handle", "_loop", "what")

    def __init__(self, loop: Any, when: float, callback: Callable[[], object]) -> None:
        super().__init__(when, callback)
        self.what: object = name_of(callback)
        self._loop = loop
        self._handle = loop.call_at(when, self.fire)

    def cancel(self) -> bool:
        prevented = super().cancel()
        if prevented:
            # Not by its cancel(), which clears what the loop, in its own thread, may be calling.
            self._loop._timer_handle_cancelled(self._handle)
            self._handle._cancelled = True
        return prevented


class LoopDriver(ParkingPlace):
    """Drives an event loop by a clock, in place of the loop's selector, and is where it waits."""

    def __init__(self, kernel: Kernel, loop: Any) -> None:
        super().__init__("event loop")
        self.kernel: Kernel = kernel
        self._loop = loop
        self.member: Participant | None = None  # that the loop is, while it runs
        self.is_closed: Callable[[], bool] = loop.is_closed
        self._selector = loop._selector
        self._write_to_self = loop._write_to_self
        self._call_at = loop.call_at
        self._polls = 0
        self._polls_since = 0.0
        self._reached = 0.0  # the loop's time, if it is between two nanoseconds
        self._own_resolution = loop._clock_resolution
        self._move_timers(kernel.seconds - loop.time())
        setattr(loop, _DRIVER, self)
        loop._selector = self
        loop._write_to_self = self._wake
        loop.run_forever = self._run_forever
        loop.call_at = self._call_on_clock_at
        loop.time = lambda: max(kernel.seconds, self._reached)
        self._set_resolution()
        kernel.post(kernel.add_loop, self)

    def detach(self) -> None:
        """Give the loop its own time back, continuing from the clock's."""
        loop = self._loop
        now = loop.time()
        loop._selector = self._selector
        loop._clock_resolution = self._own_resolution
        for name in ("_write_to_self", "run_forever", "call_at", "time", _DRIVER):
            del vars(loop)[name]
        self._move_timers(loop.time() - now)

    def _move_timers(self, seconds: float) -> None:
        """Move all timers, because the loop's time is another one from now on."""
        for handle in self._loop._scheduled:
            handle._when = round(handle._when + seconds, 9)

    # Called by the loop in place of its own attributes

    def _run_forever(self) -> None:
        kernel, run = self.kernel, type(self._loop).run_forever
        if kernel.closed:
            run(self._loop)
            return
        participant = kernel.participant_here("an event loop")
        with counted(kernel, participant):
            self.member = participant
            participant.tasks = self._tasks
            try:
                run(self._loop)
            finally:
                self.member = participant.tasks = None

    def _call_on_clock_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        due, now = round(when, 9), self.kernel.seconds
        if due <= now < when:  # as by anyio, if its timer was called an ulp too early
            if self._reached <= now:
                self._reached = when
            else:
                due = in_seconds(self.kernel.now + 1)
        return self._call_at(due, callback, *args, context=context)

    def _wake(self) -> None:
        if self.member is None:
            self._write_to_self()
        else:
            self.kernel.post(self.kernel.unpark, self)

    def has_news(self) -> bool:
        return self.selects and bool(self._selector.select(0))

    def break_select(self) -> None:
        self._write_to_self()

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return the events that are ready; park the participant until there are any."""
        participant = self.member
        if participant is None:
            return self._selector.select(timeout)
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
        self.selects = not alone
        return self._park(participant)

    def _park(self, participant: Participant) -> list[Any]:
        kernel = self.kernel
        events: list[Any] = []

        def begin() -> None:
            kernel.post(kernel.park, participant, self, self._next_timer())
            if self.selects:
                # It blocks here until a descriptor is ready, or until break_select() is called.
                # In the first case it has no turn yet and asks for one.
                events.extend(self._selector.select(None))
                if participant.turn.locked():
                    kernel.post(kernel.unpark, self)

        try:
            wait_for_turn(kernel, participant, begin)
        except (VirtualDeadlockError, ClockUsageError) as error:
            if not self._raise_in_tasks(error):
                raise
        except ParticipantAborted as error:
            if kernel.closing:
                raise
            raise VirtualDeadlockError(*error.args) from None  # its tasks caught every error
        finally:
            self.selects = False
        self._set_resolution()
        return events

    def _set_resolution(self) -> None:
        """Make the loop's timers fire at exactly their own time."""
        self._loop._clock_resolution = ulp(self._loop.time())

    def _yield_turn(self, participant: Participant) -> None:
        """Let others run, although this loop always has something to do and never waits."""
        kernel, now = self.kernel, SystemClock().monotonic()
        if self._polls == 1:
            self._polls_since = now
            return
        if now - self._polls_since >= kernel.settle_timer.seconds:
            self._polls = 0
            raise SettleTimeout(f"{at(kernel.now)}: an event loop never waits: {participant.name}")
        wait_for_turn(kernel, participant, lambda: kernel.post(kernel.yield_turn, participant))

    def _next_timer(self) -> float | None:
        scheduled = self._loop._scheduled
        when = scheduled[0]._when if scheduled else inf
        return when if isfinite(when) else None

    def pending(self) -> Iterator[tuple[float, str, str]]:
        """Yield when each timer is due, what it calls, and the name of the participant."""
        member = self.member
        for handle in list(self._loop._scheduled):
            if member is not None and not handle._cancelled:
                timer = getattr(handle._callback, "__self__", None)
                called = timer.what if isinstance(timer, LoopTimer) else name_of(handle._callback)
                yield handle._when, f"call of {called}", member.name

    def _tasks(self) -> list[asyncio.Task[Any]]:
        return sorted(asyncio.all_tasks(self._loop), key=lambda task: task.get_name())

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

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


def found_driver(loop: object) -> LoopDriver | None:
    """Return the driver of a loop, if a clock drives it."""
    driver = getattr(loop, "__dict__", {}).get(_DRIVER)
    return driver if isinstance(driver, LoopDriver) else None


def loop_kernel(loop: object) -> Kernel | None:
    """Return the kernel of the clock that drives a loop; None: the loop has real time."""
    driver = found_driver(loop)
    return None if driver is None else driver.kernel


def check_not_strict(kernel: Kernel, loop: object) -> None:
    """Raise an ``UntrackedLoopError`` for a loop that waits on a strict clock and is not on it."""
    if kernel.strict:
        other = loop_kernel(loop)
        text = f"{loop!r} waits on a virtual clock that does not drive it: {HOW_TO_DRIVE}"
        if other is not None:
            text = on_another_clock(called_object() or "call_at()", kernel.clock, other.clock)
        raise UntrackedLoopError(text)


def driver_of(loop: Any, kernel: Kernel) -> LoopDriver:
    """Return the driver of a loop; the kernel's clock drives the loop from now on."""
    driver = found_driver(loop)
    if driver is not None and driver.kernel is kernel:
        return driver
    if driver is not None:
        driver.detach()
    if not isinstance(loop, selector_events.BaseSelectorEventLoop):
        raise UntrackedLoopError(
            f"a virtual clock drives asyncio's own loops with a selector, not {loop!r}: run the "
            "code with asyncio.run(), or on clock.new_event_loop()"
        )
    return LoopDriver(kernel, loop)


# Patches


def _run(original: Original, loop: Any, /, *args: Any, **kwargs: Any) -> Any:
    kernel = kernel_here()
    drivable = isinstance(loop, selector_events.BaseSelectorEventLoop)
    if kernel is None or found_driver(loop) or not (drivable or kernel.strict):
        return original(loop, *args, **kwargs)
    driver_of(loop, kernel)
    return loop.run_forever()


def _make(original: Original, loop: Any, /, *args: Any, **kwargs: Any) -> None:
    original(loop, *args, **kwargs)
    kernel = kernel_here()
    if kernel is not None:
        driver_of(loop, kernel)


def _start(original: Original, transport: Any, loop: Any, *args: Any, **kwargs: Any) -> None:
    original(transport, loop, *args, **kwargs)
    kernel = loop_kernel(loop)
    if kernel is not None:
        _, command, *_ = args
        program = command if isinstance(command, (str, bytes)) else command[0]
        what = f"process {transport.get_pid()} ({program!r})"
        kernel.post(kernel.holds.setdefault, transport, what)


def _exit(original: Original, transport: Any, returncode: int) -> None:
    kernel = loop_kernel(transport._loop)
    if kernel is not None:
        kernel.post(kernel.holds.pop, transport, None)
    original(transport, returncode)


def _make_socket(original: Original, sock: socket.socket, /, *args: Any, **kwargs: Any) -> None:
    original(sock, *args, **kwargs)
    of_the_internet = sock.family in {socket.AF_INET, socket.AF_INET6}
    if kernel_here() and of_the_internet and sock.type == socket.SOCK_STREAM:
        with suppress(OSError):  # a stream may be another than TCP's
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


LOOP_PATCHES = [
    (base_events.BaseEventLoop, "run_forever", around(_run)),
    (selector_events.BaseSelectorEventLoop, "__init__", around(_make)),
    (BaseSubprocessTransport, "__init__", around(_start)),
    (BaseSubprocessTransport, "_process_exited", around(_exit)),
    (socket.socket, "__init__", around(_make_socket)),  # accepted ones, too
]


def foreign_loop_patches(apply: Callable[[Patch], None]) -> Iterator[Patch]:
    """Yield what refuses loops such as uvloop's; ``apply`` the patches of classes made later."""

    def patches_of(loop_class: type) -> list[Patch]:
        if issubclass(loop_class, asyncio.BaseEventLoop):
            return []
        return [(loop_class, name, around(_run)) for name in ("run_forever", "run_until_complete")]

    def subclassing(_original: object) -> Any:
        def init_subclass(subclass: type, /, **kwargs: Any) -> None:
            super(asyncio.AbstractEventLoop, subclass).__init_subclass__(**kwargs)  # type: ignore[misc]
            for patch in patches_of(subclass):
                apply(patch)

        return classmethod(init_subclass)

    yield asyncio.AbstractEventLoop, "__init_subclass__", subclassing
    for loop_class in asyncio.AbstractEventLoop.__subclasses__():
        yield from patches_of(loop_class)
