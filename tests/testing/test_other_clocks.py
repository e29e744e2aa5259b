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
IN_THREADS = {
    "ticker": (lambda: Ticker(ConstantBackOff(3600)), lambda it: list(zip(it, "ab", strict=False))),
    "token": (CancellationToken, lambda it: it.wait(3600)),
    "token with a deadline": (lambda: CancellationToken().child(3600), CancellationToken.wait),
    "channel": (Channel, lambda it: it.receive(3600)),
    "timer": (Timer, lambda it: it.start(3600)),
    "select": (Channel, lambda it: select(it, CancellationToken(), timeout=3600)),
}


async def two_ticks(ticker):
    await ticker.receive()
    await ticker.receive()


IN_LOOPS = {
    "ticker": (lambda: AsyncTicker(ConstantBackOff(3600)), two_ticks),
    "token": (CancellationToken, lambda it: it.wait_async(3600)),
    "channel": (Channel, lambda it: it.receive_async(3600)),
    "select": (Channel, lambda it: select_async(it, CancellationToken(), timeout=3600)),
}


def named(one):
    """How the message begins that names an object; its state, and the time left, may change."""
    return repr(one).partition(" ")[0]


@pytest.mark.parametrize("kind", IN_THREADS)
def test_an_object_of_the_system_clock_is_refused_in_threads(kind):
    make, wait = IN_THREADS[kind]
    before = make()
    with VirtualClock(auto=True) as clock:
        for run in (wait, lambda it: clock.spawn(wait, it).result()):
            with pytest.raises(ClockUsageError, match="on another clock, SystemClock") as caught:
                run(before)
            assert str(caught.value).startswith((f"select({named(before)}", named(before)))
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


@pytest.mark.parametrize("kind", IN_LOOPS)
def test_an_object_of_the_system_clock_is_refused_in_loops(kind):
    make, wait = IN_LOOPS[kind]
    before = make()

    async def main():
        await wait(before)

    with VirtualClock(auto=True), pytest.raises(ClockUsageError) as caught:
        asyncio.run(main())
    assert "on another clock, SystemClock()" in str(caught.value)
    assert str(caught.value).startswith((f"select_async({named(before)}", named(before)))


def test_an_object_of_another_virtual_clock_is_refused():
    other = VirtualClock()
    ticker, async_ticker = (kind(ConstantBackOff(1), clock=other) for kind in (Ticker, AsyncTicker))
    next(ticker)
    with VirtualClock(auto=True) as clock:
        for run in (next, lambda it: clock.spawn(next, it).result()):
            with pytest.raises(UntrackedThreadError, match=r"<Ticker .*> is on another clock"):
                run(ticker)
        with pytest.raises(UntrackedLoopError, match=r"<AsyncTicker .*> is on another clock"):
            asyncio.run(two_ticks(async_ticker))


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
