"""An interrupt at every place of channels, ``select`` and timers: nothing is taken, or lost."""

import asyncio
from contextlib import suppress
from math import inf

import pytest

from backoff_ticker import (
    CLOSED,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Pace,
    SystemClock,
    Ticker,
    Timer,
    WouldBlock,
    select,
)
from tests.channels.traffic import CAPACITIES, Traffic
from tests.helpers import PATIENCE, eventually, in_thread, waiters_of
from tests.stress.places import Interrupted, check_each_place
from tests.tickers.made_timers import Fake

LIMITED = pytest.mark.parametrize("capacity", [2, 0])


def check_channel(capacity, scenario, *, full=False, everywhere=False):
    """Interrupt the scenario's act at each place, and look at the sum of what went in and out."""
    prepare, act = scenario

    def run(interrupt):
        traffic = Traffic(capacity, int(capacity) if full else 0)
        prepare(traffic)
        with suppress(Interrupted), interrupt:
            act(traffic)
        return traffic.faults()

    check_each_place(run, all_of_them=everywhere)


def senders_wait_and_all_is_taken(traffic):
    traffic.senders_wait()

    def take_all():
        for _ in range(3 + int(traffic.channel.capacity)):
            traffic.receive(0.02)

    traffic.once_waiting(3, take_all)


def receivers_wait_and_all_get_items(traffic):
    traffic.receivers_wait()

    def send_all():
        for number in range(4):
            traffic.send(f"item {number}")

    traffic.once_waiting(3, send_all)


def send_behind_it(traffic, *_):
    """Another receiver comes, then an item, which it gets if the first is interrupted."""

    def send():
        receiver = traffic.other(traffic.receive)
        eventually(lambda: traffic._waiting() == 2 or receiver.done(), "it waits")
        traffic.send_nowait("item")

    traffic.once_waiting(1, send)


def twice(act):
    return lambda traffic: (act(traffic), act(traffic))


ON_A_FULL_CHANNEL = {
    "send_nowait behind blocked senders": (Traffic.senders_wait, lambda t: t.send_nowait("item")),
    "send waits for a receiver": (
        lambda t: t.once_waiting(1, t.receive, PATIENCE),
        lambda t: t.send("item"),
    ),
    "send waits behind others": (senders_wait_and_all_is_taken, lambda t: t.send("item")),
    "send runs out of time": (lambda _: None, lambda t: t.send("item", 0.0005)),
    "send meets the end": (lambda t: t.once_waiting(1, t.close), lambda t: t.send("item")),
    "receive from blocked senders": (Traffic.senders_wait, twice(Traffic.receive)),
    "receive_nowait from blocked senders": (Traffic.senders_wait, twice(Traffic.receive_nowait)),
}

ON_AN_EMPTY_CHANNEL = {
    "send_nowait to receivers": (Traffic.receivers_wait, lambda t: t.send_nowait("item")),
    "send to receivers": (Traffic.receivers_wait, lambda t: t.send("item", PATIENCE)),
    "receive what is there": (lambda t: t.send_nowait("item"), Traffic.receive),
    "receive waits for send": (lambda t: t.once_waiting(1, t.send, "item"), Traffic.receive),
    "receive in time waits for send_nowait": (
        lambda t: t.once_waiting(1, t.send_nowait, "item"),
        lambda t: t.receive(PATIENCE),
    ),
    "receive beside others": (receivers_wait_and_all_get_items, Traffic.receive),
    "receive before another": (send_behind_it, lambda t: t.receive(0.005)),
    "receive runs out of time": (lambda _: None, lambda t: t.receive(0.0005)),
    "iteration meets the end": (lambda t: t.once_waiting(1, t.close), Traffic.next),
}


@LIMITED
@pytest.mark.parametrize("scenario", ON_A_FULL_CHANNEL.values(), ids=ON_A_FULL_CHANNEL)
def test_an_interrupt_on_a_full_channel(capacity, scenario):
    check_channel(capacity, scenario, full=True)


