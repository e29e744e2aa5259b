"""What type checkers make of ``select`` and of tokens; checked by mypy and pyright, never run."""

from __future__ import annotations

from typing import Any, assert_type

from backoff_ticker import (
    CLOSED,
    STOP,
    AsyncTicker,
    CancellationToken,
    Channel,
    Closed,
    Merge,
    Stop,
    Tick,
    Ticker,
    Timer,
    ZeroBackOff,
    any_of,
    delay_after,
    merge,
    select,
    select_async,
)

# Selects

numbers: Channel[int] = Channel()
more: Channel[int] = Channel()
token = CancellationToken()
timer = Timer()
ticker = Ticker(ZeroBackOff())

# All of one kind

assert_type(select(numbers, more), tuple[Channel[int], int | Closed])
assert_type(select(numbers, timeout=1)[1], int | Closed)
assert_type(select(token, token.child()), tuple[CancellationToken, BaseException | str | None])
assert_type(select(timer, timeout=None), tuple[Timer, float | Closed])

# Mixed, and tickers

source, value = select(ticker)
assert_type(source, Ticker)
assert_type(value, Tick | Closed)
assert_type(select(ticker, AsyncTicker(ZeroBackOff()))[1], Tick | Closed)
assert_type(select(numbers, ticker, timeout=1)[1], int | Closed | Tick)
assert_type(select(numbers, token)[1], int | Closed | BaseException | str | None)


class TimerOfATest:
    c: Channel[float] = Channel(1)

    def start(self, delay: float) -> None: ...
    def stop(self) -> None: ...


own, time = select(TimerOfATest())
assert_type(own, TimerOfATest)
assert_type(time, Any)
select("numbers")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


async def awaited() -> None:
    assert_type(await select_async(numbers, more, timeout=1), tuple[Channel[int], int | Closed])
    assert_type((await select_async(numbers, ticker))[1], int | Closed | Tick)
    async for item in merge(numbers, more):
        assert_type(item, tuple[Channel[int], int | Closed])


def merged(both: Merge) -> None:
    for _, value in merge(numbers, ticker):
        assert_type(value, int | Closed | Tick)
    for _, value in merge(TimerOfATest()):
        assert_type(value, Any)
    for _, value in both:
        assert_type(value, Any)


def narrowed(value: Tick | Closed) -> None:
    if value is not CLOSED:
        assert_type(value, Tick)
    delay = delay_after(ZeroBackOff(), 1)
    assert_type(delay, float | Stop)
    if delay is not STOP:
        assert_type(delay, float)
    if isinstance(value, Closed):
        return
    assert_type(value, Tick)


# Tokens

token = CancellationToken(timeout=1)
assert_type(token.cancelled, bool)
assert_type(any_of(token, token.child()).cancelled, bool)
token.cancelled = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
