"""Interleavings of a ticker's readers that chance seldom makes, forced by a policy or a pause."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    STOP,
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    SystemClock,
    Ticker,
    TickerClosed,
    WouldBlock,
    select,
    select_async,
)
from backoff_ticker.tickers._core import TickerCore
from backoff_ticker.waiting import FREE, acquire
from tests import effort
from tests.helpers import PATIENCE, Flag, eventually, in_thread, waiters_of
from tests.stress.tools import Gate, Hooked, run_loop, start_threads
from tests.tickers.test_forwarding_races import wait_until_left

if TYPE_CHECKING:
    from collections.abc import Callable

    from backoff_ticker.testing import VirtualClock

HOUR = 3600.0


class ClockGate:
    """A ``Gate`` on the current clock: who stands before it waits on that."""

    def __init__(self) -> None:
        self._reached = Flag()
        self._open = Flag()

    def stand(self) -> None:
        self._reached.set()
        self._open.wait()

    def wait_until_reached(self) -> None:
        self._reached.wait()

    def open(self) -> None:
        self._open.set()


def test_an_interrupt_in_the_policy_wakes_the_reader_who_found_the_tick_claimed(
    clock: VirtualClock,
) -> None:
    gate = ClockGate()

    def interrupt_once(asked: int) -> None:
        if asked == 1:
            gate.stand()
            raise KeyboardInterrupt

    ticker = Ticker(Hooked(HOUR, interrupt_once), clock=clock)
    interrupted = in_thread(ticker.receive)
    gate.wait_until_reached()
    other = in_thread(ticker.receive)
    clock.settle()
    gate.open()
    with pytest.raises(KeyboardInterrupt):
        interrupted.result(PATIENCE)
    assert other.result(PATIENCE).number == 1


def test_an_interrupt_in_a_success_wakes_the_reader_who_found_the_tick_claimed(
    clock: VirtualClock,
) -> None:
    gate = ClockGate()

    def interrupt() -> None:
        if armed:
            gate.stand()
            armed.clear()
            raise KeyboardInterrupt

    armed: list[bool] = []
    ticker = Ticker(Hooked(1.0, lambda _: None, on_reset=interrupt), clock=clock)
    ticker.receive()
    armed.append(True)
    interrupted = in_thread(ticker.success)
    gate.wait_until_reached()
    other = in_thread(ticker.receive)
    clock.settle()
    gate.open()
    with pytest.raises(KeyboardInterrupt):
        interrupted.result(PATIENCE)
    clock.advance(1.0)
    assert other.result(PATIENCE).number == 2


def test_a_note_worked_off_by_a_reader_leaves_somebody_who_watches_the_time(
    clock: VirtualClock,
) -> None:
    """One thread leaves a note, a second works it off, a third finds the tick claimed and waits."""
    left, working = ClockGate(), ClockGate()

    class Paused(Ticker):
        def _settle(self) -> None:
            if threading.current_thread() is author:
                left.stand()
            super()._settle()

    def hold() -> None:
        if armed:
            working.stand()

    armed: list[bool] = []
    ticker = Paused(Hooked(1.0, lambda _: None, on_reset=hold), clock=clock)
    author = threading.Thread(target=ticker.success, daemon=True)
    ticker.receive()
    armed.append(True)
    author.start()
    left.wait_until_reached()
    second = in_thread(ticker.receive)
    working.wait_until_reached()
    left.open()
    author.join(PATIENCE)
    third = in_thread(ticker.receive)
    clock.settle()
    armed.clear()
    working.open()
    clock.advance(1.0)
    assert sorted([second.done(), third.done()]) == [False, True]
    ticker.stop()


def test_stop_wakes_a_thread_that_waits_behind_a_sender() -> None:
    ticks: queue.SimpleQueue[object] = queue.SimpleQueue()
    ticker = Ticker(ConstantBackOff(HOUR))
    push = ticker.send_to(ticks)
    ticks.get(timeout=PATIENCE)
    eventually(lambda: push._forwarder._timer is not None, "the sender waits")
    readers = [in_thread(list, ticker) for _ in range(3)]
    eventually(lambda: len(waiters_of(ticker._readers)) == 4, "the readers wait behind it")
    ticker.stop()
    assert [reader.result(PATIENCE) for reader in readers] == [[], [], []]


def test_a_tick_that_meets_the_end_of_its_sending_comes_to_the_next_reader() -> None:
    ticks: queue.SimpleQueue[object] = queue.SimpleQueue()
    ended = threading.Event()

    def end(asked: int) -> None:
        if asked == 3:
            push.stop()
            ended.set()

    ticker = Ticker(Hooked(0.01, end))
    push = ticker.send_to(ticks)
    assert ended.wait(PATIENCE)
    third = in_thread(ticker.receive).result(PATIENCE).number
    sent = [ticks.get(timeout=PATIENCE).number for _ in range(2)]  # type: ignore[attr-defined]
    assert (sent, third) == ([1, 2], 3)


def test_no_tick_that_was_due_before_a_reset_is_received_after_it() -> None:
    gate = Gate()
    ticker = Ticker(Hooked(0.0, lambda asked: gate.stand() if asked == 2 else None))
    ticker.receive()
    reader = in_thread(ticker.receive)
    gate.wait_until_reached()
    began = time.monotonic()
    ticker.reset(ConstantBackOff(0.05))
    gate.open()
    tick = reader.result(PATIENCE)
    assert (tick.number, tick.delay) == (2, 0.05)
    assert tick.due >= began + 0.05


class SlowReset(Ticker):
    """A ticker whose ``reset()`` stands at a gate just before or just after it leaves its rule."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.before, self.after = Gate(), Gate()
        self.resetter: threading.Thread | None = None

    def _change(self, rule: Any, *, resets: int = 0) -> None:
        if resets:
            self.resetter = threading.current_thread()
            self.before.stand()
        super()._change(rule, resets=resets)

    def _settle(self) -> None:
        if threading.current_thread() is self.resetter:
            self.after.stand()
        super()._settle()


