"""The clock of tests, on which threads and event loops share one time."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, TypeVarTuple

from .._validation import as_count, as_difference, as_flag, as_number, as_seconds, safe_repr
from ..clock import later
from ._driving import (
    auto_advance,
    check_no_loop_runs_here,
    close,
    installed,
    take_step,
    wait_for_step_async,
)
from ._errors import ClockUsageError, SettleTimeout, UntrackedLoopError
from ._kernel import Kernel
from ._reports import name_of
from ._tasks import Task
from ._thread_side import VirtualParker, tracked, waiting_externally
from ._timers import LATEST, TimerInfo, VirtualTimer, in_nanoseconds, in_seconds
from ._traps import Trap
from ._watchdog import Watchdog
from .standard_library._loops import LoopTimer, check_not_strict, driver_of, loop_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from typing import Self, Unpack

    from ..clock import TimerHandle

P = ParamSpec("P")
T = TypeVar("T")
Args = TypeVarTuple("Args")


class VirtualClock:
    """A clock for tests, on which hours pass in milliseconds, the same way in every run.

    Inside ``with VirtualClock() as clock:`` everything of this library uses this clock, unless it
    was made with another ``clock=``. Every thread, thread pool and event loop that starts inside
    the block is a *participant*: time moves only while all participants wait. You move it by hand,
    with ``advance()``, or let it jump to the next timer on its own (*auto-advance*), with
    ``auto=True``, ``run()`` or ``run_async()``.

    Args:
        start: The first value of ``monotonic()``, in seconds.
        epoch: How many seconds ``time()`` is ahead of ``monotonic()``.
        strict: Whether a thread or event loop that is not a participant gets an error when it waits
            on the clock.
        auto: Whether time advances on its own in the ``with`` block. The thread that entered the
            block is a participant then.
        until: How far auto-advance goes, in seconds of ``monotonic()``; then all waits raise
            ``VirtualDeadlockError``. None means no limit.
        one_at_a_time: Whether only one participant runs at any moment, in an order that is the
            same in every run.
        settle_timeout: How long a step, and the end of the block, wait for a participant that
            neither waits on the clock nor ends: real seconds >= 0.
        patch_time: Whether the module ``time`` tells participants the time of this clock, and
            their waits in ``threading`` and ``queue`` are waits on it; ``datetime`` as well, if
            time-machine is installed.
        allow_daemons: Whether daemon threads may still run when the clock is closed, except tasks
            of ``spawn()``. Those that wait on the clock are ended.

    Thread safety: the steps (``advance()``, ``settle()`` and so on) run one at a time, in a thread
    that is not a participant and has no running event loop. ``auto_advance()``, ``run()`` and
    ``run_async()`` are for the thread that entered the block. All other methods may be called in
    any thread.

    Raises:
        ClockUsageError: Raised by methods of a closed clock, and by methods that block if they are
            called in the callback of a timer.

    Example:
        >>> from backoff_ticker.testing import VirtualClock
        >>> with VirtualClock() as clock:
        ...     task = clock.spawn(clock.sleep, 3600)
        ...     print(clock.advance(3599), clock.advance(1), task.done())
        0 1 True
    """

    def __init__(
        self,
        start: float = 0.0,
        *,
        epoch: float = 1_700_000_000.0,
        strict: bool = True,
        auto: bool = False,
        until: float | None = None,
        one_at_a_time: bool = True,
        settle_timeout: float = 5.0,
        patch_time: bool = False,
        allow_daemons: bool = False,
    ) -> None:
        self._epoch = as_number("epoch", epoch)
        self._auto = as_flag("auto", auto)
        self._allow_daemons = as_flag("allow_daemons", allow_daemons)
        self._kernel = kernel = Kernel(
            self,
            in_nanoseconds(as_number("start", start)),
            strict=as_flag("strict", strict),
            one_at_a_time=as_flag("one_at_a_time", one_at_a_time),
            settle_timeout=as_seconds("settle_timeout", settle_timeout),
        )
        kernel.look = Watchdog(kernel).look
        if until is not None:
            if as_number("until", until) < start:
                raise ValueError(f"until must be >= start ({start!r}), not {until!r}")
            kernel.until = in_nanoseconds(until)
        if as_flag("patch_time", patch_time):
            kernel.epoch = self._epoch
        self._block = ExitStack()
        self._auto_block = ExitStack()
        self._spawned = 0

    # The Clock protocol

    def monotonic(self) -> float:
        """Return ``start`` plus the seconds that have passed on the clock."""
        self._kernel.spring_traps("monotonic")
        return self._kernel.seconds

    def time(self) -> float:
        """Return the time of the wall clock in Unix seconds: ``epoch`` plus ``monotonic()``."""
        self._kernel.spring_traps("time")
        return self._epoch + self._kernel.seconds

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Call ``callback()`` at ``when``: in ``loop``, otherwise in a thread of the clock.

        The callback must not block. Its error is raised by the step that fired it; if there was no
        step, by ``run()``, ``run_async()`` or the end of the ``with`` block; in ``loop``, its
        exception handler gets it. A strict clock refuses a ``loop`` that it does not drive
        (``UntrackedLoopError``).
        """
        kernel = self._kernel
        kernel.check_open("call_at()")
        kernel.spring_traps("call_at", when, callback)
        _check_callable("callback", callback)
        when = as_number("when", when, "a finite number of monotonic seconds")
        if loop is not None:
            if loop_kernel(loop) is kernel:
                return LoopTimer(loop, when, callback)
            check_not_strict(kernel, loop)
            callback = partial(loop.call_soon_threadsafe, callback)
        what = f"call of {name_of(callback)}"
        timer = VirtualTimer(when, what, kernel.timers, callback)
        kernel.post(kernel.timers.push, timer)
        return timer

    def parker(self, what: str = "") -> VirtualParker:
        """Return a parker for the calling thread; ``what`` names the wait in reports."""
        self._kernel.spring_traps("parker", what)
        return VirtualParker(self._kernel, what)

    def sleep(self, seconds: float) -> None:
        """Block this thread for ``seconds`` of the clock, a number >= 0; nothing else ends it.

        ``ClockUsageError`` in a running event loop, and in a thread that moves the clock by hand.
        """
        duration = as_seconds("seconds", seconds)
        check_no_loop_runs_here("sleep()", "asyncio.sleep()")
        VirtualParker(self._kernel, "sleep()").park(later(self._kernel.seconds, duration))

    # Manual advance

    def advance(self, seconds: float | timedelta) -> int:
        """Let ``seconds`` pass, fire the timers that are due meanwhile, and return how many.

        Each timer fires at its own time. Before the next one fires, every participant that it woke
        has to wait again or end. At the end, time has moved by exactly ``seconds``.

        Raises:
            ClockUsageError: ``seconds`` is negative; this thread is a participant or runs an event
                loop; or another step is running.
            SettleTimeout: A participant neither waits on the clock nor ends.
            Exception: The callback of a timer raised it; time stops there.
        """
        return take_step(self._kernel, f"advance({seconds!r})", self._target(seconds))

    def advance_to(self, when: float) -> int:
        """Let time pass until ``when``, in seconds of the clock, as ``advance()`` does."""
        target = in_nanoseconds(as_number("when", when))
        if target < self._kernel.now:
            raise ClockUsageError(
                f"cannot advance to {when!r} from {self.monotonic()!r}: time does not go back"
            )
        return take_step(self._kernel, f"advance_to({when!r})", target)

    def advance_next(self) -> float:
        """Advance to the next timer; return by how much. ``ClockUsageError``: there is no timer."""
        kernel = self._kernel
        take_step(kernel, "advance_next()", None)  # participants that run may still set a timer
        first = kernel.query(kernel.timers.first)
        if first is None:
            raise ClockUsageError("advance_next(): no timer is pending")
        before = kernel.now
        take_step(kernel, "advance_next()", max(first.due, before))
        return in_seconds(kernel.now - before)

    def settle(self) -> None:
        """Do what ``advance(0)`` does: fire what is due now, until every participant waits."""
        take_step(self._kernel, "settle()", self._kernel.now)

    async def advance_async(self, seconds: float | timedelta) -> int:
        """Let time pass as ``advance()`` does, in a coroutine on an event loop of this clock.

        If cancelled: time stays where it is. The same errors, and ``UntrackedLoopError``: the clock
        does not drive this event loop.
        """
        what = f"advance_async({seconds!r})"
        return await wait_for_step_async(self._kernel, what, self._target(seconds))

    def _target(self, seconds: float | timedelta) -> int:
        step = as_difference("seconds", seconds)
        if step < 0.0:
            raise ClockUsageError(f"cannot advance by {seconds!r}: time does not go back")
        target = self._kernel.now + in_nanoseconds(step)
        if target > LATEST:
            raise ClockUsageError(f"cannot advance by {seconds!r}: the time would be out of range")
        return target

    # Auto-advance

    def auto_advance(self) -> AbstractContextManager[None]:
        """Return a ``with`` block in which time advances on its own.

        Time jumps to the next timer whenever every participant waits. This thread, the one that
        entered the clock, is a participant in the block, so time stands still while it works. The
        end of the block raises errors of callbacks.
        """
        return auto_advance(self._kernel)

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread of its own with auto-advance, and return its result.

        Raises:
            VirtualDeadlockError: Every participant waits and no timer is set.
            SettleTimeout: A participant neither waits on the clock nor ends.
            BaseException: The function raised it, or the callback of a timer.
        """
        _check_callable("function", function)
        with installed(self._kernel), auto_advance(self._kernel):
            work = partial(function, *args, **kwargs)
            return self.spawn(work, name=str(name_of(function))).result()

    def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in an event loop of this clock with auto-advance, and return its result.

        It is ``asyncio.run()`` on virtual time, and raises what ``run()`` does.
        """
        if not asyncio.iscoroutine(coroutine):
            raise TypeError(f"coroutine must be a coroutine, not {safe_repr(coroutine)}")
        try:
            with (
                installed(self._kernel),
                auto_advance(self._kernel),
                asyncio.Runner(loop_factory=self.new_event_loop) as runner,
            ):
                return runner.run(coroutine)
        finally:
            coroutine.close()

    # Participants

    def spawn(
        self, function: Callable[[Unpack[Args]], T], *args: *Args, name: str | None = None
    ) -> Task[T]:
        """Start a function in a thread that is a participant, and return its ``Task``.

        It runs in a daemon thread, in a copy of the ``contextvars`` context of this call, and with
        this clock as the current one. Its error is raised by ``join()`` and ``result()`` of the
        task; if neither is called, when the clock is closed. ``name`` is shown in reports.
        """
        _check_callable("function", function)
        self._kernel.check_open("spawn()")
        self._spawned += 1  # only for names: two threads at once may get the same number
        if name is None:
            name = f"{getattr(function, '__name__', 'task')}-{self._spawned}"
        return Task(self._kernel, lambda: function(*args), name)

    def tracked(self, function: Callable[P, T]) -> Callable[P, T]:
        """Wrap ``function``, so that any thread that calls the wrapper is a participant meanwhile.

        Use it for thread pools that were made outside of the block. Time stands still until the
        first call, which must begin within ``settle_timeout`` real seconds of a step.
        """
        _check_callable("function", function)
        self._kernel.check_open("tracked()")
        return tracked(self._kernel, function)

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop on this clock, as for ``asyncio.Runner(loop_factory=...)``."""
        self._kernel.check_open("new_event_loop()")
        loop = asyncio.SelectorEventLoop()
        driver_of(loop, self._kernel)
        return loop

    @contextmanager
    def external(self, why: str) -> Iterator[None]:
        """Return a ``with`` block during which time stands still.

        Use it around a wait for something real, such as a socket or a process. Other participants
        go on. ``why`` is shown in reports. Steps and waits of the thread that moves the clock give
        up after 60 real seconds, or ``settle_timeout`` if that is longer.
        """
        kernel = self._kernel
        kernel.check_not_in_callback("external()")
        key = object()
        participant = kernel.member_here()
        if participant is not None and asyncio._get_running_loop() is not None:
            participant = None  # the loop goes on running, and parks as usual
        try:
            kernel.query(lambda: kernel.holds.setdefault(key, f"external({why!r})"))
            with waiting_externally(kernel, participant, why):
                yield
        finally:
            kernel.post(kernel.holds.pop, key, None)

    @contextmanager
    def idle(self, why: str) -> Iterator[None]:
        """Return a ``with`` block during which this thread is not counted as working.

        Use it around a wait that the clock cannot see, such as ``Queue.get(timeout=5)``. Time may
        pass meanwhile. On Linux the clock sees whether a thread sleeps: time does not pass before
        the thread has taken what is already there, and a thread that computes in the block is no
        deadlock.

        Raises:
            VirtualDeadlockError: Nothing is due and no participant runs for ``settle_timeout`` real
                seconds; in the main thread, with auto-advance. Other threads go on waiting.
            SettleTimeout: In the same case, one runs, but neither waits on the clock nor ends.
        """
        self._kernel.check_not_in_callback("idle()")
        check_no_loop_runs_here("idle()", "external()")
        with waiting_externally(self._kernel, self._kernel.member_here(), why):
            yield

    # Inspection

    def pending(self) -> list[TimerInfo]:
        """Return the timers that are set, in the order in which they are due."""
        timers: list[TimerInfo] = self._kernel.query(self._kernel.pending)
        return timers

    def block_until(
        self, timers: int | None = None, parked: int | None = None, timeout: float = 5.0
    ) -> None:
        """Wait, in real time, until ``timers`` timers are set and ``parked`` threads wait.

        Timers of event loops count, and threads that are no participants; None means 0. After
        ``timeout`` real seconds it is a ``SettleTimeout``.
        """
        kernel = self._kernel
        kernel.check_not_in_callback("block_until()")
        wanted_timers = 0 if timers is None else as_count("timers", timers)
        wanted_parked = 0 if parked is None else as_count("parked", parked)

        def enough() -> bool:
            return len(kernel.pending()) >= wanted_timers and kernel.count_parked() >= wanted_parked

        if not kernel.commands.wait_for(enough, as_seconds("timeout", timeout)):
            raise SettleTimeout(
                f"block_until({timers=}, {parked=}): only {self.pending()} and "
                f"{kernel.query(kernel.count_parked)} parked after {timeout:g} s real"
            )

    def trap(self, kind: str, match: Callable[..., object] | None = None) -> Trap:
        """Hold the calls that participants make of a method of this clock, until you release them.

        With it a test can stop code between two steps that are not atomic. ``kind`` is the method:
        ``"monotonic"``, ``"time"``, ``"call_at"`` or ``"parker"``; ``match`` takes the arguments of
        a call and returns whether to hold it; None means all.
        """
        if match is not None:
            _check_callable("match", match)
        return Trap(self._kernel, kind, match)

    # Entering and closing

    def __enter__(self) -> Self:
        kernel = self._kernel
        if kernel.entered or kernel.closed:
            raise ClockUsageError("a virtual clock can only be entered once")
        loop = asyncio._get_running_loop()
        if loop is not None and kernel.strict and loop_kernel(loop) is not kernel:
            raise UntrackedLoopError(
                f"{loop!r} runs already, in real time: enter the clock before the loop is run (in "
                "setUp() of an IsolatedAsyncioTestCase, in a fixture of a test)"
            )
        kernel.driver.note_thread()
        self._block.enter_context(installed(kernel))
        kernel.entered = True
        if self._auto:
            self._auto_block.enter_context(auto_advance(kernel))
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        first = error
        if error is not None:
            self._kernel.settle_timer.hurry()
        with self._block:
            for end in (self._auto_block.close, self.close):
                try:
                    end()
                except Exception as another:  # raised below, or noted
                    if first is None:
                        first = another
                    else:
                        first.add_note(f"{type(another).__name__}: {another}")
        if first is not None and first is not error:
            raise first

    def close(self) -> None:
        """End every participant that still waits; the end of the ``with`` block calls this.

        It waits up to ``settle_timeout`` real seconds for participants that neither wait nor end;
        after an error in the block, half a second. A second call does nothing.

        Raises:
            ClockLeakError: Some participants had not ended. The message names each of them, and
                what it waited for. Those that waited on the clock have been ended.
            BaseException: The error of a callback that no step raised, or of a task that was
                not joined.
        """
        if not self._kernel.closed:
            self._kernel.check_not_in_callback("close()")
            close(self._kernel, allow_daemons=self._allow_daemons)

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._kernel.seconds!r}>"


def _check_callable(name: str, value: object) -> None:
    if not callable(value):
        raise TypeError(f"{name} must be callable, not {safe_repr(value)}")
