"""Ticks sent to a user's queue or channel: the only place where a tick is pushed, not pulled."""

from __future__ import annotations

import sys
from functools import partial

from .._errors import TickerClosed
from .._sentinels import EMPTY
from .._unraisable import report
from .._validation import LONGEST_WAIT, safe_repr, whole_repr
from ..waiting import CHECKPOINT_EVERY, Waiter, carry_out, current_loop, current_run, failure_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..clock import TimerHandle
    from ._core import TickerCore
    from ._protocol import SendSink, Sink
    from ._tick import Tick

# The errors, or their base classes, by which queues report that they are full, or shut down. They
# share no base class, and it would cost too much to import all these packages.
_PACKAGES = frozenset(["queue", "asyncio", "janus", "culsans", "anyio", "trio", "backoff_ticker"])
_FULL = frozenset(["Full", "QueueFull", "WouldBlock"])
_SHUT_DOWN = frozenset(["AsyncQueueShutDown", "QueueShutDown", "ShutDown", "SyncQueueShutDown"])
_SHUT_DOWN |= {"BrokenResourceError", "ChannelClosed", "ClosedResourceError"}

# Sinks that belong to an event loop or a run of trio: module, class, and to which.
_OWNED = (
    ("asyncio", "Queue", "a loop"),
    ("janus", "AsyncQueue", "a loop"),
    ("trio", "MemorySendChannel", "a run"),
    ("anyio.streams.memory", "MemoryObjectSendStream", "either"),
)


class Forwarding:
    """What ``send_to()`` of a ticker returns: it sends the ticks to a sink until ``stop()``.

    Thread safety: ``stop()`` may be called anywhere, also in signal handlers and finalizers.

    Example:
        >>> import queue
        >>> from backoff_ticker import ConstantBackOff, Ticker
        >>> ticks = queue.SimpleQueue()
        >>> forwarding = Ticker(ConstantBackOff(3600)).send_to(ticks)
        >>> ticks.get(timeout=5).number
        1
        >>> forwarding.stop()
    """

    __slots__ = ("_forwarder",)

    def __init__(self, ticker: TickerCore, sink: Sink | SendSink, *, close: bool) -> None:
        self._forwarder = _Forwarder(ticker, sink, close=close)
        self._forwarder.fire()

    @property
    def dropped(self) -> int:
        """How many ticks found the sink full."""
        return self._forwarder.dropped

    def stop(self) -> None:
        """Send no more ticks, except one that is just being sent. Ticker and sink stay open."""
        carry_out(self._forwarder.stop)

    def __repr__(self) -> str:
        return f"<Forwarding of {self._forwarder.ticker!r} to {whole_repr(self._forwarder.sink)}>"


