"""What a select over many idle sources costs, for ``channels``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from backoff_ticker import AsyncTicker, Channel, ConstantBackOff, Ticker, select, select_async
from tests.benchmarks._table import interleaved, show

if TYPE_CHECKING:
    from collections.abc import Callable

FAR = 3600.0
CROWDS = (1, 10, 100, 1_000)


def each(times: int, work: Callable[[], object]) -> float:
    """Return the microseconds of one call of ``work``."""
    began = perf_counter()
    for _ in range(times):
        work()
    return (perf_counter() - began) / times * 1e6


async def each_async(times: int, work: Callable) -> float:
    """Return the microseconds of one awaited call of ``work``."""
    began = perf_counter()
    for _ in range(times):
        await work()
    return (perf_counter() - began) / times * 1e6


def in_thread(count: int, times: int) -> dict[str, float]:
    """Select over channels of which the last, or none, is ready."""
    channels = [Channel(1) for _ in range(count)]
    send = channels[-1].send_nowait

    def ready() -> None:
        send(None)
        select(*channels)

    def idle() -> None:
        with suppress(TimeoutError):
            select(*channels, timeout=0)

    return {"one ready us": each(times, ready), "none ready us": each(times, idle)}


def in_loop(count: int, times: int) -> dict[str, float]:
    """Do the same in a loop."""
    channels = [Channel(1) for _ in range(count)]
    send = channels[-1].send_nowait

    async def ready() -> None:
        send(None)
        await select_async(*channels)

    async def idle() -> None:
        with suppress(TimeoutError):
            await select_async(*channels, timeout=0)

    async def run() -> dict[str, float]:
        return {
            "one ready us": await each_async(times, ready),
            "none ready us": await each_async(times, idle),
        }

    return asyncio.run(run())


def idle_tickers(kind: type, count: int) -> list:
    """Return tickers that have ticked and do not tick again for long."""
    tickers = [kind(ConstantBackOff(FAR)) for _ in range(count)]
    for ticker in tickers:
        ticker.receive_nowait()
    return tickers


def asleep_in_thread(count: int, waits: tuple[float, float]) -> dict[str, float]:
    """Wait for idle tickers, shortly and long; the difference is what the waiting itself costs."""
    tickers = idle_tickers(Ticker, count)
    used = {}
    for seconds in waits:
        cpu = process_time()
        with suppress(TimeoutError):
            select(*tickers, timeout=seconds)
        used[f"{seconds:g} s, CPU ms"] = (process_time() - cpu) * 1e3
    return used


def asleep_in_loop(count: int, waits: tuple[float, float]) -> dict[str, float]:
    """Wait for idle tickers in a loop."""

    async def run() -> dict[str, float]:
        tickers = idle_tickers(AsyncTicker, count)
        used = {}
        for seconds in waits:
            cpu = process_time()
            with suppress(TimeoutError):
                await select_async(*tickers, timeout=seconds)
            used[f"{seconds:g} s, CPU ms"] = (process_time() - cpu) * 1e3
        return used

    return asyncio.run(run())


def main(rounds: int, *, quick: bool) -> None:
    """Print a table for threads, one for loops, and one of those who wait."""
    crowds = CROWDS[:2] if quick else CROWDS
    for title, run in (
        ("select over channels", in_thread),
        ("select_async over channels", in_loop),
    ):
        subjects = {
            f"of {count:,}": lambda run=run, count=count: run(
                count, 5 if quick else max(20, 2_000 // count)
            )
            for count in crowds
        }
        show(title, interleaved(subjects, rounds))
    waits = (0.001, 0.02 if quick else 0.5)
    subjects = {}
    for count in (1, crowds[-1]):
        subjects[f"select, {count:,}"] = lambda count=count: asleep_in_thread(count, waits)
        subjects[f"select_async, {count:,}"] = lambda count=count: asleep_in_loop(count, waits)
    show("asleep over idle tickers", interleaved(subjects, min(rounds, 3)))
