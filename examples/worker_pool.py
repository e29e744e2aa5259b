"""Share the work of many tickers among a few threads and a coroutine.

Problem: a few workers fetch the pages of many hosts, but each host allows only one request per
interval. A thread for each host would be a waste.
Shows: a ticker for each host; ``merge()``, with which one thread reads all of them; and a channel
between that thread and the workers, whose loops end when it is closed and empty.

    python examples/worker_pool.py

The workers fetch each page once. Ctrl-C or SIGTERM ends the tickers at once, and the workers still
fetch the pages that are on the channel by then.
"""

import asyncio
import contextlib
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from backoff_ticker import (
    CLOSED,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
    cancel_on_signals,
    merge,
    with_max_retries,
)

HOSTS = {
    "a.example": 0.02,
    "b.example": 0.03,
    "c.example": 0.05,
    "d.example": 0.1,
}
"""Seconds between two pages."""
PAGES = 15  # of each host


def schedule(pages: Channel[str], stop: CancellationToken) -> None:
    hosts = {}
    for host, seconds in HOSTS.items():
        policy = with_max_retries(ConstantBackOff(seconds), PAGES - 1)
        hosts[Ticker(policy, token=stop)] = host
    with contextlib.closing(pages):  # then the workers end
        for ticker, tick in merge(*hosts):
            if tick is not CLOSED:  # a ticker that has ended gives that
                # This waits while the channel is full.
                pages.send(f"{hosts[ticker]}/{tick.number}")


def fetch(pages: Channel[str], fetched: list[str]) -> None:
    for page in pages:
        time.sleep(0.02)  # stands for a request that blocks
        fetched.append(page)


async def fetch_async(pages: Channel[str], fetched: list[str]) -> None:
    async for page in pages:
        await asyncio.sleep(0.02)  # stands for a request that is awaited
        fetched.append(page)


def main() -> None:
    pages = Channel[str](10)
    fetched: list[str] = []
    with (
        cancel_on_signals() as signals,
        ThreadPoolExecutor() as threads,
        signals.child() as stop,
    ):
        print(f"{len(HOSTS)} hosts, 3 threads and a coroutine")
        threads.submit(schedule, pages, stop)
        for _ in range(3):
            threads.submit(fetch, pages, fetched)
        asyncio.run(fetch_async(pages, fetched))
        # Leaving the block cancels `stop`.
    numbers = Counter(page.partition("/")[0] for page in fetched)
    for host, number in sorted(numbers.items()):
        print(f"{host}: {number} pages")
    print(f"{len(set(fetched))} different pages, {len(pages)} left over")
    print("stopped:", signals.cause or "all is done")


if __name__ == "__main__":
    main()
