"""Ticks sent on somebody else's queue: the only place where a tick is pushed."""

from __future__ import annotations

import sys

from .._errors import TickerClosed
from .._unraisable import report
from .._validation import LONGEST_WAIT, safe_repr
from ..waiting import Waiter, current_loop
from ._core import POLL_AGAIN
from ._tick import Tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from typing import Any

    from ..clock import TimerHandle
    from ..waiting import WaitSet
    from ._base import TickerFace
    from ._protocol import SendSink, Sink

_MOST_IN_A_ROW = 64
_LEAST_PAUSE = 0.001

# Queues tell that they are full, or shut down, by errors of these names (or below them): those
# of queue, asyncio, janus, culsans, anyio and of our own have no base class in common.
_FULL = frozenset(["Full", "QueueFull", "WouldBlock"])
_SHUT_DOWN = frozenset(
    [
        "AsyncQueueShutDown",
        "BrokenResourceError",
        "ChannelClosed",
        "ClosedResourceError",
        "QueueShutDown",
        "ShutDown",
        "SyncQueueShutDown",
    ]
)


class Forwarding(Waiter):
    """Sends the ticks of a ticker to a sink until the ticker ends, or ``stop()``.

    It stands in the ticker's line of readers and is never parked: a wake-up runs ``fire`` in the
    scheduler thread, or in the sink's event loop, where it takes what is due and sets its timer.

    Attributes:
        dropped: Ticks that found the sink full.
    """

    __slots__ = (
        "_again",
        "_closes",
        "_done",
        "_lost",
        "_put_nowait",
        "_running",
        "_sink",
        "_sources",
        "_ticker",
        "_timer",
        "dropped",
        "loop",
    )

    def __init__(
        self,
        ticker: TickerFace,
        sink: Sink | SendSink,
        loop: AbstractEventLoop | None,
        *,
        close: bool,
    ) -> None:
        super().__init__()
        self.loop: AbstractEventLoop | None = loop
        self.dropped: int = 0
        self._ticker = ticker
        self._sink = sink
        self._put_nowait: Callable[[Tick], object] = _put_of(sink)
        self._timer: TimerHandle | None = None
        self._sources: tuple[WaitSet, ...] = ()
        self._lost = 0
        self._closes = close
        self._done = False
        self._again = False
        self._running = False

    @classmethod
    def start(cls, ticker: TickerFace, sink: Sink | SendSink, *, close: bool) -> Forwarding:
        """Begin to send; see ``TickerFace.send_to``."""
        if isinstance(sink, type) or not callable(_put_of(sink)):
            raise TypeError(
                f"sink must have a method put_nowait(tick) or send_nowait(tick), "
                f"not {safe_repr(sink)}"
            )
        push = cls(ticker, sink, _loop_of(sink), close=close)
        ticker._clock.call_at(ticker._clock.monotonic(), push.fire, loop=push.loop)
        return push

    def stop(self) -> None:
        """Send no more; the ticker and the sink stay as they are.

        From any thread, loop, signal handler, finalizer or callback. A tick that is being sent at
        this very moment may still arrive.
        """
        self._done = True
        self.wake()

    @property
    def wake_domain(self) -> object:
        """Itself: it waits for nobody, and nobody should wait for it."""
        return self

    def wake(self) -> bool:
        """Have ``fire`` run soon, in its thread."""
        self._again = True
        if self._running:
            return True  # the run that is under way looks again before it ends
        if self.loop is not None:
            if super().wake():
                return True
            self._done = True
            self._leave()
            return False
        try:
            self._ticker._clock.call_at(self._ticker._clock.monotonic(), self.fire)
        except RuntimeError:
            return False  # the interpreter is going down: nothing is sent any more
        return True

    def fire(self) -> None:
        """Take and send what is due; then set the timer, or end."""
        if self._running:
            self._again = True
            return
        self._running = True
        try:
            self._recheck()
            while self._again or (self._done and self._sources):
                self._recheck()
        finally:
            self._running = False
        if self._again:
            self.wake()

    def _recheck(self) -> None:
        """Look once, registered, at what is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._done:
            self._again = False
            self._leave()
            return
        self._register()
        try:
            self._set_timer(self._send_due())
            if self._ticker._wait_sets() != self._sources:
                self._again = True  # a token was heard meanwhile: register with it, look again
        except TickerClosed:
            self._end()
        except BaseException as error:  # noqa: BLE001 - there is no reader to raise it to
            self._ticker.stop()
            report(error, "Exception in a ticker that is sent to a queue", self._ticker)
            self._end()

    def _send_due(self) -> float:
        """Send what is due, within measure; return when to look again without a wake-up.

        Taking a tick wakes the whole line, this sender included, so a wake-up counts only if it
        came after the last tick was taken.
        """
        ticker = self._ticker
        for _ in range(_MOST_IN_A_ROW):
            self._again = False
            era = ticker._reset_epoch
            step = ticker._poll(fresh=False)
            if not isinstance(step, Tick):
                if step != POLL_AGAIN:
                    return step
            elif self._done:
                ticker._give_back(step, era)
                break
            elif not self._put(step):
                self._again = False
                return ticker._clock.monotonic() + _LEAST_PAUSE
        self._again = False
        return ticker._clock.monotonic()

    def _put(self, tick: Tick) -> bool:
        """Send ``tick``; False if there was no room for it."""
        if self._lost:
            tick = tick._replace(missed=tick.missed + self._lost)
        try:
            self._put_nowait(tick)
        except Exception as error:
            names = {cls.__name__ for cls in type(error).__mro__}
            if names & _FULL:
                self.dropped += 1
                self._lost = tick.missed + 1
                return False
            if names & _SHUT_DOWN:
                self._done = True
                return False
            # A janus queue whose loop is closed has taken the item all the same.
            if not (isinstance(error, RuntimeError) and _is_janus(self._sink)):
                raise
        self._lost = 0
        return True

    def _set_timer(self, when: float) -> None:
        # Even where only a wake-up can bring news there is a timer: it keeps the scheduler thread,
        # so that no wake-up from a signal handler has to start one.
        when = min(when, self._ticker._clock.monotonic() + LONGEST_WAIT)
        self._timer = self._ticker._clock.call_at(when, self.fire, loop=self.loop)

    def _register(self) -> None:
        sources = self._ticker._wait_sets()
        if sources != self._sources:
            self._leave()
            self._sources = sources
            for source in sources:
                source.add(self)

    def _leave(self) -> None:
        sources, self._sources = self._sources, ()
        for source in sources:
            source.leave(self)

    def _end(self) -> None:
        """Leave, and tell the sink that nothing more comes."""
        self._again = False
        self._done = True
        self._leave()
        shut_down = getattr(self._sink, "shutdown", None) or getattr(self._sink, "close", None)
        if self._closes and callable(shut_down):
            try:
                shut_down()
            except Exception as error:  # noqa: BLE001 - as in _put
                if not (isinstance(error, RuntimeError) and _is_janus(self._sink)):
                    report(error, "Exception in the shutdown of a queue of ticks", self._sink)

    def __repr__(self) -> str:
        return f"<Forwarding of {self._ticker!r} to {self._sink!r}>"


def _put_of(sink: object) -> Any:  # noqa: ANN401 - whatever the sink has there
    return getattr(sink, "put_nowait", None) or getattr(sink, "send_nowait", None)


def _is_janus(sink: object) -> bool:
    return type(sink).__module__.partition(".")[0] == "janus"


def _loop_of(sink: object) -> AbstractEventLoop | None:
    """Return the loop that runs here, if only a loop may touch ``sink``; imports nothing for it."""
    asyncio, janus = sys.modules.get("asyncio"), sys.modules.get("janus")
    if (asyncio is None or not isinstance(sink, asyncio.Queue)) and (
        janus is None or janus.AsyncQueue not in type(sink).__mro__
    ):
        return None
    try:
        return current_loop()
    except RuntimeError:
        raise RuntimeError(
            f"sink {sink!r} belongs to an event loop: call send_to() in that loop"
        ) from None
