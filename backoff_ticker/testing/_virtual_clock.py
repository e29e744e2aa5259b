"""The clock of tests: threads and event loops on one time that moves only when all of them wait."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from .._validation import as_flag, as_number, as_seconds
from ._by_hand import ByHand
from ._by_itself import ByItself
from ._clock_base import check_callable
from ._errors import ClockLeakError, ClockUsageError, SettleTimeout, UntrackedLoopError
from ._inspection import Inspection
from ._kernel import Kernel
from ._loop_driver import HOW_TO_DRIVE, loop_kernel, loop_timer
from ._nanoseconds import in_nanoseconds
from ._parker import VirtualParker
from ._participant import Participant
from ._reports import leaks, name_of
from ._timers import VirtualTimer

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from ..clock import TimerHandle
    from ._traps import Trap


class VirtualClock(ByHand, ByItself, Inspection):
    """A ``Clock`` on which hours pass in milliseconds, the same way each time.

    Entered with ``with``, it is the current clock: objects of this library made without ``clock=``
    use it, and every thread, thread pool and event loop that begins inside is a *participant*.
    Time moves only while all of them wait, by hand (``advance()``) or by itself (``auto=True``,
    ``run()``, ``run_async()``), and then to what is due next.

    Args:
        start: What ``monotonic()`` begins with, in seconds.
        epoch: What ``time()`` is ahead of ``monotonic()``, in seconds.
        strict: Whether a thread or loop that is no participant may not wait on the clock.
        auto: Whether time advances by itself inside the ``with`` block. The thread that entered
            is a participant then.
        one_at_a_time: Whether only one participant runs at any moment, in an order that is the
            same each time.
        settle_timeout: Real seconds, 0 or more, after which a step, or the end, waits no longer
            for a participant that neither waits on the clock nor ends.

    Steps (``advance()``, ``settle()``, ...) are refused in participants and where an event loop
    runs, one at a time; ``auto_advance()``, ``run()`` and ``run_async()`` are for the thread that
    entered. All else may be called from any thread.

    Raises:
        TypeError, ValueError: An option is no finite number, or no bool, where it is to be one.
    """

    def __init__(  # noqa: PLR0913 - independent options, most by name
        self,
        start: float = 0.0,
        *,
        epoch: float = 1_700_000_000.0,
        strict: bool = True,
        auto: bool = False,
        one_at_a_time: bool = True,
        settle_timeout: float = 5.0,
    ) -> None:
        self._epoch = as_number("epoch", epoch)
        self._auto = as_flag("auto", auto)
        driver = Participant(
            threading.current_thread().name, ident=threading.get_ident(), counted=False
        )
        self._kernel = Kernel(
            in_nanoseconds(as_number("start", start)),
            driver,
            strict=as_flag("strict", strict),
            one_at_a_time=as_flag("one_at_a_time", one_at_a_time),
            settle_timeout=as_seconds("settle_timeout", settle_timeout),
        )
        self._kernel.clock = self
        self._traps: list[Trap] = []
        self._spawned = 0
        self._entered = False

    # The seam

    def monotonic(self) -> float:
        """Return the seconds that have passed on the clock, plus its start."""
        if self._traps:
            self._spring("monotonic")
        return self._kernel.seconds

    def time(self) -> float:
        """Return the seconds of the wall clock: ``epoch`` plus ``monotonic()``, always."""
        if self._traps:
            self._spring("time")
        return self._epoch + self._kernel.seconds

    def call_at(
        self,
        when: float,
        callback: Callable[[], object],
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> TimerHandle:
        """Have ``callback()`` called at ``when``: in ``loop``, else by whoever moves time on.

        It must not block. What it raises is raised by the step that fired it; without a step, by
        ``run()``, ``run_async()`` or the end of the ``with`` block. In a loop it is given to that
        loop's exception handler.

        Raises:
            TypeError, ValueError: ``when`` is no finite number, or ``callback`` not callable.
            UntrackedLoopError: The clock does not drive ``loop``, and is strict.
            ClockUsageError: The clock is closed.
        """
        self._refuse_if_closed("call_at()")
        if self._traps:
            self._spring("call_at", when, callback)
        check_callable("callback", callback)
        when = as_number("when", when, "a finite number of monotonic seconds")
        kernel = self._kernel
        if loop is not None:
            if loop_kernel(loop) is kernel:
                return loop_timer(loop, when, callback)
            if kernel.strict:
                raise UntrackedLoopError(
                    f"{loop!r} waits on a virtual clock that does not drive it: {HOW_TO_DRIVE}"
                )
            in_loop, target = loop, callback
            callback = lambda: in_loop.call_soon_threadsafe(target)  # noqa: E731
        what = f"call of {name_of(callback)}"
        timer = VirtualTimer(when, kernel.next_order(), callback, kernel.timers, what)
        kernel.post(kernel.timers.push, timer)
        return timer

    def parker(self, what: str = "") -> VirtualParker:
        """Return a place to wait for the calling thread; ``what`` names the wait in reports."""
        if self._traps:
            self._spring("parker", what)
        return VirtualParker(self._kernel, what)

    def sleep(self, seconds: float) -> None:
        """Wait in this thread for so many seconds of the clock; nothing else ends the wait.

        Raises:
            TypeError, ValueError: ``seconds`` is no finite number from 0.
            ClockUsageError: An event loop runs in this thread and would be blocked; or time, moved
                by hand, stands still.
            UntrackedThreadError: This thread is none of the clock's.
        """
        duration = as_seconds("seconds", seconds)
        self._refuse_in_loop("sleep()", "asyncio.sleep()")
        VirtualParker(self._kernel, "sleep()").park(self._kernel.seconds + duration)

    def _spring(self, kind: str, *args: object) -> None:
        for trap in list(self._traps):
            if trap.kind == kind:
                trap.catch(args)

    # Beginning and end

    def __enter__(self) -> Self:
        if self._entered or self._kernel.closed:
            raise ClockUsageError("a virtual clock is entered once")
        loop = asyncio._get_running_loop()
        if loop is not None and self._kernel.strict and loop_kernel(loop) is not self._kernel:
            raise UntrackedLoopError(
                f"{loop!r} runs already, in real time: enter the clock before the loop is run (in "
                "setUp() of an IsolatedAsyncioTestCase, in a fixture of a test)"
            )
        self._kernel.driver.ident = threading.get_ident()
        self._kernel.driver.native = threading.get_native_id()
        self._uninstall = self._installed()
        self._uninstall.__enter__()
        self._entered = True
        if self._auto:
            self._leave_auto = self.auto_advance()
            self._leave_auto.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        errors: list[Exception] = []
        try:
            for step in (self._end_auto, self.close):
                try:
                    step()
                except Exception as error:  # noqa: BLE001 - raised below, or noted
                    errors.append(error)
        finally:
            self._uninstall.__exit__(None, None, None)
        shown_error = exc if exc is not None or not errors else errors.pop(0)
        for other in errors:
            assert shown_error is not None  # noqa: S101 - it is the block's own, or the first
            shown_error.add_note(f"{type(other).__name__}: {other}")
        if shown_error is not None and shown_error is not exc:
            raise shown_error

    def _end_auto(self) -> None:
        if self._auto:
            self._leave_auto.__exit__(None, None, None)

    def close(self) -> None:
        """End every participant that still waits; harmless twice.

        It waits up to ``settle_timeout`` real seconds for those who neither wait nor end. The
        ``with`` block does this as it is left.

        Raises:
            ClockLeakError: There were any; each is named, with what it waited for. Those that
                waited on the clock have ended.
            BaseException: What a callback raised without a step, or a task that nobody joined.
        """
        kernel = self._kernel
        if kernel.closed:
            return
        kernel.refuse_in_callback("close()")
        closer = self._counted_here()
        if closer is None or closer is kernel.driver:
            try:
                self._wait_for_step("close()", None)
            except (SettleTimeout, ClockUsageError):
                pass  # who did not settle is among those that are named
        mine = {kernel.driver, closer}
        left = [one for one in kernel.ask(lambda: list(kernel.members)) if one not in mine]
        message = leaks(kernel, left)
        for trap in list(self._traps):
            trap.close()
        kernel.post(kernel.close)
        kernel.wait_for(lambda: not (kernel.awaited() - mine), kernel.patience.timeout)
        kernel.closed = True
        kernel.watch.end()
        for loop_driver in kernel.loop_drivers:
            loop_driver.detach()
        unheard = [task.error_of_nobody() for task in kernel.failed]
        kernel.errors += [error for error in unheard if error is not None]
        if left:
            leak = ClockLeakError(message)
            for error in kernel.errors[1:]:
                leak.add_note(f"another error was {error!r}")
            raise leak from (kernel.errors[0] if kernel.errors else None)
        self._raise_errors()

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._kernel.seconds!r}>"
