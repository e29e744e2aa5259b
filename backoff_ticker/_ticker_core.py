"""What the thread face and the loop face of a ticker share: everything but how they wait.

A ticker is a *turn*: what is known of the next tick, in one immutable tuple. Taking the tick
replaces the turn by the next one in a single store, so no reader ever sees half of it.

A turn is ``(claim, number, due, delay, origin, missed)``:

    ========  =====================================================================
    claim     an empty dict; whoever ``setdefault``s its mark into it may ask the
              policy and replace the turn, and nobody else may
    number    of the tick to come, from 1
    due       when it falls due; None: not fixed before somebody asks for it
    delay     the back-off before it; None: the policy waits to hear how the work
              went; a ``_Last``: there is no tick to come
    origin    the moment from which the delay counts; None: from the next ask
    missed    ticks dropped before it
    ========  =====================================================================

Invariants:
    * A claim is never given back: it goes with its turn. Holding on to an old turn is harmless.
    * Between the last look at the endings and the return of a tick there is no call, so neither
      an interrupt nor (with an interpreter lock) another thread comes between: a tick is either
      delivered or still there.
    * Who finds the turn claimed has left a note or joins the line and looks again; who held the
      claim looks at notes and line after the store. One of the two sees the other.
    * Endings go through ``_end``: the first stays.
"""

from __future__ import annotations

from _thread import get_ident

from . import _fork
from ._announce import listening
from ._clock import resolve_clock
from ._errors import TickerClosed, WouldBlock
from ._numbers import as_count
from ._schedule import CloseReason, Pace, Tick, catch_up, due_after
from ._stop import STOP
from ._token import any_of, require_token
from ._waiting import FOREVER, WaitLine
from .policies._running import checked_delay, is_feedback, start_policy
from .policies._wrappers import announces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, NoReturn, Self

    Turn = tuple[dict[int, tuple[int, int]], int, float | None, Any, float | None, int]

    import janus

    from ._protocols import BackOff, Clock, Sink
    from ._push import Push
    from ._stop import Stop
    from ._token import CancellationToken
    from ._waiting import Waiter, WaitSet

__all__ = ["AGAIN", "TickerCore"]

AGAIN = -FOREVER
"""What a poll answers when it has changed something, or somebody else has: poll again."""

_new_tick = tuple.__new__


class _Last:
    """In place of a delay: no tick comes after the one before."""

    __slots__ = ("error", "reason")

    def __init__(self, reason: CloseReason, error: BaseException | None = None) -> None:
        self.reason = reason
        self.error = error


