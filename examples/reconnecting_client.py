"""Stay connected to a server, and reconnect for ever.

Problem: a connection to a price feed, a broker or a device always ends some day. The client has to
connect again, soon after a good connection, later and later while the server is down, and it
has to stop at once when the program ends.

Shows: a ticker with ``Pace.RETURN`` (the delay begins when the connection is over); ``success()``,
after which the delays are short again; ``tick.failures``; and a token that ends every wait.

    python examples/reconnecting_client.py

A server on this machine hangs up on the client again and again, twice without a single price. You
see each attempt with the delay before it. It ends with the ninth price, or when you press Ctrl-C.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    ExponentialBackOff,
    Pace,
    cancel_on_signals,
)


async def stay_connected(port: int, handle: Callable[[str], None], stop: CancellationToken) -> None:
    """Pass on every line that the server sends, until the token is cancelled."""
    policy = ExponentialBackOff(0.1, max_interval=60, max_elapsed_time=None, rng=random.Random(1))
    async with stop.scope():  # cancels whatever is awaited inside
        ticker = AsyncTicker(policy, pace=Pace.RETURN)
        async for tick in ticker:
            print(f"waited {tick.delay:.2f} s, failures in a row: {tick.failures}")
            try:
                async with asyncio.timeout(10):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    async for line in reader:
                        ticker.success()  # it works, so the back-off starts again
                        handle(line.decode().strip())
                finally:
                    writer.close()
                print("  the server hung up")
            except OSError as error:  # refused, reset, timed out
                print("  failed:", error)


async def main(stop: CancellationToken) -> None:
    """Run the client and a server that treats its visitors badly."""
    prices = iter(range(100, 200))
    visits = iter([2, 0, 0, 3, 1, 4])  # how many prices each connection gets

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(next(visits)):
            writer.write(f"{next(prices)}\n".encode())
            await asyncio.sleep(0.05)
        writer.close()

    def handle(price: str) -> None:
        print("  price", price)
        if price == "108":
            stop.cancel("seen enough")

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        await stay_connected(server.sockets[0].getsockname()[1], handle, stop)


if __name__ == "__main__":
    with cancel_on_signals() as stop:  # Ctrl-C and SIGTERM cancel this token
        with contextlib.suppress(Cancelled):
            asyncio.run(main(stop))
        print("stopped:", stop.cause)
