"""Tickers whose delays a user's timer measures: when it is started, fires and is stopped."""

import asyncio
import math
import weakref

import pytest
from hypothesis import given, settings, strategies as st

from backoff_ticker import (
    STOP,
    AsyncTicker,
    CancellationToken,
    Channel,
    CloseReason,
    ConstantBackOff,
    Pace,
    Ticker,
    TickerClosed,
    Timer,
    ZeroBackOff,
    select,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock
from tests.channels.ends import still_waits
from tests.helpers import PATIENCE, in_thread
from tests.interleaving import each_interleaving
from tests.retries.faces import in_a_loop
from tests.tickers.made_policies import (
    EVERY_PACE,
    Counting,
    Scripted,
    nothing_is_due,
    reader_that_waits,
    reason_of,
    ticked,
)
from tests.tickers.made_timers import Failing, Fake, Instant
from tests.tickers.test_feedback import Feedback


@pytest.mark.parametrize("pace", [Pace.RECEIPT, Pace.RETURN])
def test_it_is_started_once_with_each_delay_of_the_policy(face, clock, pace):
    delays = [0.1, 3.0, 0.7, 1e-9, 86400.5]
    timer = Fake()
    ticker = face.ticker(Scripted(*delays), timer=timer, pace=pace)
    for number in range(1, 6):
        face.receive(ticker)
        assert timer.delays == delays[: number if pace is Pace.RECEIPT else number - 1]
        clock.advance(0.3)
        nothing_is_due(ticker)
        nothing_is_due(ticker)
        assert ticker.next_delay == delays[number - 1]
        assert timer.delays == delays[:number]
        timer.fire()
    assert timer.stops == 0


def test_its_fire_counts_however_early_and_however_late(face, clock):
    timer = Fake()
    ticker = ticked(face, ConstantBackOff(10), timer=timer)
    clock.advance(4)
    timer.fire()
    early = face.receive(ticker)
    assert (early.due, early.lateness) == (1004, 0)
    clock.advance(100)
    nothing_is_due(ticker)
    timer.fire()
    late = face.receive(ticker)
    assert (late.number, late.due, late.lateness) == (3, 1014, 90)


def test_what_was_sent_before_the_start_is_dropped(face, clock):
    timer = Fake()
    timer.fire()
    ticker = ticked(face, ConstantBackOff(10), timer=timer)
    nothing_is_due(ticker)
    timer.fire(9.0)
    assert face.receive(ticker).time == 9.0


@EVERY_PACE
def test_a_timer_may_fire_inside_its_start(face, clock, pace):
    timer = Instant()
    ticker = face.ticker(with_max_retries(ConstantBackOff(10), 4), timer=timer, pace=pace)
    times = [tick.time for tick in face.iterate(ticker).result(PATIENCE)]
    assert times == [clock.time(), 1, 2, 3, 4]
    assert len(timer.delays) == 4
    assert timer.stops == 1


@pytest.mark.parametrize("in_its_start", [False, True])
@pytest.mark.parametrize(("sent", "expected"), [("5", TypeError), (math.nan, ValueError)])
def test_what_is_no_time_is_named_once_and_ends_the_ticker(
    face, clock, sent, expected, in_its_start
):
    timer = Fake()
    if in_its_start:
        timer.start = lambda delay: timer.fire(sent)
    ticker = ticked(face, ConstantBackOff(10), timer=timer)
    asking = face.start_receive(ticker)
    clock.settle()
    if not in_its_start:
        timer.fire(sent)
    failure = asking.exception(PATIENCE)
    assert type(failure) is expected
    assert "what the timer sent must be a time in Unix seconds" in str(failure)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED
    assert timer.stops == 1


@EVERY_PACE
@pytest.mark.parametrize("late", [0, 0.25, 25])
def test_however_late_it_fires_who_has_waited_gets_the_tick(face, clock, pace, late):
    """On a real clock each fire is late, if only just: none is passed by."""
    timer = Fake()
    ticker = ticked(face, ConstantBackOff(10), timer=timer, pace=pace)
    asking = reader_that_waits(face, clock, ticker)
    clock.advance(10 + late)
    still_waits(clock, asking)
    timer.fire(9.0)
    tick = asking.result(PATIENCE)
    assert (tick.number, tick.due, tick.lateness, tick.missed) == (2, 1010, late, 0)
    assert tick.time == 9.0
    next_delay = {Pace.RECEIPT: [10], Pace.BURST: [max(0, 10 - late)], Pace.SKIP: [10 - late % 10]}
    assert timer.delays == [10, *next_delay.get(pace, [])]
    ticker.stop()


class Running(Fake):
    """Knows whether it runs; ``meanwhile`` is called before its start has an effect."""

    def __init__(self):
        super().__init__()
        self.meanwhile = int
        self.runs = False

    def start(self, delay):
        super().start(delay)
        self.meanwhile()
        self.runs = True

    def stop(self):
        super().stop()
        self.runs = False


@EVERY_PACE
@pytest.mark.parametrize("by", ["itself", "another thread", "a token"])
def test_stopped_in_the_midst_of_its_start_it_does_not_run_on(face, clock, pace, by):
    timer, token = Running(), CancellationToken()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, token=token, pace=pace)
    timer.meanwhile = {
        "itself": ticker.stop,
        "another thread": lambda: in_thread(ticker.stop).result(PATIENCE),
        "a token": token.cancel,
    }[by]
    face.start_receive(ticker).exception(PATIENCE)  # the first tick, or the end, which came before
    reason = CloseReason.CANCELLED if by == "a token" else CloseReason.STOPPED
    assert reason_of(face.start_receive(ticker)) is reason
    assert len(timer.delays) == 1
    assert timer.stops >= 1
    assert not timer.runs


