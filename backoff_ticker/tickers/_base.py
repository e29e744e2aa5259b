"""What ``Ticker`` and ``AsyncTicker`` share: everything but the wait for a tick."""

from __future__ import annotations

from _thread import get_ident

from .._errors import TickerClosed, WouldBlock
from .._sentinels import EMPTY
from .._validation import as_count, as_flag, counted, whole_repr
from ..waiting import complete
from ._core import TickerCore
from ._forwarding import Forwarding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import janus

    from ..policies import BackOff
    from ._pending_tick import PendingTick
    from ._protocol import SendSink, Sink
    from ._tick import Pace, Tick


class BaseTicker(TickerCore):
    """See ``Ticker`` and ``AsyncTicker``."""

    __slots__ = ()

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
        """The delay before the next tick, in seconds.

        None after the end, and while it is not known: the policy was not asked yet, or has yet to
        be told how the work went.
        """
        delay = self._pending.delay
        return delay if self.close_reason is None else None

    @property
    def closed(self) -> bool:
        """Whether the ticker has ended.

        A reader may then still get one tick, which an interrupted reader left, or the error of a
        policy that failed.
        """
        return self.close_reason is not None

    def receive_nowait(self) -> Tick:
        """Take the next tick if it is due, without waiting.

        Raises:
            WouldBlock: No tick is due, or another reader is just taking it.
            TickerClosed, RuntimeError, Exception: As ``receive()``.
        """
        tick: Tick = self._poll()
        if tick is EMPTY:
            raise WouldBlock("no tick is due")
        return tick

    def success(self) -> None:
        """Tell the ticker that the work after the last tick went well: delays start again.

        A feedback policy is told of the success and asked for its delay; any other policy is reset,
        so that its delays start again with the first. If a delay is running, the new one replaces
        it and runs from the same moment. ``failures`` of the next tick is 0. It never blocks: if
        another reader is asking the policy, that reader does this, too.

        Raises:
            RuntimeError: The ticker's own policy called it, or a signal handler or finalizer that
                interrupted the policy.

        Example:
            >>> from backoff_ticker import ExponentialBackOff, Ticker
            >>> ticker = Ticker(ExponentialBackOff(0.001, multiplier=2, randomization_factor=0))
            >>> for tick in ticker:
            ...     if tick.number == 3:
            ...         break
            >>> ticker.next_delay
            0.004
            >>> ticker.success()
            >>> ticker.next_delay
            0.001
        """
        self._check_not_reentrant()
        self._change(self._after_success)

    def failure(self) -> None:
        """Tell a feedback policy that the work after the last tick failed.

        If neither this nor ``success()`` is called, the next request for a tick counts as a
        failure. It does nothing for other policies, and once the outcome is known.

        Raises:
            RuntimeError: The ticker's own policy called it, or a signal handler or finalizer that
                interrupted the policy.
        """
        self._check_not_reentrant()
        self._change(self._after_failure)

    def reset(self, backoff: BackOff | None = None, *, immediately: bool = False) -> None:
        """Start the delays again with the first, and drop the tick that is pending.

        The next tick comes after a full first delay from now, for readers that already wait, too.
        ``number`` of the ticks goes on. A ``receive()`` that begins after this has returned gets no
        tick that was due before; one that had taken its tick by then still returns it, and
        ``send_to()`` still sends it.

        Args:
            backoff: A policy to use from now on; the ticker copies it. None keeps the policy.
            immediately: True if the next tick is due now instead.

        Raises:
            TickerClosed: The ticker has ended.
            TypeError: ``backoff`` is not a policy or cannot be copied, or ``immediately`` is not a
                bool.
            ValueError: A token inside ``backoff`` has a deadline on another clock.
            RuntimeError: The ticker's own policy called it, or a signal handler or finalizer that
                interrupted the policy.
            Exception: The ``reset()`` of the new policy raised an error.
        """
        as_flag("immediately", immediately)
        reason = self.close_reason
        if reason is not None:
            raise TickerClosed(reason)
        self._check_not_reentrant()
        run = None if backoff is None else self._start_run(backoff)
        now = self._monotonic()

        def restart(pending: PendingTick) -> PendingTick:
            if pending.end is not None:
                return pending
            if run is not None:
                self._run = run
            if self._timer is not None:
                self._timer.restart_next()
            return pending.restarted(now, self._run.reset() if immediately else self._run.begin())

        self._change(restart, resets=1)

    def _check_not_reentrant(self) -> None:
        """Raise a RuntimeError if this thread is asking the policy."""
        if self._asking_thread() == get_ident():
            raise RuntimeError(
                f"success(), failure() or reset() of {self!r} called by its own policy, "
                f"or by a signal handler or finalizer that interrupted it"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        complete(self.stop)

    def send_to(self, sink: Sink | SendSink, *, close: bool = True) -> Forwarding:
        """Send every tick, when it is due, to a queue or channel.

        The sink is a ``Channel``, ``queue.Queue``, ``queue.SimpleQueue``, ``asyncio.Queue``, a side
        of a ``janus.Queue``, or any object with ``put_nowait`` or ``send_nowait``. An
        ``asyncio.Queue`` and the ``async_q`` of janus are served by the event loop that runs here,
        the others by the scheduler thread. A tick that finds the sink full is dropped and counted;
        a delay of zero then lasts 1 ms. The error of a policy that fails goes to
        ``sys.unraisablehook``.

        The ticker stays alive until it ends or the forwarding is stopped. Other readers may take
        ticks at the same time; each tick goes to one of them.

        Args:
            sink: The queue or channel.
            close: Whether to call the sink's ``shutdown()``, or else its ``close()``, when the
                ticker ends. Use False if several tickers share a sink.

        Returns:
            A handle with ``stop()`` and ``dropped``.

        Raises:
            TypeError: ``sink`` has neither method, or ``close`` is not a bool.
            RuntimeError: ``sink`` belongs to an event loop and none runs here; or the scheduler
                thread cannot be started.

        Example:
            >>> import queue
            >>> from backoff_ticker import ConstantBackOff, Ticker, with_max_retries
            >>> ticks = queue.SimpleQueue()
            >>> forwarding = Ticker(with_max_retries(ConstantBackOff(0.001), 1)).send_to(ticks)
            >>> [ticks.get(timeout=5).number for _ in range(2)]
            [1, 2]
        """
        return Forwarding(self, sink, close=as_flag("close", close))

    def queue(self, maxsize: int = 1) -> janus.Queue[Tick]:
        """Return a new ``janus.Queue`` to which every tick is sent when it is due.

        Threads read its ``sync_q``, one event loop its ``async_q``. The queue is shut down when the
        ticker ends. A tick that finds it full is dropped, and counted in ``missed`` of the next
        tick.

        Args:
            maxsize: How many ticks the queue holds: an int >= 0. 0 means any number.

        Raises:
            TypeError, ValueError: ``maxsize`` is not an int >= 0.
            RuntimeError: The scheduler thread cannot be started.
        """
        import janus

        queue: janus.Queue[Tick] = janus.Queue(as_count("maxsize", maxsize))
        self.send_to(queue.sync_q)
        return queue

    def __repr__(self) -> str:
        try:
            state = self.close_reason or "open"
        except Exception:  # noqa: BLE001 - of the clock that measures a deadline
            state = self._ending or "open"
        ticks = counted(self._pending.number - 1, "tick")
        return f"<{type(self).__name__} {state}, {ticks}, {whole_repr(self.backoff)}>"