def test_no_tick_is_received_after_a_reset_that_met_a_reader_as_it_began() -> None:
    """The reader begins before the reset has left its rule, and still asks when it has returned."""
    asking = Gate()
    ticker = SlowReset(Hooked(0.0, lambda asked: asking.stand() if asked == 2 else None))
    ticker.after.open()
    ticker.receive()
    resetting = in_thread(ticker.reset, ConstantBackOff(HOUR))
    ticker.before.wait_until_reached()
    reader = in_thread(list, ticker)
    asking.wait_until_reached()
    ticker.before.open()
    resetting.result(PATIENCE)
    asking.open()
    eventually(lambda: waiters_of(ticker._readers), "the reader waits")
    ticker.stop()
    assert reader.result(PATIENCE) == []


def test_no_tick_is_received_after_a_reset_that_a_reader_overtook() -> None:
    """The reader claims the tick when the rule has been left and the reset has not looked yet."""
    ticker = SlowReset(Hooked(0.0, lambda _: None))
    ticker.before.open()
    ticker.receive()
    resetting = in_thread(ticker.reset, ConstantBackOff(HOUR))
    ticker.after.wait_until_reached()
    reader = in_thread(list, ticker)
    eventually(lambda: waiters_of(ticker._readers), "the reader waits")
    ticker.after.open()
    resetting.result(PATIENCE)
    ticker.stop()
    assert reader.result(PATIENCE) == []


def test_a_tick_from_after_a_reset_is_received_even_if_another_thread_applied_the_reset() -> None:
    """The reader applies the rule, and asks for the next delay while the reset goes on."""
    asking = Gate()
    ticker = Ticker(Hooked(0.0, lambda asked: asking.stand() if asked == 2 else None))
    at_the_look = Gate()

    def pause(frame: Any, event: str, _: object) -> Any:
        if frame.f_code is not TickerCore._change.__code__:
            return None
        if event == "line" and ticker._deferred:
            frame.f_trace = None
            at_the_look.stand()
        return pause

    def reset() -> None:
        sys.settrace(pause)
        try:
            ticker.reset(immediately=True)
        finally:
            sys.settrace(None)

    ticker.receive()
    resetting = in_thread(reset)
    at_the_look.wait_until_reached()
    reader = in_thread(ticker.receive)
    asking.wait_until_reached()
    at_the_look.open()
    resetting.result(PATIENCE)
    asking.open()
    tick = reader.result(PATIENCE)
    assert (tick.number, tick.delay) == (2, 0.0)
    assert ticker._pending.number == 3  # and none was taken and dropped