@CAPACITIES
@pytest.mark.parametrize("scenario", ON_AN_EMPTY_CHANNEL.values(), ids=ON_AN_EMPTY_CHANNEL)
def test_an_interrupt_on_an_empty_channel(capacity, scenario):
    if capacity == 0 and scenario is ON_AN_EMPTY_CHANNEL["receive what is there"]:
        return
    check_channel(capacity, scenario)


def test_an_interrupted_receiver_passes_its_wake_up_on():
    check_channel(2, ON_AN_EMPTY_CHANNEL["receive before another"], everywhere=True)


@CAPACITIES
def test_sending_and_receiving_in_a_loop(capacity):
    """What runs for both tasks is interrupted; not their loop, which would not run on."""

    def run(interrupt):
        traffic = Traffic(capacity)

        async def send():
            for number in range(3):
                with suppress(Interrupted):
                    await traffic.send_async(number)
            try:
                traffic.close()
            except Interrupted:
                traffic.close()

        async def receive():
            while True:
                with suppress(Interrupted):
                    if not await traffic.receive_async():
                        return

        async def main():
            async with asyncio.timeout(PATIENCE):
                with interrupt:
                    await asyncio.gather(receive(), send())

        asyncio.run(main())
        return traffic.faults()

    check_each_place(run, but=("fire",), at_least=20)


def select_from(traffics, timeout):
    source, item = select(*[traffic.channel for traffic in traffics], timeout=timeout)
    if item is not CLOSED:
        next(t for t in traffics if t.channel is source).note(item)


def send_to_both(one, two):
    def send():
        for traffic in (one, two):  # one rendezvous may be over
            traffic.send_nowait("item")

    one.once_waiting(1, send)


def send_waits(one, _):
    one.other(one.send, "waiting")
    one.wait_for(1)


SELECTS = {
    "an item comes": (lambda _, two: two.once_waiting(1, two.send_nowait, "item"), PATIENCE),
    "a sender waits": (send_waits, PATIENCE),
    "both get items": (send_to_both, PATIENCE),
    "another receiver comes": (send_behind_it, 0.005),
    "time is up": (lambda *_: None, 0.0005),
    "an end comes": (lambda one, _: one.once_waiting(1, one.close), PATIENCE),
}


@LIMITED
@pytest.mark.parametrize("case", SELECTS)
def test_an_interrupt_of_a_select(capacity, case):
    """The wake-ups of the channels that are not chosen, or of all, go on to others who wait."""
    prepare, timeout = SELECTS[case]

    def run(interrupt):
        one = Traffic(capacity, capacity if case == "a sender waits" else 0)
        two = Traffic(capacity)
        prepare(one, two)
        with suppress(Interrupted, TimeoutError), interrupt:
            select_from([one, two], timeout)
        return one.faults() + two.faults()

    check_each_place(run, at_least=10)


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_selecting_from_a_ticker_loses_no_tick(delay):
    def run(interrupt):
        ticker = Ticker(ConstantBackOff(delay), token=CancellationToken())
        taken = []
        with suppress(Interrupted), interrupt:
            for _ in range(2):
                taken.append(select(ticker, Channel(), timeout=PATIENCE)[1].number)
        taken.append(in_thread(ticker.receive, PATIENCE).result(PATIENCE).number)
        return [] if taken == list(range(1, len(taken) + 1)) else [taken]

    check_each_place(run, at_least=20)


def select_once_waiting(source, silent, news):
    """Select from two sources; ``news`` of the first comes in another thread once that waits."""

    def tell():
        eventually(lambda: waiters_of(silent._buffer) or selected, "it waits")
        news()

    selected = []
    telling = in_thread(tell)
    try:
        return select(silent, source, timeout=PATIENCE)[1]
    finally:
        selected.append(True)
        telling.result(PATIENCE)