@EVERY_PACE
@pytest.mark.parametrize("begun", [False, True])
def test_a_ticker_that_nobody_holds_is_gone_while_its_timer_lives(face, clock, pace, begun):
    timer = Fake()
    ticker = ticked(face, ConstantBackOff(10), timer=timer, pace=pace)
    if begun:
        nothing_is_due(ticker)
        assert timer.delays == [10]
    gone = weakref.ref(ticker)
    del ticker
    clock.settle()
    assert gone() is None
    timer.fire()
    assert timer.c.receive_nowait() == 7.5


@EVERY_PACE
@pytest.mark.parametrize("ending", ["stop", "cancel", "with"])
@pytest.mark.parametrize("waiting", [False, True])
def test_it_is_stopped_with_the_ticker(face, clock, pace, ending, *, waiting):
    timer, token = Fake(), CancellationToken()
    ticker = face.ticker(ConstantBackOff(10), timer=timer, token=token, pace=pace)
    with ticker:
        face.receive(ticker)
        nothing_is_due(ticker)
        asking = face.start_receive(ticker) if waiting else None
        clock.settle()
        assert timer.stops == 0
        if ending == "stop":
            ticker.stop()
        elif ending == "cancel":
            token.cancel()
            assert ticker.closed
    if asking is not None:
        reason_of(asking)
    assert timer.stops == 1
    ticker.stop()
    assert timer.stops == 1
    timer.fire()
    with pytest.raises(TickerClosed):
        ticker.receive_nowait()
    assert len(timer.delays) == 1


@in_a_loop
async def test_what_the_timer_sends_as_a_stopped_ticker_is_left_goes_to_the_next_with_it():
    """The reader of the stopped one, woken but not gone yet, stands before that of the other."""
    timer = Fake()
    former, other = (AsyncTicker(ConstantBackOff(10), timer=timer) for _ in range(2))
    await former.receive()
    leaving = asyncio.create_task(former.receive())
    await asyncio.sleep(0)

    async def second_tick():
        await other.receive()
        return await other.receive()

    waiting = asyncio.create_task(second_tick())
    asyncio.get_running_loop().call_soon(timer.fire)
    former.stop()
    assert (await asyncio.wait_for(waiting, PATIENCE)).number == 2
    with pytest.raises(TickerClosed):
        await leaving