class EndsOnce:
    """A policy that stands at a gate when a reader asks it for the second tick, and then ends."""

    ends_at = 2  # the first reader asks for it, too

    def __init__(self) -> None:
        self.asked = 0
        self.asking = Gate()

    def __copy__(self) -> EndsOnce:
        return self

    def next_backoff(self) -> Any:
        self.asked += 1
        if self.asked != self.ends_at:
            return 0.0
        self.asking.stand()
        return STOP

    def reset(self) -> None: ...


class EndsOnceWithFeedback(EndsOnce):
    ends_at = 1

    def success(self) -> Any:
        return self.next_backoff()

    failure = success


@pytest.mark.parametrize("kind", [EndsOnce, EndsOnceWithFeedback])
def test_a_reset_while_the_policy_is_asked_prevails_over_its_end(kind: type[EndsOnce]) -> None:
    policy = kind()
    asking = policy.asking
    ticker = Ticker(policy)
    ticker.receive()
    reader = in_thread(ticker.receive)
    asking.wait_until_reached()
    ticker.reset()
    asking.open()
    assert reader.result(PATIENCE).number == 2
    assert not ticker.closed


class Disturbing(Channel[Any]):
    """A channel that calls a function as a ``select`` that has taken a tick leaves it."""

    def __init__(self, disturb: Callable[[], object]) -> None:
        super().__init__()
        self.disturb = [disturb]

    def _pass_on_wakeup(self) -> None:
        super()._pass_on_wakeup()
        if self.disturb:
            self.disturb.pop()()


def select_disturbed(clock: VirtualClock, ticker: Ticker, disturb: Callable[[], object]) -> Any:
    """Start a ``select`` that waits for the second tick, takes it, and is disturbed."""
    ticker.receive()
    selected = in_thread(select, ticker, Disturbing(disturb))
    clock.settle()
    clock.advance(HOUR)
    return selected


def test_a_select_interrupted_after_a_reset_gives_no_tick_back(clock: VirtualClock) -> None:
    def disturb() -> None:
        ticker.reset()
        raise KeyboardInterrupt

    ticker = Ticker(ConstantBackOff(HOUR), clock=clock)
    selected = select_disturbed(clock, ticker, disturb)
    with pytest.raises(KeyboardInterrupt):
        selected.result(PATIENCE)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
    clock.advance(HOUR)
    assert ticker.receive_nowait().number == 2


@pytest.mark.parametrize("what", ["reset", "stop", "cancel"])
def test_a_select_that_had_taken_its_tick_returns_it(clock: VirtualClock, what: str) -> None:
    token = CancellationToken()
    ticker = Ticker(ConstantBackOff(HOUR), clock=clock, token=token)
    selected = select_disturbed(
        clock, ticker, token.cancel if what == "cancel" else getattr(ticker, what)
    )
    source, tick = selected.result(PATIENCE)
    assert (source, tick.number) == (ticker, 2)
    if what == "reset":
        clock.advance(HOUR)
        assert ticker.receive_nowait().number == 3
    else:
        with pytest.raises(TickerClosed):
            ticker.receive()


@pytest.mark.parametrize("end", ["stop", "cancel"])
def test_a_select_interrupted_after_the_end_gives_no_tick_back(
    clock: VirtualClock, end: str
) -> None:
    def disturb() -> None:
        token.cancel() if end == "cancel" else ticker.stop()
        raise KeyboardInterrupt

    token = CancellationToken()
    ticker = Ticker(ConstantBackOff(HOUR), clock=clock, token=token)
    selected = select_disturbed(clock, ticker, disturb)
    with pytest.raises(KeyboardInterrupt):
        selected.result(PATIENCE)
    with pytest.raises(TickerClosed):
        ticker.receive()


def test_an_asynchronous_select_that_had_taken_its_tick_returns_it(clock: VirtualClock) -> None:
    async def main() -> Any:
        return await select_async(ticker, Disturbing(ticker.reset))

    ticker = AsyncTicker(ConstantBackOff(HOUR), clock=clock)
    ticker.receive_nowait()
    _, tick = clock.run_async(main())
    assert tick.number == 2


