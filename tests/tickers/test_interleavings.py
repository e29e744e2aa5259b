"""What a second thread, or an interrupt, does at each instruction of a thread at a ticker."""

import asyncio
import threading
from contextlib import nullcontext, suppress
from functools import partial
from itertools import islice
from operator import itemgetter

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
    with_max_retries,
)
from backoff_ticker.waiting import Waiter
from tests.helpers import PATIENCE, eventually, in_thread, slow, waiters_of
from tests.interleaving import each_meeting
from tests.stress.places import Interrupted, check_each_place, each_place
from tests.stress.tools import Gate
from tests.tickers.made_policies import Scripted

HOUR = 3600.0


class Scene:
    """A ticker whose first tick was taken and whose second one is due, and what ends it."""

    def __init__(self, policy=None, *, others_wait=False):
        self.token = CancellationToken()
        self.ticker = Ticker(policy or ZeroBackOff(), token=self.token)
        self.ticker.receive()
        if others_wait:  # then a reader that takes a tick has to tell them
            self.other = Waiter(None, (self.ticker._readers,))
            self.other.register()

    def receive(self):
        """Return the number of a tick; None if there is none now; else why there is none."""
        try:
            return self.ticker.receive_nowait().number
        except WouldBlock:
            return None
        except TickerClosed as closed:
            return closed.reason

    def stop(self):
        self.ticker.stop()

    def cancel(self):
        self.token.cancel()

    def reset(self):
        self.ticker.reset(ConstantBackOff(HOUR))

    def taken(self):
        """Return how many ticks the ticker says were taken."""
        return int(repr(self.ticker).split(" tick")[0].rpartition(" ")[2])


END = {Scene.stop: CloseReason.STOPPED, Scene.cancel: CloseReason.CANCELLED, Scene.reset: None}


@pytest.mark.parametrize("end", [Scene.stop, slow(Scene.cancel), slow(Scene.reset)])
@pytest.mark.parametrize(
    ("reader_first", "others_wait"), [(True, True), slow(False, True), slow(False, False)]
)
def test_a_tick_that_meets_an_end_or_a_reset_is_received_or_not_taken(
    monkeypatch, reader_first, end, others_wait
):
    """And a receive that begins after the call has returned gets nothing."""
    acts = [Scene.receive, end] if reader_first else [end, Scene.receive]
    make = partial(Scene, others_wait=others_wait)
    for scene, outcomes in each_meeting(make, acts, monkeypatch):
        received = outcomes[acts.index(Scene.receive)]
        assert received in (2, None, END[end])
        assert scene.taken() == (2 if received == 2 else 1)
        assert scene.receive() is END[end]
        if end is Scene.reset:
            scene.ticker.reset(immediately=True)
            assert scene.receive() == scene.taken()


@pytest.mark.parametrize("act", [slow("success"), "reset"])
def test_a_stop_that_meets_another_call_ends_the_ticker(monkeypatch, act):
    acts = [Scene.stop, lambda scene: getattr(scene.ticker, act)()]
    for scene, outcomes in each_meeting(Scene, acts, monkeypatch):
        assert outcomes[0] is None
        assert outcomes[1] is None or (act == "reset" and isinstance(outcomes[1], TickerClosed))
        assert scene.receive() is CloseReason.STOPPED


def test_threads_that_take_ticks_at_once_get_one_each(monkeypatch):
    for scene, numbers in each_meeting(Scene, [Scene.receive] * 2, monkeypatch):
        taken = [number for number in (*numbers, scene.receive()) if number]
        assert sorted(taken) == list(range(2, len(taken) + 2))
        assert len(taken) >= 2


def test_of_threads_that_find_a_failed_policy_at_once_one_gets_the_error(monkeypatch):
    def receive(scene):
        try:
            return str(scene.receive())
        except ValueError:
            return "error"

    make = lambda: Scene(Scripted(ValueError()))
    for _, outcomes in each_meeting(make, [receive] * 2, monkeypatch):
        assert sorted(outcomes) == ["error", "failed"]


class Told(Scripted):
    """A feedback policy without delays that counts what it is told."""

    told = 0

    def success(self):
        self.told += 1
        return 0.0

    def failure(self):
        return 0.0


@pytest.mark.slow
def test_each_success_is_told_to_the_policy(monkeypatch):
    acts = [lambda scene: scene.ticker.success()] * 2
    for scene, outcomes in each_meeting(lambda: Scene(Told()), acts, monkeypatch):
        assert outcomes == (None, None)
        assert scene.ticker.backoff.told == 2


