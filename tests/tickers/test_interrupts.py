"""An interrupt at every place where CPython may raise one: no tick is lost."""

from __future__ import annotations

import threading
from itertools import islice
from operator import itemgetter

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, Ticker, ZeroBackOff, with_max_retries
from backoff_ticker.waiting import Waiter, WaitLine
from tests.helpers import PATIENCE, eventually, in_thread, waiters_of
from tests.stress.places import InterruptAt, Interrupted, each_place

_number = itemgetter(0)


def _take(ticker: Ticker, interrupt: InterruptAt, taken: list[int]) -> None:
    """Take ticks like C code that collects them: what ``next`` returned is in the list."""
    try:
        with interrupt:
            taken.extend(map(_number, islice(ticker, 2)))
    except Interrupted:
        pass


@pytest.mark.parametrize("delay", [0.0, 0.002])
def test_an_interrupt_loses_no_tick_of_a_lone_reader(delay: float) -> None:
    lost: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        ticker = Ticker(ConstantBackOff(delay), token=CancellationToken())
        taken: list[int] = []
        _take(ticker, interrupt, taken)
        taken.append(in_thread(ticker.receive, 5).result(PATIENCE).number)
        if taken != list(range(1, len(taken) + 1)):
            lost.append((interrupt.where, taken))

    assert each_place(run) > 10
    assert lost == []


def test_an_interrupt_loses_no_tick_while_another_reader_waits() -> None:
    """The other reader wakes for each tick, and the interrupted one gives its tick back."""
    lost: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        ticker = Ticker(ConstantBackOff(0.004))
        taken = [ticker.receive().number]
        others: list[int] = []

        def collect() -> None:
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
            lost.append((interrupt.where, taken, others))

    assert each_place(run) > 10
    assert lost == []


def test_an_interrupt_loses_no_tick_that_was_given_back() -> None:
    lost: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        ticker = Ticker(ZeroBackOff())
        taken: list[int] = []
        ticker._put_back(ticker.receive())
        _take(ticker, interrupt, taken)
        taken.append(in_thread(ticker.receive, 5).result(PATIENCE).number)
        if taken != list(range(1, len(taken) + 1)):
            lost.append((interrupt.where, taken))

    assert each_place(run) > 3
    assert lost == []


def test_a_second_interrupt_while_a_tick_is_given_back_loses_no_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one comes as the others are told that the tick was taken, the second anywhere."""
    lost: list[object] = []
    wake_firsts = WaitLine.wake_firsts

    def run(interrupt: InterruptAt) -> None:
        def interrupted_once(line: WaitLine) -> None:
            patch.undo()
            raise Interrupted

        ticker = Ticker(ZeroBackOff())
        other = Waiter(None, (ticker._readers,))
        other.register()
        with monkeypatch.context() as patch:
            patch.setattr(WaitLine, "wake_firsts", interrupted_once)
            with pytest.raises(Interrupted), interrupt:
                ticker.receive_nowait()
        assert WaitLine.wake_firsts is wake_firsts
        numbers = [ticker.receive_nowait().number for _ in range(2)]
        if numbers != [1, 2]:
            lost.append((interrupt.where, numbers))

    assert each_place(run, all_of_them=True) > 10
    assert lost == []


@pytest.mark.parametrize("action", ["success", "failure", "reset", "stop"])
def test_an_interrupt_in_what_is_told_to_a_ticker_leaves_it_usable(action: str) -> None:
    stuck: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        ticker = Ticker(ConstantBackOff(0.002))
        ticker.receive()
        reader = in_thread(ticker.receive, 5)
        eventually(lambda: reader.done() or waiters_of(ticker._readers), "it waits")
        try:
            with interrupt:
                getattr(ticker, action)()
        except Interrupted:
            pass
        if action == "stop":
            ticker.stop()
        outcome = reader.exception(PATIENCE)
        if outcome is not None and action != "stop":
            stuck.append((interrupt.where, outcome))

    assert each_place(run) > 3
    assert stuck == []


def test_an_interrupted_wait_leaves_nobody_behind_in_the_line() -> None:
    left: list[object] = []

    def run(interrupt: InterruptAt) -> None:
        token = CancellationToken()
        ticker = Ticker(with_max_retries(ConstantBackOff(60.0), 3), token=token)
        ticker.receive()
        try:
            with interrupt:
                ticker.receive(0.002)
        except (Interrupted, TimeoutError):
            pass
        if waiters_of(token._wait_set()) or waiters_of(ticker._readers):
            left.append(interrupt.where)

    assert each_place(run) > 10
    assert left == []
