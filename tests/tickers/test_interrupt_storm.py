"""KeyboardInterrupt in a reader, many times: no tick is lost, nobody stays in line."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CancellationToken, ConstantBackOff, Ticker
from tests import effort
from tests.helpers import PATIENCE, in_thread
from tests.stress.tools import ROOT, join_all, signal_storm, start_threads

if TYPE_CHECKING:
    from types import FrameType

PACKAGE = str(ROOT / "backoff_ticker")


class Interrupter:
    """A signal handler that interrupts the package's code, never the test's; one at a time."""

    def __init__(self) -> None:
        self.armed = False
        self.caught = 0

    def __call__(self, frame: FrameType | None) -> None:
        if self.armed and frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            self.armed = False
            raise KeyboardInterrupt

    def run(self, work: Any, times: int) -> None:
        """Call ``work()`` until it was interrupted so many times."""
        with signal_storm(self):
            while self.caught < times:
                self.armed = True
                try:
                    work()
                except KeyboardInterrupt:
                    self.caught += 1
                except TimeoutError:
                    pass


@pytest.mark.parametrize(
    ("delay", "others", "times"),
    [(0.0, 0, 5), (0.0, 3, 1), (0.0003, 0, 1), (0.0003, 3, 1)],
)
def test_interrupts_of_a_reader_lose_no_tick(delay: float, others: int, times: int) -> None:
    """The main thread collects in C code, which keeps every tick that it was handed."""
    ticker = Ticker(ConstantBackOff(delay))
    mine: list[Any] = []
    theirs: list[list[Any]] = [[] for _ in range(others)]
    enough = False
    times *= effort.rounds(50, effort.rounds(100, 1000))

    def read(index: int) -> None:
        for tick in ticker:
            theirs[index].append(tick)
            if enough:
                break  # before the end: a stop would drop the tick that is just being taken

    threads = start_threads(others, read)
    Interrupter().run(lambda: mine.extend(islice(ticker, 1000)), times)
    enough = True
    join_all(threads)
    last = in_thread(ticker.receive, 5).result(PATIENCE)
    numbers = sorted(tick.number for tick in [*mine, *sum(theirs, []), last])
    assert numbers == list(range(1, len(numbers) + 1))


def test_interrupts_of_a_waiting_reader_leave_nobody_in_line() -> None:
    token = CancellationToken()
    ticker = Ticker(ConstantBackOff(0.2), token=token)
    ticker.receive()
    Interrupter().run(lambda: ticker.receive(0.002), effort.rounds(100, 1000))
    Interrupter().run(lambda: token.wait(0.002), effort.rounds(100, 1000))
    assert len(token.wait_set().waiters) == 0
    assert len(ticker._readers.waiters) == 0
    assert in_thread(ticker.receive, 5).result(PATIENCE).number > 1


def test_interrupts_of_success_and_reset_leave_the_ticker_going() -> None:
    ticker = Ticker(ConstantBackOff(0.0005))
    seen: list[int] = []
    threads = start_threads(3, lambda _: seen.extend(tick.number for tick in ticker))
    Interrupter().run(ticker.success, effort.rounds(50, 300))
    Interrupter().run(ticker.reset, effort.rounds(50, 300))
    assert in_thread(ticker.receive, 5).result(PATIENCE).number >= 1
    ticker.stop()
    join_all(threads)
    assert len(seen) == len(set(seen))