def test_a_cancel_that_is_found_while_a_rule_is_applied_takes_nobody_the_first_tick():
    gate = Gate()

    class Slow(Scripted):
        def reset(self):
            super().reset()
            if self.resets == 2:  # the first was that of the ticker's own run
                gate.stand()

    token = CancellationToken()
    token.cancel()
    ticker = Ticker(Slow(then=60.0), token=token)
    telling = in_thread(ticker.success)
    gate.wait_until_reached()
    reading = in_thread(ticker.receive)
    eventually(lambda: waiters_of(ticker._readers) or reading.done(), "it waits")
    gate.open()
    telling.result(PATIENCE)
    assert reading.result(PATIENCE).number == 1
    with pytest.raises(TickerClosed, match="cancelled"):
        ticker.receive()


# Interrupts: no tick is lost

_number = itemgetter(0)


def _take(ticker, interrupt, taken):
    """Take ticks like C code that collects them: what ``next`` returned is in the list."""
    with suppress(Interrupted), interrupt:
        taken.extend(map(_number, islice(ticker, 2)))


@pytest.mark.parametrize(("delay", "given_back"), [(0.0, False), (0.002, False), (0.0, True)])
def test_an_interrupt_loses_no_tick_of_a_lone_reader(delay, given_back):
    def run(interrupt):
        ticker = Ticker(ConstantBackOff(delay), token=CancellationToken())
        taken = []
        if given_back:
            ticker._put_back(ticker.receive())
        _take(ticker, interrupt, taken)
        taken.append(in_thread(ticker.receive, 5).result(PATIENCE).number)
        return [] if taken == list(range(1, len(taken) + 1)) else [taken]

    check_each_place(run, at_least=11)


def test_an_interrupt_loses_no_tick_while_another_reader_waits():
    """The other reader wakes for each tick, and the interrupted one gives its tick back."""

    def run(interrupt):
        ticker = Ticker(ConstantBackOff(0.004))
        taken = [ticker.receive().number]
        others = []

        def collect():
            others.extend(tick.number for tick in ticker)

        other = threading.Thread(target=collect, daemon=True)
        other.start()
        eventually(lambda: waiters_of(ticker._readers), "the other waits")
        _take(ticker, interrupt, taken)
        seen = len(others)
        eventually(lambda: len(others) > seen or not other.is_alive(), "the other goes on")
        ticker.stop()
        other.join(PATIENCE)
        numbers = sorted(taken + others)
        if other.is_alive() or numbers != list(range(1, len(numbers) + 1)):
            return [(taken, others)]
        return []

    check_each_place(run, at_least=11)


@pytest.mark.parametrize("action", ["success", "failure", "reset", "stop"])
def test_an_interrupt_in_what_is_told_to_a_ticker_leaves_it_usable(action):
    def run(interrupt):
        ticker = Ticker(ConstantBackOff(0.002))
        ticker.receive()
        reader = in_thread(ticker.receive, 5)
        eventually(lambda: reader.done() or waiters_of(ticker._readers), "it waits")
        with suppress(Interrupted), interrupt:
            getattr(ticker, action)()
        if action == "stop":
            ticker.stop()
        outcome = reader.exception(PATIENCE)
        return [] if outcome is None or action == "stop" else [outcome]

    check_each_place(run, at_least=4)


def test_an_interrupt_as_a_reader_of_a_loop_leaves_has_the_next_watch_the_time():
    class Interruptible(AsyncTicker):
        def _end_wait(self, waiter, future):
            both_wait = len(waiters_of(self._readers)) == 2
            is_leaving = both_wait and asyncio.current_task().get_name() == "leaving"
            with interrupts.pop() if interrupts and is_leaving else nullcontext():
                super()._end_wait(waiter, future)

    interrupts = []

    async def read(interrupt):
        interrupts.append(interrupt)
        while interrupts:  # again, where the first is not the one that leaves while both wait
            ticker = Interruptible(ConstantBackOff(0.002), token=CancellationToken())
            await ticker.receive()
            names = "leaving", "other"
            leaving, other = (asyncio.create_task(ticker.receive(), name=name) for name in names)
            with suppress(Interrupted):
                await leaving
            too_late, interrupts[:] = interrupts[:], []
            assert await asyncio.wait_for(other, PATIENCE), interrupt.where
            interrupts[:] = too_late

    assert each_place(lambda interrupt: asyncio.run(read(interrupt)), all_of_them=True) > 10


def test_an_interrupted_wait_leaves_nobody_behind_in_the_line():
    def run(interrupt):
        token = CancellationToken()
        ticker = Ticker(with_max_retries(ConstantBackOff(60.0), 3), token=token)
        ticker.receive()
        with suppress(Interrupted, TimeoutError), interrupt:
            ticker.receive(0.002)
        return waiters_of(token._wait_set()) + waiters_of(ticker._readers)

    check_each_place(run, at_least=11)