def test_stopped_by_two_threads_at_once_it_is_stopped_once(monkeypatch):
    """The second thread comes at each instruction of the first one in turn."""

    def begin():
        timers[:] = [Fake()]
        ticker = Ticker(ConstantBackOff(10), timer=timers[0])
        ticker.receive()
        return ticker.stop, ticker.stop

    timers = []
    for _ in each_interleaving(begin, monkeypatch):
        assert timers[0].stops == 1


def test_a_failing_stop_is_reported_and_ends_the_ticker(face, clock, unraisable):
    timer = Failing(LookupError("no stop"), stop=True)
    ticker = ticked(face, ConstantBackOff(10), timer=timer)
    asking = reader_that_waits(face, clock, ticker)
    ticker.stop()
    assert reason_of(asking) is CloseReason.STOPPED
    assert [report.exc_value for report in unraisable] == [timer.error]


@EVERY_PACE
@pytest.mark.parametrize("start", [1, 2])
def test_a_failing_start_is_raised_once_and_ends_the_ticker(face, clock, pace, start):
    timer = Failing(LookupError("no start"), start=start)
    ticker = ticked(face, ConstantBackOff(10), timer=timer, pace=pace)
    if start == 2:
        nothing_is_due(ticker)
        timer.fire()
        assert face.receive(ticker).number == 2
    assert face.start_receive(ticker).exception(PATIENCE) is timer.error
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


@pytest.mark.parametrize("when", ["before", "while it waits", "with an item"])
def test_a_closed_channel_ends_the_ticker(face, clock, when):
    timer = Fake()
    ticker = face.ticker(ConstantBackOff(10), timer=timer)
    if when == "before":
        timer.c.close()
    face.receive(ticker)
    asking = face.start_receive(ticker)
    clock.settle()
    if when == "with an item":
        timer.fire()
        timer.c.close()
        assert asking.result(PATIENCE).number == 2
        asking = face.start_receive(ticker)
    timer.c.close()
    assert "closed" in str(asking.exception(PATIENCE))
    assert isinstance(asking.exception(), RuntimeError)
    assert reason_of(face.start_receive(ticker)) is CloseReason.FAILED


class WithoutStop:
    c = Channel(1)

    def start(self, delay): ...


@pytest.mark.parametrize("timer", [5, Fake, Channel(1), WithoutStop()])
def test_what_is_no_timer_is_refused(face, timer):
    with pytest.raises(TypeError, match="timer must"):
        face.ticker(ZeroBackOff(), timer=timer)


# Readers


def test_one_fire_is_one_tick_for_one_of_many_readers(face, clock):
    timer = Fake()
    ticker = ticked(face, ConstantBackOff(10), timer=timer)
    readers = [face.start_receive(ticker) for _ in range(4)]
    readers += [in_thread(lambda: select(ticker, Channel())[1]) for _ in range(2)]
    for fired in range(1, 7):
        clock.settle()
        assert sum(reader.done() for reader in readers) == fired - 1
        timer.fire(float(fired))
    taken = sorted(reader.result(PATIENCE) for reader in readers)
    assert [(tick.number, tick.time) for tick in taken] == [(n, n - 1) for n in range(2, 8)]
    assert timer.delays == [10] * 7


# Told by its readers


@EVERY_PACE
def test_a_reset_starts_it_anew_for_a_full_first_delay(face, clock, pace):
    timer = Fake()
    ticker = ticked(face, Counting(), timer=timer, pace=pace)
    asking = reader_that_waits(face, clock, ticker)
    clock.advance(0.5)
    ticker.reset()
    still_waits(clock, asking)
    assert timer.delays == [1, 1]
    timer.fire(8.0)
    tick = asking.result(PATIENCE)
    assert (tick.number, tick.time, tick.delay) == (2, 8.0, 1)
    ticker.reset(ConstantBackOff(60))
    asking = reader_that_waits(face, clock, ticker)
    assert timer.delays[-1] == 60
    assert timer.delays.count(60) == 1
    ticker.stop()


