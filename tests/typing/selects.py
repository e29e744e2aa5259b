"""What type checkers make of ``select``; checked by mypy and pyright, never run."""

from __future__ import annotations

from typing import Any, assert_type

from backoff_ticker import (
    CancellationToken,
    Channel,
    Closed,
    Ticker,
    Timer,
    ZeroBackOff,
    select,
    select_async,
)

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

_, value = select(numbers, token, ticker, timeout=1)
assert_type(value, Any)
source, value = select(ticker)
assert_type(source, Ticker)
assert_type(value, Any)
select("numbers")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


async def awaited() -> None:
    assert_type(await select_async(numbers, more, timeout=1), tuple[Channel[int], int | Closed])
    assert_type((await select_async(numbers, ticker))[1], Any)