def test_a_sender_that_is_stopped_gives_back_the_tick_that_a_reset_made_due(
    clock: VirtualClock,
) -> None:
    """The reset comes as the sender looks for a tick, so it takes the one that the reset brings."""

    class Disturbed(Ticker):
        def _poll(self, *, first_poll: bool = True) -> Any:
            if armed:
                armed.pop()()
                self.reset(immediately=True)
            return super()._poll(first_poll=first_poll)

    armed: list[Callable[[], object]] = []
    ticker = Disturbed(ConstantBackOff(HOUR), clock=clock)
    ticker.receive()
    push = ticker.send_to(queue.SimpleQueue())
    armed.append(push.stop)
    clock.settle()
    assert armed == []
    tick = ticker.receive_nowait()
    assert (tick.number, tick.delay) == (2, 0.0)


def test_nothing_comes_when_a_collection_stops_the_ticker_at_the_last_moment() -> None:
    """A finalizer may run wherever an object is made, so also right before the tick is taken."""
    import gc

    class Stopper:
        def __init__(self, ticker: Ticker, stopped_at: list[int]) -> None:
            self.ticker, self.stopped_at = ticker, stopped_at  # a late collection is not the next's

        def __del__(self) -> None:
            self.ticker.stop()
            self.stopped_at.append(self.ticker._pending.number)

    late = 0
    thresholds = gc.get_threshold()
    for threshold in range(1, 40, effort.rounds(4, 1)):
        ticker = Ticker(ConstantBackOff(0.0))
        ticker.receive()
        stopped_at: list[int] = []
        gc.collect()
        gc.disable()
        cycle: list[Any] = [Stopper(ticker, stopped_at)]
        cycle.append(cycle)
        del cycle
        try:
            gc.set_threshold(threshold)
            gc.enable()
            number = ticker.receive().number
        except TickerClosed:
            number = 0
        finally:
            gc.set_threshold(*thresholds)
            gc.enable()
        late += stopped_at == [number]
        gc.collect()
    assert late == 0


@pytest.mark.slow
@pytest.mark.parametrize("readers", [2, 8])
def test_idle_threads_that_read_one_ticker_stay_idle_after_a_wake_up(readers: int) -> None:
    ticker = Ticker(ConstantBackOff(HOUR))
    ticker.receive()
    threads = start_threads(readers, lambda _: list(ticker))
    eventually(lambda: len(waiters_of(ticker._readers)) == readers, "all wait")
    ticker.success()
    assert _cpu_of_idling(0.5) < 0.1
    ticker.stop()
    for thread in threads:
        thread.join(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("readers", [2, 8])
def test_idle_coroutines_that_read_one_ticker_stay_idle_after_a_wake_up(readers: int) -> None:
    async def main() -> float:
        ticker = AsyncTicker(ConstantBackOff(HOUR))
        await ticker.receive()
        tasks = [asyncio.create_task(ticker.receive()) for _ in range(readers)]
        await asyncio.sleep(0.05)
        ticker.success()
        before = time.process_time()
        await asyncio.sleep(0.5)
        used = time.process_time() - before
        ticker.stop()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in ended] == [TickerClosed] * readers
        return used

    assert run_loop(main()) < 0.1


@pytest.mark.slow
def test_threads_whose_leader_gives_up_stay_idle_and_one_watches_the_time(
    clock: VirtualClock,
) -> None:
    ticker = Ticker(ConstantBackOff(1.0), clock=clock)
    ticker.receive()
    leaver = in_thread(ticker.receive, 0.2)
    clock.settle()
    others = [in_thread(ticker.receive, 30) for _ in range(4)]
    clock.advance(0.2)
    with pytest.raises(TimeoutError):
        leaver.result(PATIENCE)
    assert _cpu_of_idling(0.4) < 0.1
    clock.advance(0.8)
    assert [other.done() for other in others].count(True) == 1
    ticker.stop()
    for other in others:
        assert other.exception(PATIENCE) is None or isinstance(other.exception(), TickerClosed)


def _cpu_of_idling(seconds: float) -> float:
    before = time.process_time()
    time.sleep(seconds)
    return time.process_time() - before


def test_the_first_run_of_a_sender_may_end_before_its_start_returns() -> None:
    """The scheduler thread takes the first tick and sets a timer while ``send_to`` still posts."""

    class Overtaken:
        def __init__(self) -> None:
            self.monotonic = time.monotonic
            self.time = time.time
            self.parker = SystemClock().parker
            self.timers: list[object] = []

        def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
            timer = SystemClock().call_at(when, callback, loop=loop)
            self.timers.append(timer)
            if len(self.timers) == 1:
                eventually(lambda: len(self.timers) >= 2, "the first run has set its timer")
            return timer

    clock: Any = Overtaken()
    ticker = Ticker(ConstantBackOff(HOUR), clock=clock)
    push = ticker.send_to(queue.SimpleQueue())
    push.stop()
    eventually(lambda: all(timer.spent for timer in clock.timers), "no timer is left")