def test_a_success_starts_it_for_what_is_left_of_the_new_delay(face, clock):
    timer = Fake()
    ticker = face.ticker(Counting(), timer=timer)
    for _ in range(2):
        face.receive(ticker)
        timer.fire()
    face.receive(ticker)
    assert timer.delays == [1, 2, 3]
    clock.advance(0.25)
    ticker.success()
    assert timer.delays == [1, 2, 3, 0.75]
    timer.fire()
    assert face.receive(ticker).delay == 1


@pytest.mark.parametrize(
    ("outcome", "delay"), [("success", 1.0), ("failure", 10.0), ("no word", 10.0)]
)
def test_for_a_policy_that_hears_the_outcome_it_is_started_then(face, clock, outcome, delay):
    timer = Fake()
    ticker = face.ticker(Feedback(), timer=timer)
    for started in range(3):
        face.receive(ticker)
        assert len(timer.delays) == started
        if outcome != "no word":
            getattr(ticker, outcome)()
            assert len(timer.delays) == started + 1
        asking = reader_that_waits(face, clock, ticker)
        assert timer.delays == [delay] * (started + 1)
        timer.fire()
        assert asking.result(PATIENCE).delay == delay
        ticker.reset(immediately=True)


# The timer of the clock itself


def ticks_of(delays, waits, pace, *, timed):
    """What a reader sees who works so long after each tick."""
    with VirtualClock(1000.0, epoch=5000.0) as clock:
        timer = Timer(clock=clock) if timed else None
        ticker = Ticker(Scripted(*delays, then=STOP), pace=pace, timer=timer)
        seen = []

        def read():
            for work, tick in zip([*waits, 0.0], ticker, strict=False):
                # A timer that is started late sends the time at which it fired, not the due one.
                time = None if pace in (Pace.BURST, Pace.SKIP) else tick.time
                seen.append((clock.monotonic(), *tick._replace(time=time)))
                if work:
                    clock.sleep(work)

        clock.run(read)
        seen.append(ticker.close_reason)
        ticker.stop()
    return seen


QUARTERS = st.integers(0, 40).map(lambda quarters: quarters / 4)


@EVERY_PACE
@settings(derandomize=True)
@given(delays=st.lists(QUARTERS, max_size=5), waits=st.lists(QUARTERS, max_size=6))
def test_the_timer_of_the_clock_changes_nothing(pace, delays, waits):
    assert ticks_of(delays, waits, pace, timed=True) == ticks_of(delays, waits, pace, timed=False)


def test_a_select_starts_no_timer_again_that_is_a_little_late(face, clock):
    """Also where late ticks are skipped: the tick has a reader before the timer fires."""
    timer = Fake()
    ticker = ticked(face, ConstantBackOff(10), timer=timer, pace=Pace.SKIP)
    clock.advance(10.5)
    selecting = in_thread(lambda: select(ticker, Channel())[1])
    still_waits(clock, selecting)
    assert timer.delays == [10]
    timer.fire()
    tick = selecting.result(PATIENCE)
    assert (tick.number, tick.due, tick.missed) == (2, 1010, 0)
    assert timer.delays == [10, 9.5]


@EVERY_PACE
def test_an_immediate_reset_stops_it_and_needs_no_fire(face, clock, pace):
    timer = Fake()
    ticker = ticked(face, Counting(), timer=timer, pace=pace)
    asking = reader_that_waits(face, clock, ticker)
    clock.advance(0.5)
    ticker.reset(immediately=True)
    tick = asking.result(PATIENCE)
    assert (tick.number, tick.time, tick.delay) == (2, clock.time(), 0)
    assert timer.stops == 1
    asking = reader_that_waits(face, clock, ticker)
    assert timer.delays == [1, 1]
    ticker.stop()
