"""Objects on another clock than the thread or loop that uses them."""

import asyncio

import pytest

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    SystemClock,
    Ticker,
    Timer,
    retry,
    select,
    select_async,
)
from backoff_ticker.testing import (
    ClockUsageError,
    UntrackedLoopError,
    UntrackedThreadError,
    VirtualClock,
)

# Each: how an object is made, and what would then wait for longer than any test lasts.
WAITS = {
    "ticker": (lambda: Ticker(ConstantBackOff(3600)), lambda it: list(zip(it, "ab", strict=False))),
    "token": (CancellationToken, lambda it: it.wait(3600)),
    "token with a deadline": (lambda: CancellationToken().child(3600), CancellationToken.wait),
    "channel": (Channel, lambda it: it.receive(3600)),
    "timer": (Timer, lambda it: it.start(3600)),
    "select": (Channel, lambda it: select(it, CancellationToken(), timeout=3600)),
    "ticker in a loop": (
        lambda: AsyncTicker(ConstantBackOff(3600)),
        lambda it: in_loop(it.receive, it.receive),
    ),
    "token in a loop": (CancellationToken, lambda it: in_loop(lambda: it.wait_async(3600))),
    "channel in a loop": (Channel, lambda it: in_loop(lambda: it.receive_async(3600))),
    "select in a loop": (
        Channel,
        lambda it: in_loop(lambda: select_async(it, CancellationToken(), timeout=3600)),
    ),
}


def in_loop(*waits):
    """Wait in an event loop, again and again."""

    async def main():
        for wait in waits:
            await wait()

    asyncio.run(main())


def named(one):
    """How the message begins that names an object; its state, and the time left, may change."""
    return repr(one).partition(" ")[0]


@pytest.mark.parametrize("kind", WAITS)
def test_an_object_of_the_system_clock_is_refused(kind):
    make, wait = WAITS[kind]
    before = make()
    with VirtualClock(auto=True) as clock:
        for run in (wait, lambda it: clock.spawn(wait, it).result()):
            with pytest.raises(ClockUsageError, match="on another clock, SystemClock") as caught:
                run(before)
            select = "select_async(" if "loop" in kind else "select("
            assert str(caught.value).startswith((f"{select}{named(before)}", named(before)))
    with VirtualClock() as clock, pytest.raises(ClockUsageError, match="on another clock"):
        wait(before)  # in the thread that drives


def test_a_retry_on_the_system_clock_is_named():
    def fetch():
        raise ConnectionError

    decorate = retry(ConstantBackOff(3600), clock=SystemClock())
    with (
        VirtualClock(auto=True),
        pytest.raises(ClockUsageError, match=r"^a retry of .*fetch is on"),
    ):
        decorate(fetch)()


def test_an_object_of_another_virtual_clock_is_refused():
    other = VirtualClock()
    ticker, async_ticker = (kind(ConstantBackOff(1), clock=other) for kind in (Ticker, AsyncTicker))
    next(ticker)
    with VirtualClock(auto=True) as clock:
        for run in (next, lambda it: clock.spawn(next, it).result()):
            with pytest.raises(UntrackedThreadError, match=r"<Ticker .*> is on another clock"):
                run(ticker)
        with pytest.raises(UntrackedLoopError, match=r"<AsyncTicker .*> is on another clock"):
            in_loop(async_ticker.receive, async_ticker.receive)


def test_a_wait_without_a_limit_is_one_on_the_virtual_clock():
    token, channel = CancellationToken(), Channel()  # as globals of a module
    with VirtualClock(auto=True) as clock:
        waiting, receiving = clock.spawn(token.wait), clock.spawn(channel.receive)
        clock.sleep(5)
        channel.send("item")
        token.cancel()
        assert (waiting.result(), receiving.result()) == (True, "item")
        assert clock.monotonic() == 5.0


@pytest.mark.parametrize("auto", [False, True])
def test_real_time_inside_external(auto):
    channel, timer = Channel(), Timer()
    with VirtualClock(auto=auto) as clock, clock.external("somebody"):
        with pytest.raises(TimeoutError):
            channel.receive(0.001)
        timer.start(0)
        assert timer.c.receive(30) > 0


def test_who_uses_the_system_clock_itself_gets_real_time(auto):
    real = SystemClock()
    assert not real.parker().park(real.monotonic() + 0.001)
    assert auto.monotonic() == 0.0
