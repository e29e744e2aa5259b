"""What both faces of a ticker offer alike: everything but the wait for a tick."""

from __future__ import annotations

from .._errors import CloseReason, TickerClosed, WouldBlock
from .._sentinels import EMPTY, ENDED
from .._validation import as_count, as_flag
from ._core import POLL_AGAIN, TickerCore
from ._tick import Tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import janus

    from ..policies import BackOff
    from ._forwarding import Forwarding
    from ._protocol import SendSink, Sink


class TickerFace(TickerCore):
    """See ``Ticker`` and ``AsyncTicker``."""

    __slots__ = ()

    @property
    def backoff(self) -> BackOff:
        """The policy of this run: the ticker's own copy. Read it, do not ask it for delays."""
        return self._run.backoff

    @property
    def next_delay(self) -> float | None:
        """The back-off before the tick to come, in seconds.

        None where it is not known yet, because the policy has still to be asked or told how the
        work went, and where no tick comes.
        """
        delay = self._turn[3]
        return delay if isinstance(delay, float) and self.close_reason is None else None

    @property
    def closed(self) -> bool:
        """Whether the ticker has ended.

        Nothing comes any more but a tick that an interrupted reader left, or, after a failure,
        the policy's error.
        """
        return self.close_reason is not None

    @property
    def close_reason(self) -> CloseReason | None:
        """Why the ticker has ended; None while it is open. The first ending stays."""
        return self._ending()

    def receive_nowait(self) -> Tick:
        """Take the next tick if it is due.

        Raises:
            WouldBlock: It is not due, or another reader is just taking it.
            TickerClosed, RuntimeError, Exception: As ``receive()``.
        """
        tick = self._take_if_due(fresh=True)
        if tick is EMPTY:
            raise WouldBlock("no tick is due")
        return tick

    def _take_if_due(self, *, fresh: bool) -> Tick:
        """Take the next tick, or return ``EMPTY``."""
        while True:
            step = self._poll(fresh=fresh)
            if step.__class__ is Tick:  # ATOMIC: no jump back between taking it and its return
                return step
            if step != POLL_AGAIN:
                return EMPTY  # type: ignore[no-any-return]
            fresh = False

    def _try(self, *, fresh: bool) -> object:
        try:
            return self._take_if_due(fresh=fresh)
        except TickerClosed:
            return ENDED

    def _put_back(self, value: object) -> None:
        if isinstance(value, Tick):
            self._give_back(value, self._reset_epoch)

    def success(self) -> None:
        """Tell the policy that the work after the last tick went well.

        A feedback policy is asked for its delay after a success; any other begins anew. A delay
        that is pending is replaced at once, counted from the moment the old one was counted from.
        Before the first tick and after the end it changes nothing that is pending. Never blocks:
        while another reader asks the policy, that reader sees to it.

        Raises:
            RuntimeError: Called by the ticker's own policy, or by a signal handler or finalizer
                that interrupted it.
        """
        self._check_not_reentrant()
        self._defer(self._after_success)

    def failure(self) -> None:
        """Tell a feedback policy that the work after the last tick failed.

        Without it the next ask for a tick counts as a failure. For other policies, and where the
        outcome is known already, it does nothing.

        Raises:
            RuntimeError: Called by the ticker's own policy, or by a signal handler or finalizer
                that interrupted it.
        """
        self._check_not_reentrant()
        self._defer(self._after_failure)

    def reset(self, backoff: BackOff | None = None, *, immediately: bool = False) -> None:
        """Begin the back-off anew; the pending tick is dropped, ``number`` goes on.

        The next tick comes after a full first delay from now; whoever waits goes on waiting for
        it. Nothing is delivered that was due before.

        Args:
            backoff: A policy to run from now on, as a copy; None: the one that runs.
            immediately: Let the next tick come at once instead.

        Raises:
            TickerClosed: The ticker has ended.
            TypeError: ``backoff`` is no policy or cannot be copied, or ``immediately`` is no bool.
            ValueError: A token inside ``backoff`` has a deadline on another clock.
            RuntimeError: Called by the ticker's own policy, or by a signal handler or finalizer
                that interrupted it.
            Exception: What the ``reset()`` of the new policy raised.
        """
        as_flag("immediately", immediately)
        reason = self._ending()
        if reason is not None:
            raise TickerClosed(reason)
        self._check_not_reentrant()
        run = None if backoff is None else self._start(backoff)
        now = self._monotonic()
        self._reset_epoch = object()
        self._defer(lambda turn: self._after_reset(turn, run, now, immediately))

    def _check_not_reentrant(self) -> None:
        """Raise a RuntimeError if this thread has claimed it: nobody leaves notes to himself."""
        if self._is_mine(self._turn):
            raise RuntimeError(
                f"success(), failure() or reset() of {self!r} called by its own policy, "
                f"or by what interrupted it"
            )

    def stop(self) -> None:
        """End the ticker: who waits for a tick wakes, and none is received after this returns.

        From any thread, loop, signal handler, finalizer or callback, the policy included.
        Harmless twice.
        """
        self._end(CloseReason.STOPPED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def send_to(self, sink: Sink | SendSink, *, close: bool = True) -> Forwarding:
        """Send every tick, as it falls due, to an object with ``put_nowait`` or ``send_nowait``.

        A ``Channel``, ``queue.Queue``, ``queue.SimpleQueue``, a side of a ``janus.Queue`` and the
        like are served by the scheduler thread; an ``asyncio.Queue`` and a janus ``async_q`` by
        the event loop that runs here. A tick that finds no room is dropped and counted, and a
        delay of zero then lasts 1 ms. A failing policy's error goes to ``sys.unraisablehook``.

        The ticker is kept alive until it ends or the sending is stopped. Other readers may take
        ticks too; each goes to one.

        Args:
            sink: Where to send.
            close: Whether ``shutdown()``, or else ``close()``, of the sink is called when the
                ticker ends, where it has one. False where several tickers share a sink.

        Returns:
            A handle with ``stop()`` and ``dropped``.

        Raises:
            TypeError: ``sink`` has neither method, or ``close`` is no bool.
            RuntimeError: ``sink`` belongs to an event loop and none runs here; or the scheduler
                thread cannot be started.
        """
        from ._forwarding import Forwarding

        return Forwarding.start(self, sink, close=as_flag("close", close))

    def queue(self, maxsize: int = 1) -> janus.Queue[Tick]:
        """Return a new ``janus.Queue`` on which every tick is sent as it falls due.

        Threads read its ``sync_q``, one event loop its ``async_q``. It is shut down when the
        ticker ends; a tick that finds it full is dropped, and counted in the ``missed`` of the
        next. See ``send_to``.

        Args:
            maxsize: How many ticks wait on it at the most; 0: any number.

        Raises:
            TypeError, ValueError: ``maxsize`` is no int >= 0.
            RuntimeError: The scheduler thread cannot be started.
        """
        import janus

        queue: janus.Queue[Tick] = janus.Queue(as_count("maxsize", maxsize))
        self.send_to(queue.sync_q)
        return queue

    def __repr__(self) -> str:
        state = self.close_reason or "open"
        return f"<{type(self).__name__} {state}, {self._turn[1] - 1} ticks, {self.backoff!r}>"