def test_a_sender_that_its_own_sink_stops_leaves_the_line_at_once() -> None:
    class Sink:
        def put_nowait(self, _: object) -> None:
            go_on.wait(PATIENCE)
            pushes[0].stop()

    go_on = threading.Event()
    ticker = Ticker(ConstantBackOff(HOUR))
    pushes = [ticker.send_to(Sink())]
    go_on.set()
    eventually(lambda: pushes[0]._forwarder._stopped, "it is stopped")
    wait_until_left(pushes[0])


def test_the_first_timer_of_a_sender_that_is_stopped_as_it_is_set_is_cancelled() -> None:
    class Stopping:
        monotonic = staticmethod(time.monotonic)
        time = staticmethod(time.time)
        parker = staticmethod(SystemClock().parker)

        def __init__(self) -> None:
            self.timers: list[Any] = []

        def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
            timer = SystemClock().call_at(when, callback, loop=loop)
            self.timers.append(timer)
            if when > time.monotonic() + HOUR / 2:
                pushes[0].stop()
            return timer

    clock: Any = Stopping()
    ticker = Ticker(ConstantBackOff(HOUR), clock=clock)
    go_on = threading.Event()

    class Sink:
        def put_nowait(self, _: object) -> None:
            go_on.wait(PATIENCE)

    pushes = [ticker.send_to(Sink())]
    go_on.set()
    eventually(lambda: len(clock.timers) > 1, "it has set its timer")
    eventually(lambda: all(timer.spent for timer in clock.timers), "no timer is left")


# Many threads at the same change


def _calls_of(function: Any) -> int:
    """Return how many threads are in a function."""
    count = 0
    for innermost in sys._current_frames().values():
        frame: Any = innermost
        while frame is not None and frame.f_code is not function.__code__:
            frame = frame.f_back
        count += frame is not None
    return count


def at_once(ticker: Ticker, call: Callable[[], object], threads: int = 6) -> list[Any]:
    """Call in several threads, which all meet where they change the ticker; return the futures."""
    claim = ticker._readers.claim
    acquire(claim)
    try:
        calls = [in_thread(call) for _ in range(threads)]
        eventually(lambda: _calls_of(acquire) == threads, "they meet")
    finally:
        claim[FREE] = True
    for each in calls:
        each.exception(PATIENCE)
    return calls


def test_each_success_is_told_to_a_policy_that_is_just_being_asked() -> None:
    class Feedback(Hooked):
        told = 0

        def success(self) -> float:
            type(self).told += 1
            return 0.0

        def failure(self) -> float:
            return self.next_backoff()

    gate = Gate()
    ticker = Ticker(Feedback(0.0, lambda _: gate.stand()))
    ticker.receive()
    reader = in_thread(ticker.receive)
    gate.wait_until_reached()
    at_once(ticker, ticker.success)
    gate.open()
    reader.result(PATIENCE)
    assert Feedback.told == 6


def test_of_threads_that_find_a_failed_policy_at_once_one_gets_the_error() -> None:
    class Fails(Hooked):
        def next_backoff(self) -> float:
            raise ValueError

    ticker = Ticker(Fails(0.0, lambda _: None))
    ticker.receive()
    errors = [call.exception() for call in at_once(ticker, ticker.receive)]
    assert sorted(type(error).__name__ for error in errors) == ["TickerClosed"] * 5 + ["ValueError"]


def test_threads_that_take_ticks_at_once_get_one_each() -> None:
    ticker = Ticker(ConstantBackOff(0.0))
    ticks = [call.result() for call in at_once(ticker, ticker.receive)]
    assert sorted(tick.number for tick in ticks) == [1, 2, 3, 4, 5, 6]


def test_a_tick_given_back_after_a_reset_is_dropped_even_if_its_reader_saw_the_new_epoch() -> None:
    ticker = Ticker(ConstantBackOff(HOUR))
    ticker.reset(immediately=True)
    old = ticker.receive()
    ticker.reset(immediately=True)
    ticker._put_back(old)
    new = ticker.receive()
    assert (new.number, new.due > old.due) == (1, True)
    with pytest.raises(WouldBlock):
        ticker.receive_nowait()