def test_an_item_that_is_given_back_after_the_end_is_received():
    """The handler ends the channel, and another receiver sees that, before the item is back."""

    def run(interrupt):
        channel, silent = Channel(inf), Channel()
        got, sent = [], []

        def end():
            if sent:
                channel.close()
                got.extend(channel)
            raise Interrupted

        def send():
            channel.send("a")
            sent.append(True)

        interrupt.handler = end
        with suppress(Interrupted), interrupt:
            got.append(select_once_waiting(channel, silent, send))
        channel.close()
        got += channel
        return [] if got == ["a"] else [got]

    check_each_place(run, at_least=20)


@pytest.mark.parametrize("act", ["start", "stop"])
def test_the_time_of_a_start_that_is_over_is_not_given_back(act):
    def run(interrupt):
        timer, silent = Timer(), Channel()

        def restart():
            timer.start(3600) if act == "start" else timer.stop()
            raise Interrupted

        interrupt.handler = restart
        try:
            with interrupt:
                select_once_waiting(timer, silent, lambda: timer.start(0.0))
        except Interrupted:
            eventually(lambda: not len(timer.c) or timer.stop() is None, "it is dropped")
        timer.stop()
        return [*timer.c._buffer.items]

    check_each_place(run, at_least=20)


# Timers, and tickers with a timer: no time is lost or stale


HOUR = 3600.0


def received(source):
    """Return what another thread receives."""
    return in_thread(source.receive, PATIENCE).result(PATIENCE)


@pytest.mark.parametrize("state", ["new", "started", "fired"])
@pytest.mark.parametrize("act", ["start", "stop"])
def test_a_timer_whose_start_or_stop_was_interrupted_tells_nothing_stale(state, act):
    def run(interrupt):
        timer = Timer(clock=SystemClock())
        if state != "new":
            timer.start(HOUR if state == "started" else 0)
        if state == "fired":
            eventually(lambda: len(timer.c) == 1, "it fires")
        with suppress(Interrupted), interrupt:
            timer.start(HOUR) if act == "start" else timer.stop()
        begun = SystemClock().time()
        timer.start(0.0001)
        if received(timer.c) < begun or len(timer.c):
            yield "stale"
        timer.start(HOUR)
        if not timer.stop():
            yield "not stopped"

    check_each_place(run)


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_selecting_from_a_timer_loses_no_time(delay):
    def run(interrupt):
        timer = Timer(clock=SystemClock())
        timer.start(delay)
        taken = []
        try:
            with interrupt:
                taken.append(select(Channel(), timer, timeout=PATIENCE)[1])
        except Interrupted:
            taken.append(received(timer.c))
        timer.stop()
        return [*timer.c._buffer.items]

    check_each_place(run, at_least=20)


class Recording(Fake):
    """Fires when told; notes what it was fired with."""

    def __init__(self):
        super().__init__()
        self.fired = []

    def fire(self, time=0.0):
        self.fired.append(len(self.fired) + 1.0)
        super().fire(self.fired[-1])


class Inside(Recording):
    """Fires in its start."""

    def start(self, delay):
        super().start(delay)
        self.fire()


@pytest.mark.parametrize("pace", list(Pace))
@pytest.mark.parametrize("kind", [Recording, Inside])
def test_an_interrupt_of_a_reader_loses_no_fire(pace, kind):
    """Each delay starts the timer once, and each fire is a tick; fired inside its start or not."""

    def run(interrupt):
        timer = kind()
        ticker = Ticker(ConstantBackOff(HOUR), timer=timer, pace=pace)
        ticker.receive()
        taken = []

        def fire():
            if kind is Recording:
                with suppress(WouldBlock):
                    ticker.receive_nowait()
                    raise AssertionError("a tick without a fire")
                timer.fire()

        fire()
        try:
            with interrupt:
                taken.append(ticker.receive(PATIENCE).time)
        except Interrupted:
            taken.append(received(ticker).time)
        fire()
        taken.append(received(ticker).time)
        # A start that was interrupted is done again: what it has sent inside is stale.
        ordered = taken[0] < taken[1] <= len(timer.fired)
        right = ordered if kind is Inside else taken == [1.0, 2.0]
        return [] if right and len(timer.delays) <= 4 else [(taken, timer.delays)]

    check_each_place(run, at_least=15)