class _Forwarder(Waiter):
    """The waiter of a forwarding in the ticker's line of readers.

    It never parks: a wake-up has the clock or the sink's event loop call ``look()``, one call at a
    time. That takes what is due, registers and sets the timer. All that one clock serves are of one
    wake domain, so a cancel wakes them by one call.
    """

    __slots__ = ("_close", "_lost", "_send", "_stopped", "_timer", "dropped", "sink", "ticker")

    def __init__(self, ticker: TickerCore, sink: Sink | SendSink, *, close: bool) -> None:
        send = getattr(sink, "put_nowait", None) or getattr(sink, "send_nowait", None)
        if isinstance(sink, type) or not callable(send):
            wanted = "a method put_nowait(tick) or send_nowait(tick)"
            raise TypeError(f"sink must have {wanted}, not {safe_repr(sink)}")
        super().__init__(_loop_of(sink))
        if self.loop is None:
            self.domain = id(ticker._clock)
        self.ticker = ticker
        self.sink = sink
        self.dropped = 0
        self._lost = 0  # ticks dropped since the last one that was sent
        self._send: Callable[[Tick], object] = send
        self._close = close
        self._timer: TimerHandle | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self.wake()

    def wake(self) -> bool:
        return self.call_in_loop(self.look)

    def call_in_loop(self, callback: Callable[..., object], *args: object) -> bool:
        if self.loop is not None:
            return super().call_in_loop(callback, *args)
        clock = self.ticker._clock
        error = failure_of(clock.call_at, clock.monotonic(), partial(callback, *args))
        if error is not None and not isinstance(error, RuntimeError):
            raise error
        return error is None  # else the interpreter is shutting down

    def fire(self) -> None:
        """Look in a call of its own: it may take long, and others are woken after it."""
        self.call_at(self.ticker._clock.monotonic())

    def look(self) -> None:
        """Send the ticks that are due; then set the timer, or end."""
        try:
            self._look()
        except BaseException:
            self.wake()
            raise

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            when = self._send_due()
            if self._stopped:
                self._leave()
                return
            if self.loop is None:
                # There is a timer even where nothing falls due: it keeps the scheduler thread
                # alive, so that a wake-up from a signal handler need not start one.
                when = min(when, self.ticker._clock.monotonic() + LONGEST_WAIT)
            if when == self.limit:  # only a wake-up helps, and no timer keeps it alive
                self.hold()
            else:
                self._timer = self.call_at(when)
        except TickerClosed:
            self._end()
        except BaseException as error:
            if self.loop is not None and isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise  # out of the loop, as in asyncio; look() wakes it again
            # There is no reader to raise it to, and the scheduler thread must not end.
            self.ticker.stop()
            report(error, "Exception in a ticker that is sent to a queue", self.ticker)
            self._end()

    def _send_due(self) -> float:
        """Send what is due, but not forever; return when to look again without a wake-up."""
        ticker = self.ticker
        pause = 0.0
        for _ in range(CHECKPOINT_EVERY):
            if self._stopped:
                break
            if self.place is not None:
                if ticker._recheck(self) is not None:
                    self.register()  # where a wake-up has taken it out
                    until = ticker._recheck(self)
                    if until is not None:
                        return until
                self._leave()  # or a poll that changes something would wake it
            tick = ticker._poll(first_poll=False)
            if tick is EMPTY:
                self.sources = ticker._wait_sets()
                self.register()
            elif self._stopped:
                ticker._put_back(tick)
            elif not self._put(tick):
                pause = 0.001  # seconds, as the sink is full
                break
        return ticker._clock.monotonic() + pause

    def _put(self, tick: Tick) -> bool:
        """Send ``tick``; False if there was no room for it, or the sink takes no more."""
        missed = tick.missed + self._lost
        try:
            self._send(tick._replace(missed=missed) if self._lost else tick)
        except Exception as error:
            names = {cls.__name__ for cls in type(error).__mro__ if _package_of(cls) in _PACKAGES}
            if names & _FULL:
                self.dropped += 1
                self._lost = missed + 1
            elif names & _SHUT_DOWN:
                self._stopped = True
                self.ticker._put_back(tick)  # for its other readers
            if names & (_FULL | _SHUT_DOWN):
                return False
            if not self._has_lost_its_loop(error):
                raise
        self._lost = 0
        return True

    def call_at(self, when: float) -> TimerHandle:
        return self.ticker._clock.call_at(when, self.look, loop=self.loop)

    def _leave(self) -> None:
        self.unregister()
        self.place = None

    def _end(self) -> None:
        self._stopped = True
        self._leave()
        shut_down = getattr(self.sink, "shutdown", None) or getattr(self.sink, "close", None)
        if self._close and callable(shut_down):
            try:
                shut_down()
            except Exception as error:  # nobody waits for it
                if not self._has_lost_its_loop(error):
                    report(error, "Exception in the shutdown of a queue of ticks", self.sink)

    def _has_lost_its_loop(self, error: Exception) -> bool:
        """Whether it is a janus queue whose loop is closed: it raises, but has taken the item."""
        return isinstance(error, RuntimeError) and _package_of(type(self.sink)) == "janus"


def _package_of(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _loop_of(sink: object) -> Any:
    """Return the loop or run of trio that runs here, if ``sink`` belongs to one."""
    for module, name, owner in _OWNED:
        if getattr(sys.modules.get(module), name, None) in type(sink).__mro__:
            try:
                if owner in ("either", "a loop" if current_run() is None else "a run"):
                    return current_loop()
            except RuntimeError:
                pass  # neither runs here
            place = "an event loop, or a run of trio: call send_to() there"
            raise RuntimeError(f"sink {sink!r} belongs to {place}")
    return None
