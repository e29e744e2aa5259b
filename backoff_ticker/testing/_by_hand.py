"""A virtual clock that is driven by hand."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from .._validation import as_difference, as_number
from ._clock_base import ClockBase
from ._errors import ClockUsageError, UntrackedLoopError
from ._loop_driver import HOW_TO_DRIVE, loop_kernel
from ._nanoseconds import LATEST, in_nanoseconds, in_seconds
from ._parker import wait_for_turn
from ._step import Step

if TYPE_CHECKING:
    from datetime import timedelta


class ByHand(ClockBase):
    """Time moves as far as it is told to."""

    def advance(self, seconds: float | timedelta) -> int:
        """Let so many seconds pass, with everything that is due on the way, in order.

        Each timer fires at its own time, and before the next one everybody whom it woke waits
        again, or has ended. At the end time is exactly that much later.

        Returns:
            How many timers fired.

        Raises:
            TypeError, ValueError: ``seconds`` is no finite number.
            ClockUsageError: ``seconds`` is negative: time does not go back; or this is no thread
                that may drive the clock: a participant, or one in which an event loop runs; or a
                step is under way, or the clock is closed.
            SettleTimeout: A participant neither waits on the clock nor ends.
            Exception: What a timer's callback raised; time stands where it did so.
        """
        return self._step(f"advance({seconds!r})", self._target(seconds))

    def advance_to(self, when: float) -> int:
        """Let time pass up to ``when``, in seconds of the clock, as ``advance()`` does.

        Returns:
            How many timers fired.

        Raises:
            ClockUsageError: ``when`` is past; and as ``advance()`` does.
        """
        target = in_nanoseconds(as_number("when", when))
        if target < self._kernel.now:
            raise ClockUsageError(
                f"cannot advance to {when!r} from {self._kernel.seconds!r}: time does not go back"
            )
        return self._step(f"advance_to({when!r})", target)

    def advance_next(self) -> float:
        """Advance to the next timer that is pending; return how many seconds passed.

        Raises:
            ClockUsageError: None is; and as ``advance()`` does.
        """
        self._step("advance_next()", None)
        first = self._kernel.ask(self._kernel.timers.first)
        if first is None:
            raise ClockUsageError("advance_next(): no timer is pending")
        before = self._kernel.now
        self._step("advance_next()", max(first.due, before))
        return in_seconds(self._kernel.now - before)

    def settle(self) -> None:
        """Wait until every participant waits, or has ended; time stands still.

        What is due by now fires: it needs no time to pass. It raises what ``advance()`` does.
        """
        self._step("settle()", self._kernel.now)

    async def advance_async(self, seconds: float | timedelta) -> int:
        """Do what ``advance()`` does, in a coroutine on an event loop of this clock.

        A cancelled wait leaves time where it is.

        Raises:
            UntrackedLoopError: The clock does not drive this loop.
            ClockUsageError, SettleTimeout, Exception: As ``advance()`` does.
        """
        kernel = self._kernel
        loop = asyncio.get_running_loop()
        if loop_kernel(loop) is not kernel:
            raise UntrackedLoopError(
                f"advance_async() in {loop!r}, which this clock does not drive: {HOW_TO_DRIVE}"
            )
        done: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        what = f"advance_async({seconds!r})"
        step = Step(what, self._target(seconds), lambda: loop.call_soon_threadsafe(finish))
        kernel.post(kernel.begin_step, step)
        try:
            await done
        finally:
            kernel.post(kernel.withdraw_step, step)
        return step.outcome()

    def _target(self, seconds: float | timedelta) -> int:
        step = as_difference("seconds", seconds)
        if step < 0.0:
            raise ClockUsageError(f"cannot advance by {seconds!r}: time does not go back")
        target = self._kernel.now + in_nanoseconds(step)
        if target > LATEST:
            raise ClockUsageError(f"cannot advance by {seconds!r}: there is no such time")
        return target

    def _step(self, what: str, target: int | None) -> int:
        self._refuse_in_loop(what, "await clock.advance_async()")
        self._refuse_in_participant(what)
        return self._wait_for_step(what, target)

    def _wait_for_step(self, what: str, target: int | None) -> int:
        kernel = self._kernel
        done = threading.Lock()
        done.acquire()
        participant = self._counted_here()

        def finish() -> None:
            if done.locked():
                done.release()

        step = Step(what, target, finish, participant)
        kernel.watch.begin()
        kernel.unlock()
        try:
            kernel.post(kernel.begin_step, step)
            done.acquire()
            if participant is not None:
                wait_for_turn(kernel, participant)
        except BaseException:
            kernel.unlock()
            kernel.post(kernel.withdraw_step, step)
            if participant is not None:
                kernel.run_after_interrupt(participant)
            raise
        return step.outcome()
