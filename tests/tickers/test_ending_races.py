"""A tick meets the end of its ticker, many times.

A receive that begins after ``stop()`` or ``cancel()`` has returned gets none.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Tick,
    Ticker,
    TickerClosed,
    ZeroBackOff,
    with_token,
)
from tests import effort
from tests.helpers import PATIENCE, LoopThread, eventually, in_thread, waiters_of
from tests.stress.tools import Gate, fast_switching, join_all, run_loop, start_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = effort.rounds(100, 2000)
READERS = 3


@pytest.fixture(autouse=True)
def _fast() -> Iterator[None]:
    with fast_switching():
        yield


class Round:
    """One ticker and what its readers saw; ``told`` is set once the end was told."""

    def __init__(self, ticker: Any) -> None:
        self.ticker = ticker
        self.told = False
        self.late = 0
        self.numbers: list[int] = []

    def note(self, tick: Tick, *, began_late: bool) -> None:
        self.late += began_late
        self.numbers.append(tick.number)

    def read_by_iteration(self) -> None:
        while True:
            began_late = self.told
            tick = next(self.ticker, None)
            if tick is None:
                return
            self.note(tick, began_late=began_late)

    def read_by_receive(self) -> None:
        while True:
            began_late = self.told
            try:
                tick = self.ticker.receive(timeout=5)
            except TickerClosed:
                return
            self.note(tick, began_late=began_late)

    async def read_in_loop(self) -> None:
        while True:
            began_late = self.told
            tick = await anext(self.ticker, None)
            if tick is None:
                return
            self.note(tick, began_late=began_late)


def _race(make: Callable[[], Round], end: Callable[[Round], object], readers: int) -> list[Round]:
    """In each round ``readers`` threads, used again and again, read until the end is told."""
    rounds = [make() for _ in range(ROUNDS)]
    meet = threading.Barrier(readers + 1)

    def read(index: int) -> None:
        for this in rounds:
            meet.wait(30)
            (this.read_by_iteration if index % 2 else this.read_by_receive)()
            meet.wait(30)

    threads = start_threads(readers, read)
    for number, this in enumerate(rounds):
        meet.wait(30)
        for _ in range(number % 50):
            pass
        end(this)
        this.told = True
        meet.wait(30)
    join_all(threads)
    return rounds


def _check(rounds: list[Round], reason: CloseReason, readers: int = 1) -> None:
    assert sum(this.late for this in rounds) == 0
    for this in rounds:
        assert len(set(this.numbers)) == len(this.numbers)
        if readers == 1:
            assert this.numbers == list(range(1, len(this.numbers) + 1))
        assert this.ticker.close_reason is reason


@pytest.mark.parametrize("readers", [1, READERS])
def test_no_tick_is_received_after_stop_in_many_races_of_threads(readers: int) -> None:
    rounds = _race(lambda: Round(Ticker(ZeroBackOff())), lambda r: r.ticker.stop(), readers)
    _check(rounds, CloseReason.STOPPED, readers)


@pytest.mark.parametrize("kind", ["plain", "deadline", "in the policy"])
def test_no_attempt_follows_a_cancel_in_many_races_of_threads(kind: str) -> None:
    def make() -> Round:
        token = CancellationToken().child(timeout=None if kind != "deadline" else 3600)
        if kind == "in the policy":
            this = Round(Ticker(with_token(ZeroBackOff(), token)))
        else:
            this = Round(Ticker(ZeroBackOff(), token=token))
        this.token = token  # type: ignore[attr-defined]
        # Rule 1: the first tick comes in any case, so the race is for those after it.
        this.numbers.append(this.ticker.receive().number)
        return this

    rounds = _race(make, lambda r: r.token.cancel(), 1)
    _check(rounds, CloseReason.CANCELLED)


def test_no_tick_is_received_after_stop_in_many_races_with_a_loop() -> None:
    loop = LoopThread(debug=False)
    rounds = [Round(AsyncTicker(ZeroBackOff())) for _ in range(ROUNDS)]
    begun = threading.Semaphore(0)

    async def read() -> None:
        for this in rounds:
            begun.release()
            await this.read_in_loop()

    reading = loop.submit(read())
    for number, this in enumerate(rounds):
        assert begun.acquire(timeout=10)
        for _ in range(number % 50):
            pass
        this.ticker.stop()
        this.told = True
    reading.result(20)
    loop.close()
    assert loop.errors == []
    _check(rounds, CloseReason.STOPPED)


def test_no_attempt_follows_a_cancel_in_many_races_of_timers_in_a_loop() -> None:
    async def main() -> list[Round]:
        rounds = []
        for number in range(ROUNDS):
            token = CancellationToken()
            this = Round(AsyncTicker(ConstantBackOff(0.0002), token=token))
            reading = asyncio.create_task(this.read_in_loop())
            await asyncio.sleep(0.0001 * (number % 8))
            token.cancel()
            this.told = True
            await reading
            rounds.append(this)
        return rounds

    rounds = run_loop(main())
    assert {len(this.numbers) for this in rounds} >= {1, 2}
    assert sum(this.late for this in rounds if len(this.numbers) > 1) == 0
    _check([this for this in rounds if not this.late], CloseReason.CANCELLED)


def test_no_tick_from_before_a_reset_is_received_after_it_in_many_races() -> None:
    """A lone reader of a zero back-off; the reset makes the next tick an hour away."""
    rounds = [Round(Ticker(ZeroBackOff())) for _ in range(ROUNDS)]
    meet = threading.Barrier(2)

    def read() -> None:
        for this in rounds:
            meet.wait(30)
            this.read_by_iteration()
            meet.wait(30)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    hour = ConstantBackOff(3600)
    for number, this in enumerate(rounds):
        meet.wait(30)
        for _ in range(number % 50):
            pass
        this.ticker.reset(hour)
        this.told = True
        this.ticker.stop()
        meet.wait(30)
    join_all([reader])
    _check(rounds, CloseReason.STOPPED)


@pytest.mark.parametrize("act", ["success", "reset"])
def test_a_stop_that_meets_another_call_ends_the_ticker(act: str) -> None:
    rounds = [Round(Ticker(ConstantBackOff(0.0))) for _ in range(ROUNDS)]
    meet = threading.Barrier(3)
    unexpected: list[BaseException] = []

    def call() -> None:
        for this in rounds:
            meet.wait(30)
            try:
                getattr(this.ticker, act)()
            except TickerClosed:
                pass
            except BaseException as error:
                unexpected.append(error)
            meet.wait(30)

    def read() -> None:
        for this in rounds:
            meet.wait(30)
            this.read_by_iteration()
            meet.wait(30)

    threads = [threading.Thread(target=run, daemon=True) for run in (call, read)]
    for thread in threads:
        thread.start()
    for number, this in enumerate(rounds):
        meet.wait(30)
        for _ in range(number % 50):
            pass
        this.ticker.stop()
        this.told = True
        meet.wait(30)
    join_all(threads)
    assert unexpected == []
    _check(rounds, CloseReason.STOPPED)


def test_a_cancel_that_is_found_while_a_rule_is_applied_takes_nobody_the_first_tick() -> None:
    gate = Gate()
    resets: list[None] = []

    class Slow:
        def __copy__(self) -> Slow:
            return self

        def next_backoff(self) -> float:
            return 60.0

        def reset(self) -> None:
            resets.append(None)
            if len(resets) == 2:  # the first was that of the ticker's own run
                gate.stand()

    token = CancellationToken()
    token.cancel()
    ticker = Ticker(Slow(), token=token)
    telling = in_thread(ticker.success)
    gate.wait_until_reached()
    reading = in_thread(ticker.receive)
    eventually(lambda: waiters_of(ticker._readers) or reading.done(), "it waits")
    gate.open()
    telling.result(PATIENCE)
    assert reading.result(PATIENCE).number == 1
    with pytest.raises(TickerClosed, match="cancelled"):
        ticker.receive()