class TickerCore:
    """The state of a ticker and all its rules. See ``Ticker`` and ``AsyncTicker``."""

    __slots__ = (
        "__weakref__",
        "_backoff",
        "_clock",
        "_due_after",
        "_facts",
        "_feedback",
        "_given",
        "_listens",
        "_monotonic",
        "_notes",
        "_over",
        "_pace",
        "_readers",
        "_returned",
        "_time",
        "_token",
        "_turn",
    )

    def __init__(
        self,
        backoff: BackOff,
        *,
        token: CancellationToken | None = None,
        pace: Pace = Pace.RECEIPT,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(pace, Pace):
            raise TypeError(f"pace must be a Pace, not {pace!r}")
        self._clock = resolve_clock(clock)
        self._monotonic = self._clock.monotonic
        self._time = self._clock.time
        self._pace = pace
        self._due_after = due_after(pace)
        self._facts: dict[str, Any] = {}
        self._over = False
        self._notes: list[Callable[[Turn], Turn]] | tuple[()] = ()
        self._returned: list[Tick] | tuple[()] = ()
        self._readers: WaitLine | None = None
        self._token: CancellationToken | None = None
        if token is not None:
            self._hear(token)
        self._given = self._token
        self._run_policy(start_policy("backoff", backoff, self._clock))
        due = self._monotonic() if pace is Pace.RECEIPT else None
        self._turn: Turn = ({}, 1, due, 0.0, None, 0)

    # What anyone may read

    @property
    def backoff(self) -> BackOff:
        """The policy of this run: the ticker's own copy. Read it, do not ask it for delays."""
        return self._backoff

    @property
    def pace(self) -> Pace:
        """From when delays run, and what becomes of late ticks."""
        return self._pace

    @property
    def closed(self) -> bool:
        """Whether the ticker has ended: nothing comes but, after a failure, the policy's error."""
        return self.close_reason is not None

    @property
    def close_reason(self) -> CloseReason | None:
        """Why the ticker has ended; None while it is open. The first ending stays."""
        if not self._over:
            reason = self._ending()
            if reason is None:
                return None
            self._end(reason)
        return self._facts["ending"]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        state = self.close_reason or "open"
        return f"<{type(self).__name__} {state}, {self._turn[1] - 1} ticks, {self._backoff!r}>"

    def receive_nowait(self) -> Tick:
        """Take the next tick if it is due.

        Raises:
            WouldBlock: It is not due, or another reader is just taking it.
            TickerClosed, RuntimeError, Exception: As ``receive()``.
        """
        step = self._poll()
        while step.__class__ is not Tick:
            if step != AGAIN:
                raise WouldBlock("no tick is due")
            step = self._poll(False)
        return step  # type: ignore[return-value]

    # Ticks for somebody else's queue

    def send_to(self, sink: Sink) -> Push:
        """Send every tick, as it falls due, to an object with ``put_nowait(tick)``.

        ``queue.Queue``, ``queue.SimpleQueue``, a side of a ``janus.Queue`` and the like are served
        by the scheduler thread; an ``asyncio.Queue`` and a janus ``async_q`` by the event loop
        that runs here. A tick that finds no room is dropped and counted, and a delay of zero then
        lasts 1 ms. When the ticker ends, ``shutdown()`` or else ``close()`` of the sink is called,
        where it has one. A failing policy's error goes to ``sys.unraisablehook``.

        The ticker is kept alive until it ends or the sending is stopped. Other readers may take
        ticks too; each goes to one.

        Returns:
            A handle with ``stop()`` and ``dropped``.

        Raises:
            TypeError: ``sink`` has no ``put_nowait()``.
            RuntimeError: ``sink`` belongs to an event loop and none runs here; or the scheduler
                thread cannot be started.
        """
        from ._push import Push

        return Push.start(self, sink)

    def queue(self, maxsize: int = 1) -> janus.Queue[Tick]:
        """Return a new ``janus.Queue`` on which every tick is sent as it falls due.

        Threads read its ``sync_q``, one event loop its ``async_q``. It is shut down when the
        ticker ends; a tick that finds it full is dropped, and counted in the ``missed`` of the
        next. See ``send_to``.

        Args:
            maxsize: How many ticks wait on it at the most; 0: any number.

        Raises:
            TypeError, ValueError: ``maxsize`` is no int >= 0.
        """
        import janus

        queue: janus.Queue[Tick] = janus.Queue(as_count("maxsize", maxsize))
        self.send_to(queue.sync_q)
        return queue

    # What ends it

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

    def _ending(self) -> CloseReason | None:
        """Why the ticker has ended without anybody having said so yet."""
        _, number, _, delay, _, _ = self._turn
        if delay.__class__ is _Last:
            return delay.reason  # type: ignore[no-any-return]
        token = self._token
        if token is not None and number > 1 and token.cancelled:
            return CloseReason.CANCELLED
        return None

    def _end(self, reason: CloseReason) -> None:
        if not self._over:
            self._facts.setdefault("ending", self._ending() or reason)
            self._over = True
        readers = self._facts.get("readers")
        if readers is not None:
            readers.close()

    # What the reader says of its work

    def success(self) -> None:
        """Tell the policy that the work after the last tick went well.

        A feedback policy is asked for its delay after a success; any other begins anew. A delay
        that is pending is replaced at once, counted from the moment the old one was counted from.
        Before the first tick and after the end it changes nothing that is pending. Never blocks:
        while another reader asks the policy, that reader sees to it.
        """
        self._leave_note(self._succeed)

    def failure(self) -> None:
        """Tell a feedback policy that the work after the last tick failed.

        Without it the next ask for a tick counts as a failure. For other policies, and where the
        outcome is known already, it does nothing.
        """
        self._leave_note(self._fail)

    def reset(self, backoff: BackOff | None = None, *, immediately: bool = False) -> None:
        """Begin the back-off anew; the pending tick is dropped, ``number`` goes on.

        The next tick comes after a full first delay from now; whoever waits goes on waiting for
        it. Nothing is delivered that was due before.

        Args:
            backoff: A policy to run from now on, as a copy; None: the one that runs.
            immediately: Let the next tick come at once instead.

        Raises:
            TickerClosed: The ticker has ended.
            TypeError: ``backoff`` is no policy.
        """
        if not isinstance(immediately, bool):
            raise TypeError(f"immediately must be a bool, not {immediately!r}")
        run = None if backoff is None else start_policy("backoff", backoff, self._clock)
        if self.closed:
            raise TickerClosed(self._facts["ending"])
        now = self._monotonic()
        self._leave_note(lambda turn: self._renew(turn, run, now, immediately))

    # The policy

    def _run_policy(self, run: BackOff) -> None:
        self._backoff = run
        self._feedback = is_feedback(run)
        self._listens = announces(run)

    def _hear(self, token: CancellationToken) -> None:
        """Be cancelled by ``token`` too."""
        require_token("token", token)
        if token.deadline is not None and token.clock is not self._clock:
            raise ValueError(
                f"token must have its deadline on the ticker's clock {self._clock!r}, "
                f"not on {token.clock!r}"
            )
        heard = self._facts.get("heard", ())
        if token not in heard:
            heard = self._facts["heard"] = (*heard, token)
            self._token = token if len(heard) == 1 else any_of(*heard)

    def _ask(self, ask: Callable[[], float | Stop]) -> float | _Last:
        """Return the policy's answer, checked; that it gives up or fails is an answer too."""
        try:
            delay = listening(ask, self._hear) if self._listens else ask()
            if delay.__class__ is float and 0.0 <= delay < FOREVER:  # type: ignore[operator]
                return delay  # type: ignore[return-value]
            if delay is STOP:
                token = self._token
                cancelled = token is not None and token.cancelled
                return _Last(CloseReason.CANCELLED if cancelled else CloseReason.EXHAUSTED)
            return checked_delay(self._backoff, delay)
        except Exception as error:  # noqa: BLE001 - raised to the next reader
            return _Last(CloseReason.FAILED, _told(error, self._backoff))

    # The rules, each from one turn to the next

    def _fixed(self, turn: Turn, now: float) -> Turn:
        """Fix when the tick falls due, at an ask: its origin, its delay, the slots passed by."""
        _, number, _, delay, origin, missed = turn
        if delay is None:
            delay = self._ask(self._backoff.next_backoff)
        if delay.__class__ is _Last:
            return {}, number, None, delay, None, missed
        if origin is None:
            origin = now
        due = origin + delay
        if self._pace is Pace.SKIP:
            due, missed = catch_up(due, delay, now)
        return {}, number, due, delay, origin, missed

    def _delayed(self, turn: Turn, ask: Callable[[], float | Stop]) -> Turn:
        """Replace the delay by what the policy answers now."""
        _, number, _, _, origin, _ = turn
        delay: Any = self._ask(ask)
        due = None if origin is None or delay.__class__ is _Last else origin + delay
        return {}, number, due, delay, origin, 0

    def _succeed(self, turn: Turn) -> Turn:
        _, number, _, delay, origin, _ = turn
        if delay.__class__ is _Last:
            return turn
        policy = self._backoff
        if number == 1 and origin is None:
            if not self._feedback:
                policy.reset()
            return turn
        return self._delayed(turn, policy.success if self._feedback else _anew(policy))  # type: ignore[attr-defined]

    def _fail(self, turn: Turn) -> Turn:
        if turn[3] is not None:
            return turn
        return self._delayed(turn, self._backoff.failure)  # type: ignore[attr-defined]

    def _renew(self, turn: Turn, run: BackOff | None, now: float, immediately: bool) -> Turn:  # noqa: FBT001
        _, number, _, delay, _, _ = turn
        if delay.__class__ is _Last:
            return turn
        if run is not None:
            self._facts["heard"] = () if self._given is None else (self._given,)
            self._token = self._given
            self._run_policy(run)
        started: Turn = ({}, number, now, 0.0, now, 0)
        if not immediately:
            ask = _anew(self._backoff) if run is None else run.next_backoff
            return self._delayed(started, ask)
        if run is None:
            self._backoff.reset()
        return started

    # Taking a tick, and every other change of the turn

    def _poll(self, fresh: bool = True) -> Tick | float:  # noqa: FBT001, FBT002
        """Take the tick if it is due.

        Args:
            fresh: Whether the reader asks only now, rather than having waited.

        Returns:
            The tick; or until when to wait: a deadline, ``FOREVER`` for a wake-up, or ``AGAIN``.

        Raises:
            TickerClosed: No tick comes any more.
            RuntimeError: The policy asks for a tick of its own ticker.
            Exception: The policy failed; once, to one reader.
        """
        if self._notes:
            self._work_off()
        if self._returned:
            returned = self._take_returned()
            if returned is not None:
                return returned
        turn = claim, number, due, delay, _, missed = self._turn
        token = self._token
        if self._over or (token is not None and number > 1 and token.cancelled):
            self._refuse()
        if due is None:
            return self._fix(turn)
        now = self._monotonic()
        if due > now:
            return due
        if fresh and due < now and self._pace is Pace.SKIP:
            return self._fix(turn)
        mark = (get_ident(), _fork.generation)
        try:
            if claim.setdefault(0, mark) is not mark:
                return self._contend(turn)
            if token is not None and token.cancelled:
                wait: Any = _Last(CloseReason.CANCELLED)
            elif self._feedback:
                wait = None
            else:
                wait = self._ask(self._backoff.next_backoff)
            if wait.__class__ is float:
                next_due, origin, skipped = self._due_after(due, now, wait)
            else:
                _, origin, skipped = self._due_after(due, now, 0.0)
                next_due = None
            lateness = now - due
            tick = _new_tick(Tick, (number, self._time() - lateness, due, delay, lateness, missed))
            token = self._token
            if (token is not None and number > 1 and token.cancelled) or self._over:
                self._turn = ({}, *turn[1:])
                self._refuse()
            self._turn = ({}, number + 1, next_due, wait, origin, skipped)
        except BaseException:
            if claim and claim[0] is mark and self._turn is turn:
                self._turn = ({}, *turn[1:])
            raise
        readers = self._readers
        if self._notes or (readers is not None and readers.waiters):
            try:
                self._let_go()
            except BaseException:
                self._give_back(tick)
                raise
        return tick

    def _refuse(self) -> NoReturn:
        reason = self.close_reason
        last = self._turn[3]
        if reason is CloseReason.FAILED and last.error is not None:
            mark = (get_ident(),)
            if self._facts.setdefault("told", mark) is mark:
                raise last.error
        raise TickerClosed(reason)  # type: ignore[arg-type]

    def _fix(self, turn: Turn) -> float:
        if turn[3].__class__ is _Last:
            self._refuse()
        now = self._monotonic()
        if not self._apply(turn, lambda turn: self._fixed(turn, now)):
            return self._contend(turn)
        try:
            self._let_go()
        except BaseException:
            self._let_go()
            raise
        return AGAIN

    def _apply(self, turn: Turn, rule: Callable[[Turn], Turn]) -> bool:
        """Replace ``turn`` by what ``rule`` makes of it; False if somebody else has claimed it."""
        claim = turn[0]
        mark = (get_ident(), _fork.generation)
        try:
            if claim.setdefault(0, mark) is not mark:
                return False
            after = rule(turn)
            self._turn = ({}, *after[1:])
        except BaseException:
            if claim and claim[0] is mark and self._turn is turn:
                self._turn = ({}, *turn[1:])
            raise
        return True

    def _contend(self, turn: Turn) -> float:
        """Say what a reader does about a turn that somebody else has claimed."""
        if self._freed(turn):
            return AGAIN
        if turn[0][0][0] == get_ident():
            raise RuntimeError(f"{self!r} is asked for a tick by its own policy")
        return FOREVER

    def _freed(self, turn: Turn) -> bool:
        """Whether a claimed turn is over, or was claimed by a thread that a fork left behind."""
        if self._turn is not turn:
            return True
        if turn[0][0][1] == _fork.generation:
            return False
        mark = (get_ident(), _fork.generation)
        if turn[0].setdefault(_fork.generation, mark) is mark:
            self._turn = ({}, *turn[1:])
        return True

    def _leave_note(self, rule: Callable[[Turn], Turn]) -> None:
        """Have ``rule`` applied: now, or by whoever has claimed the turn."""
        notes = self._facts.setdefault("notes", [])
        notes.append(rule)
        self._notes = notes
        self._work_off()
        self._let_go()

    def _work_off(self) -> None:
        while self._notes:
            turn = self._turn
            if not self._apply(turn, self._next_note) and not self._freed(turn):
                return

    def _next_note(self, turn: Turn) -> Turn:
        notes = self._notes
        if not notes:
            return turn
        try:
            after = notes[0](turn)
        except Exception as error:  # noqa: BLE001 - only a policy's reset() gets here
            last = _Last(CloseReason.FAILED, _told(error, self._backoff))
            after = ({}, turn[1], None, last, None, 0)
        del notes[0]  # type: ignore[misc]
        return after

    def _let_go(self) -> None:
        """After a claim was let go: do what was left for its holder, and call the next in line."""
        if self._notes:
            self._work_off()
        if self._turn[3].__class__ is _Last:
            self._end(self._turn[3].reason)
        elif self._readers is not None:
            self._readers.wake_firsts()

    def _give_back(self, tick: Tick) -> None:
        """Keep a tick whose reader was interrupted for the next reader."""
        returned = self._facts.setdefault("returned", [])
        returned.append(tick)
        self._returned = returned
        self._let_go()

    def _take_returned(self) -> Tick | None:
        if self.close_reason in (CloseReason.STOPPED, CloseReason.CANCELLED):
            return None
        try:
            return self._returned.pop(0)  # type: ignore[union-attr]
        except IndexError:
            return None

    # Waiting for it

    def _sources(self) -> tuple[WaitSet, ...]:
        """Return all that can wake a reader."""
        readers = self._readers
        if readers is None:
            readers = self._readers = self._facts.setdefault("readers", WaitLine())
        token = self._token
        return (readers,) if token is None else (readers, token.wait_set())

    def _look(self, waiter: Waiter, limit: float) -> float | None:
        """Say until when a registered reader waits, ``limit`` at the most; None: not at all."""
        claim, number, due, _, _, _ = self._turn
        token = self._token
        if self._over:
            return None
        if token is not None and number > 1:
            if token.cancelled:
                return None
            if token.deadline is not None:
                limit = min(limit, token.deadline)
        if claim and claim[0][1] == _fork.generation:
            return limit  # its holder wakes those who lead
        if self._notes or self._returned or due is None or due <= self._monotonic():
            return None
        return min(limit, due) if self._readers.leads(waiter) else limit  # type: ignore[union-attr]


def _anew(policy: BackOff) -> Callable[[], float | Stop]:
    def ask() -> float | Stop:
        policy.reset()
        return policy.next_backoff()

    return ask


def _told(error: Exception, policy: BackOff) -> Exception:
    """Return the error with a note that names the policy, in a form that no loop mistakes."""
    if isinstance(error, (StopIteration, StopAsyncIteration, TickerClosed)):
        wrapped = RuntimeError(f"{policy!r} raised {type(error).__name__}")
        wrapped.__cause__ = error
        return wrapped
    error.add_note(f"This came from the back-off policy of a ticker: {policy!r}")
    return error
