"""What both tickers offer to users and to ``select``; the two, and how their readers wait."""

from __future__ import annotations

from sys import modules

from .. import _process
from .._errors import TickerClosed, WouldBlock
from .._process import ProcessBound
from .._sentinels import EMPTY, ENDED
from .._validation import as_count, as_flag, as_seconds, counted, whole_repr
from ..clock import later
from ..waiting import (
    CHECKPOINT_EVERY,
    NO_DEADLINE,
    LoopWaiter,
    checkpoint,
    current_loop,
    park_thread,
    trio_runs,
)
from ._core import TickerCore
from ._forwarding import Forwarding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import timedelta
    from typing import Any, Self

    import janus

    from .._sentinels import Closed
    from ..clock import Clock
    from ..policies import BackOff
    from ..waiting import Waiter, WaitSet
    from ._protocol import SendSink, Sink
    from ._tick import Pace, PendingTick, Tick


class BaseTicker(TickerCore, ProcessBound):
    __slots__ = ()

    _kind = "a ticker"
    _ends_by_itself = True
    _selected: tuple[Self, Tick | Closed]  # for type checkers: what select() returns

    @property
    def backoff(self) -> BackOff:
        """The ticker's own copy of the policy. Read its fields; do not call its methods."""
        return self._run.backoff

    @property
    def pace(self) -> Pace:
        """How the ticker treats slow readers."""
        return self._pace

    @property
    def next_delay(self) -> float | None:
        """The delay before the next tick, in seconds; None after the end, and while unknown."""
        return self._pending.delay if self.close_reason is None else None

    @property
    def closed(self) -> bool:
        """Whether the ticker has ended. A tick that a reader left may still be received."""
        return self.close_reason is not None

    def receive_nowait(self) -> Tick:
        """Take the next tick as ``receive()`` does, or raise ``WouldBlock`` if that had to wait."""
        tick: Tick = self._poll()
        if tick is EMPTY:
            raise WouldBlock("no tick is due")
        return tick

    def success(self) -> None:
        """Tell the ticker that the work after the last tick went well: delays start again.

        A feedback policy is told, and asked for its delay; any other policy is reset. If a delay is
        running, the new one replaces it and runs from the same moment. ``since_success`` of the
        tick is 0. It never blocks: a reader that is asking the policy just now does this, too.

        Raises:
            RuntimeError: The ticker's own policy called it. Do not call it in signal handlers and
                finalizers: those that interrupt a call of the ticker may get this error, too.
        """
        self._change(self._after_success)

    def failure(self) -> None:
        """Tell a feedback policy that the work after the last tick failed; others are not told.

        If neither this nor ``success()`` was called, the next request for a tick does so. It raises
        as ``success()`` does.
        """
        self._change(self._after_failure)

    def _after_success(self, pending: PendingTick) -> PendingTick:
        if pending.end is not None:
            return pending
        if pending.is_immediate or (pending.number == 1 and not self._resets):
            failed = None if self._run.feedback else self._run.reset()
            return pending if failed is None else pending.with_delay(failed)
        return pending.recovered().with_delay(self._run.success())

    def _after_failure(self, pending: PendingTick) -> PendingTick:
        return pending.with_delay(self._run.failure()) if pending.awaits_feedback else pending

    def reset(self, backoff: BackOff | None = None, *, immediately: bool = False) -> None:
        """Start the delays again with the first, and drop the tick that is pending.

        The next tick comes after a full first delay from now, for readers that already wait, too;
        its ``number`` goes on. A ``receive()`` that begins after this has returned gets no tick
        that was due before; one that had taken its tick by then still returns it.

        Args:
            backoff: A policy to use from now on; the ticker copies it. None keeps the policy.
            immediately: Whether the next tick is due now instead.

        Raises:
            TickerClosed: The ticker has ended.
            TypeError, ValueError, Exception: As ``Ticker(backoff)``; or a wrong ``immediately``.
            RuntimeError: As for ``success()``.
        """
        as_flag("immediately", immediately)
        if self.close_reason is not None:
            raise TickerClosed(self.close_reason)
        run = None if backoff is None else self._start_run(backoff)
        now = self._monotonic()

        def restart(pending: PendingTick) -> PendingTick:
            if pending.end is not None:
                return pending
            if run is not None:
                self._use(run)
            if self._timer is not None:
                self._timer.drop_delay()
            return pending.restarted(now, self._run.reset() if immediately else self._run.begin())

        self._change(restart, resets=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def send_to(self, sink: Sink | SendSink, *, close: bool = True) -> Forwarding:
        """Send every tick, when it is due, to a queue or channel, until ``stop()`` of the result.

        An ``asyncio.Queue``, the ``async_q`` of janus, a memory channel of trio and a stream of
        anyio are served by the event loop that runs here, all others by the scheduler thread. A
        tick that finds the sink full is dropped and counted; a delay of zero then lasts 1 ms. The
        error of a policy that fails goes to ``sys.unraisablehook``. The forwarding keeps the ticker
        alive, and is one of its readers.

        Args:
            sink: A ``Channel``, ``queue.Queue``, ``queue.SimpleQueue``, ``asyncio.Queue``, a side
                of a ``janus.Queue``, a ``trio.MemorySendChannel``, or any object with
                ``put_nowait`` or ``send_nowait``.
            close: Whether to call the sink's ``shutdown()``, or else its ``close()``, when the
                ticker ends. Use False if several tickers share a sink.

        Raises:
            TypeError: ``sink`` has neither method, or ``close`` is not a bool.
            RuntimeError: No event loop runs here that serves ``sink``; or no thread can be started.
        """
        return Forwarding(self, sink, close=as_flag("close", close))

    def queue(self, maxsize: int = 1) -> janus.Queue[Tick]:
        """Return a new ``janus.Queue`` to which every tick is sent, as by ``send_to()``.

        Threads read its ``sync_q``, one event loop its ``async_q``. It is shut down at the end. It
        holds at most ``maxsize`` ticks, an int >= 0; 0 means any number.
        """
        import janus

        queue: janus.Queue[Tick] = janus.Queue(as_count("maxsize", maxsize))
        self.send_to(queue.sync_q)
        return queue

    @property
    def _timing_clock(self) -> Clock:
        return self._clock

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        readers, ends = self._readers, self._ends
        sets = (readers,) if ends is readers else (ends, readers)
        return sets if self._timer is None else (*sets, *self._timer.timer.c._wait_sets())

    def _recheck(self, waiter: Waiter) -> float | None:
        """Return until when a registered waiter waits, its ``limit`` at most; None: poll now."""
        until = waiter.limit
        token = self._run.token
        may_have_ended = self._ending is not None
        if token is not None:
            if self._ends not in waiter.sources:  # after a reset()
                return None
            if token.cancelled:
                may_have_ended = True
            elif token._deadline < until:
                until = token._deadline
        if may_have_ended and self._has_ended():
            return None
        if self._asker is not None and self._is_asked():
            return until
        pending = self._pending
        due = pending.due
        if self._deferred or pending.returned or due is None or due <= self._monotonic():
            return None
        if due >= until:
            return None if self._timer is not None and self._timer.may_change() else until
        return due if self._readers.leads(waiter) else until

    def _pass_on_wakeup(self) -> None:
        """Wake the next that waits for the timer, which may be another ticker's by now."""
        if self._timer is not None:
            self._timer.timer.c._pass_on_wakeup()

    def _begin_receive(self) -> None:
        pending = self._pending
        if pending.due is None and not pending.returned and self.close_reason is None:
            self._fix_due(pending)

    def _take_nowait(self, *, fresh: bool) -> object:
        try:
            return self._poll(first_poll=fresh)
        except TickerClosed:
            return ENDED

    def __repr__(self) -> str:
        try:
            state = self.close_reason or "open"
        except Exception:  # of the clock that measures a deadline
            state = self._ending or "open"
        ticks = counted(self._pending.number - 1, "tick")
        return f"<{type(self).__name__} {state}, {ticks}, {whole_repr(self.backoff)}>"


class Ticker(BaseTicker):
    """An iterator of ticks for threads: each tick comes one delay after the last.

    ``for tick in ticker:`` gets the first tick at once, or after ``first`` seconds, and ends when
    the policy returns ``STOP``, the token is cancelled or ``stop()`` is called. Any number of
    threads may read it: each tick goes to one. It needs no clean-up; ``with`` stops it at the end.

    Wakes when: the tick is due, the ticker is stopped or reset, ``success()`` brings the tick
    forward, or a token is cancelled (the ticker's own, or one inside the policy).
    If interrupted: the tick stays for the next reader.
    Thread safety: all methods in any thread; ``stop()`` also in signal handlers and finalizers.

    Args:
        backoff: The policy. The ticker uses a copy of it, after a ``reset()``.
        token: A ``CancellationToken`` that ends the ticker and wakes its readers. A first tick
            without a delay comes even if it is already cancelled.
        pace: How the ticker treats slow readers.
        first: The delay before the first tick: seconds >= 0 or a timedelta. It runs from now with
            ``Pace.RECEIPT``, else from the first request for a tick. It changes no other delay.
        clock: Measures the delays. None means the current clock.
        timer: A ``Timer``, or an object like one, that measures the delays instead. The time that
            it sends becomes the ``time`` of the tick.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The token has a deadline on another clock, or ``first`` is out of range.
        Exception: The ``reset()`` of the policy raised an error.

    Example:
        >>> from backoff_ticker import ConstantBackOff, Ticker, with_max_retries
        >>> for tick in Ticker(with_max_retries(ConstantBackOff(0.001), 2)):
        ...     print(tick.number, tick.delay)
        1 0.0
        2 0.001
        3 0.001
    """

    __slots__ = ()

    def receive(self, timeout: float | timedelta | None = None) -> Tick:
        """Take the next tick; block this thread until it is due.

        Args:
            timeout: Seconds >= 0 or a timedelta. 0 does not wait; None means no limit.

        Raises:
            TickerClosed: The ticker has ended.
            TimeoutError: No tick was due in time. The next tick stays for the next reader.
            TypeError, ValueError: ``timeout`` is not a finite duration >= 0.
            RuntimeError: Its own policy called it.
            Exception: The policy failed; its error is raised once, to one reader.
        """
        seconds = NO_DEADLINE if timeout is None else as_seconds("timeout", timeout)
        limit = seconds if timeout is None else later(self._monotonic(), seconds)
        tick: Tick = self._poll()
        return self._wait_for_tick(limit, seconds) if tick is EMPTY else tick

    def _wait_for_tick(self, limit: float, seconds: float) -> Tick:
        names = "Ticker.receive()", "an AsyncTicker"
        while True:
            if limit != NO_DEADLINE and self._monotonic() >= limit:
                raise TimeoutError(f"no tick within {seconds} s")
            sets = self._wait_sets()
            park_thread(self._clock, *names, sets, self._recheck, limit, ends=True)
            tick: Tick = self._poll(first_poll=False)
            if tick is not EMPTY:  # ATOMIC: no jump back between taking a tick and its return
                return tick

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Tick:
        try:
            tick: Tick = self._poll()
            return self._wait_for_tick(NO_DEADLINE, NO_DEADLINE) if tick is EMPTY else tick
        except TickerClosed:
            raise StopIteration from None


class AsyncTicker(BaseTicker):
    """An iterator of ticks for event loops: a ``Ticker`` for ``async for tick in ticker:``.

    Coroutines of several event loops may read it; it belongs to none. A reader that never has to
    wait yields to its loop at every 64th tick, so a delay of zero does not block other tasks.

    It takes the arguments of ``Ticker``, which describes them.

    If cancelled: the tick stays for the next reader. A waiter may stay registered with the token
    until the ticker is dropped.

    Example:
        >>> import asyncio
        >>> from backoff_ticker import AsyncTicker, ConstantBackOff, with_max_retries
        >>> async def main():
        ...     async for tick in AsyncTicker(with_max_retries(ConstantBackOff(0.001), 1)):
        ...         print(tick.number, tick.delay)
        >>> asyncio.run(main())
        1 0.0
        2 0.001
    """

    __slots__ = ()

    # It repeats park_coroutine(): a second coroutine would add an eighth to the memory of a reader.
    async def receive(  # noqa: C901
        self, timeout: float | timedelta | None = None, *, _end: type[Exception] = TickerClosed
    ) -> Tick:
        """Wait for the next tick and take it, as ``Ticker.receive()`` does in a thread."""
        limit = NO_DEADLINE
        if timeout is not None:
            limit = later(self._monotonic(), as_seconds("timeout", timeout))
        try:
            if self._pending.number % CHECKPOINT_EVERY == 0 or ("trio" in modules and trio_runs()):
                await checkpoint()
            due = self._pending.due
            # A tick that is not due yet is looked for once the reader stands in line.
            is_early = timeout is None and due is not None and due > self._monotonic()
            tick: Any = EMPTY if is_early else self._poll()
            if tick is not EMPTY:
                return tick
            while True:
                if timeout is not None and self._monotonic() >= limit:
                    raise TimeoutError(f"no tick within {as_seconds('timeout', timeout)} s")
                waiter = self._waiter(limit)
                future: Any = EMPTY
                try:
                    while True:
                        future = waiter.await_next(self._clock, self._recheck)
                        if future is None:
                            break
                        await future
                finally:
                    try:
                        self._end_wait(waiter, future)
                    except BaseException:
                        self._end_wait(waiter, future)
                        raise
                tick = self._poll(first_poll=False)
                if tick is not EMPTY:  # ATOMIC: as in Ticker._wait_for_tick()
                    return tick
        except TickerClosed:
            if _end is TickerClosed:
                raise
            raise _end from None

    def _waiter(self, limit: float) -> LoopWaiter:
        """Return the waiter that rests if it belongs to this loop, else a new one."""
        loop, readers = current_loop(), self._readers
        waiter: Any = readers.resting
        if waiter is not None and waiter.domain == id(loop):
            readers.resting = None  # no other loop does so
            if self._ends in waiter.sources and waiter.generation == _process.generation:
                waiter.loop = loop
                waiter.limit = limit
                return waiter
            waiter.end()  # after a reset() with another token, or a fork
        return LoopWaiter(self._wait_sets(), limit)

    def _end_wait(self, waiter: LoopWaiter, future: object) -> None:
        """Let a waiter rest, or end it if it was cut short. May be repeated."""
        readers = self._readers
        if future is None and readers.resting in (None, waiter) and self._timer is None:
            waiter.rest()
        if readers.resting is not waiter:
            waiter.end()

    def __del__(self) -> None:
        readers = getattr(self, "_readers", None)  # None: __init__() has failed
        if readers is not None and readers.resting is not None:
            readers.resting.end()  # which leaves the set of the token

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Tick]:
        return self.receive(_end=StopAsyncIteration)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.stop()
