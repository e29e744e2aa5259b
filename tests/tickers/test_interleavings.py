"""Two threads at one ticker: all that the second one does, at each instruction of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Ticker,
    TickerClosed,
    WouldBlock,
    ZeroBackOff,
)
from backoff_ticker.waiting import Waiter
from tests.helpers import PATIENCE, eventually, in_thread, waiters_of
from tests.interleaving import each_interleaving
from tests.stress.tools import Gate
from tests.tickers.made_policies import Scripted

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0
SLOW = pytest.mark.slow


class Scene:
    """A ticker whose first tick was taken and whose second one is due, and what ends it."""

    def __init__(self, policy: Any = None, *, others_wait: bool = False) -> None:
        self.token = CancellationToken()
        self.ticker = Ticker(policy or ZeroBackOff(), token=self.token)
        self.ticker.receive()
        if others_wait:  # then a reader that takes a tick has to tell them
            self.other = Waiter(None, (self.ticker._readers,))
            self.other.register()

    def receive(self) -> Any:
        """Return the number of a tick; None if there is none now; else why there is none."""
        try:
            return self.ticker.receive_nowait().number
        except WouldBlock:
            return None
        except TickerClosed as closed:
            return closed.reason

    def stop(self) -> None:
        self.ticker.stop()

    def cancel(self) -> None:
        self.token.cancel()

    def reset(self) -> None:
        self.ticker.reset(ConstantBackOff(HOUR))

    def taken(self) -> int:
        """Return how many ticks the ticker says were taken."""
        return int(repr(self.ticker).split(" tick")[0].rpartition(" ")[2])


END = {Scene.stop: CloseReason.STOPPED, Scene.cancel: CloseReason.CANCELLED, Scene.reset: None}


@pytest.mark.parametrize(
    "end", [Scene.stop, *(pytest.param(end, marks=SLOW) for end in (Scene.cancel, Scene.reset))]
)
@pytest.mark.parametrize(
    ("reader_first", "others_wait"),
    [
        (True, True),
        *(pytest.param(*case, marks=SLOW) for case in [(False, True), (False, False)]),
    ],
)
def test_a_tick_that_meets_an_end_or_a_reset_is_received_or_not_taken(
    monkeypatch: pytest.MonkeyPatch,
    reader_first: bool,
    end: Callable[[Scene], None],
    others_wait: bool,
) -> None:
    """And a receive that begins after the call has returned gets nothing."""
    scenes: list[Scene] = []

    def begin() -> Any:
        scenes[:] = [scene := Scene(others_wait=others_wait)]
        pair = scene.receive, lambda: end(scene)
        return pair if reader_first else pair[::-1]

    for outcomes in each_interleaving(begin, monkeypatch):
        [scene] = scenes
        received = outcomes[0 if reader_first else 1]
        assert received in (2, None, END[end])
        assert scene.taken() == (2 if received == 2 else 1)
        assert scene.receive() is END[end]
        if end is Scene.reset:
            scene.ticker.reset(immediately=True)
            assert scene.receive() == scene.taken()


@pytest.mark.parametrize("act", [pytest.param("success", marks=SLOW), "reset"])
def test_a_stop_that_meets_another_call_ends_the_ticker(
    monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    scenes: list[Scene] = []

    def begin() -> Any:
        scenes[:] = [scene := Scene()]
        return scene.stop, getattr(scene.ticker, act)

    for outcomes in each_interleaving(begin, monkeypatch):
        assert outcomes[0] is None
        assert outcomes[1] is None or (act == "reset" and isinstance(outcomes[1], TickerClosed))
        assert scenes[0].receive() is CloseReason.STOPPED


def test_threads_that_take_ticks_at_once_get_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    scenes: list[Scene] = []

    def begin() -> Any:
        scenes[:] = [scene := Scene()]
        return scene.receive, scene.receive

    for numbers in each_interleaving(begin, monkeypatch):
        taken = [number for number in (*numbers, scenes[0].receive()) if number]
        assert sorted(taken) == list(range(2, len(taken) + 2))
        assert len(taken) >= 2


def test_of_threads_that_find_a_failed_policy_at_once_one_gets_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def receive(scene: Scene) -> str:
        try:
            return str(scene.receive())
        except ValueError:
            return "error"

    def begin() -> Any:
        scene = Scene(Scripted(ValueError()))
        return lambda: receive(scene), lambda: receive(scene)

    for outcomes in each_interleaving(begin, monkeypatch):
        assert sorted(outcomes) == ["error", "failed"]  # type: ignore[type-var]


class Told(Scripted):
    """A feedback policy without delays that counts what it is told."""

    told = 0

    def success(self) -> float:
        self.told += 1
        return 0.0

    def failure(self) -> float:
        return 0.0


@SLOW
def test_each_success_is_told_to_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    policies: list[Told] = []

    def begin() -> Any:
        policies[:] = [policy := Told()]
        ticker = Scene(policy).ticker
        return ticker.success, ticker.success

    for outcomes in each_interleaving(begin, monkeypatch):
        assert outcomes == (None, None)
        assert policies[0].told == 2


def test_a_cancel_that_is_found_while_a_rule_is_applied_takes_nobody_the_first_tick() -> None:
    gate = Gate()

    class Slow(Scripted):
        def reset(self) -> None:
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
