"""Stay connected to a server, and reconnect forever.

Problem: every connection to a price feed, a broker or a device ends one day. The client should
connect again, wait longer each time while the server is down, and stop at once when you say so.
Shows: a ticker with ``Pace.RETURN`` (the delay begins when the connection is over); ``success()``,
after which the delays are short again; ``tick.since_success``; and a token that ends every wait.

    python examples/reconnecting_client.py

A server on this machine hangs up again and again, twice without sending a price. You see each wait
and what comes after it. The program ends with the ninth price, or when you press Ctrl-C.
"""

import asyncio
import random
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    ExponentialBackOff,
    Pace,
    cancel_on_signals,
)


async def stay_connected(
    port: int,
    handle: Callable[[str], None],
    stop: CancellationToken,
) -> None:
    """Pass on every line that the server sends, until a cancel."""
    policy = ExponentialBackOff(
        0.1,
        max_interval=60,
        max_elapsed_time=None,
        rng=random.Random(1),
    )
    async with stop.scope():  # cancels whatever is awaited inside
        ticker = AsyncTicker(policy, pace=Pace.RETURN)
        async for tick in ticker:
            failed = tick.since_success
            print(f"waited {tick.delay:.2f} s, failures in a row: {failed}")
            try:
                async with asyncio.timeout(10):
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1",
                        port,
                    )
                try:
                    async for line in reader:
                        ticker.success()  # the back-off starts again
                        handle(line.decode().strip())
                finally:
                    writer.close()
                print("  the server hung up")
            except OSError as error:  # refused, reset, timed out
                print("  failed:", error)


class Server(socketserver.BaseRequestHandler):
    prices = iter(range(100, 200))
    # How many prices a visitor gets before the server hangs up.
    visits = iter([2, 0, 0, 3, 1, 4])

    def handle(self) -> None:
        for _ in range(next(self.visits)):
            with suppress(OSError):  # the visitor has left
                self.request.sendall(f"{next(self.prices)}\n".encode())
            time.sleep(0.05)


if __name__ == "__main__":
    with cancel_on_signals() as stop:  # Ctrl-C and SIGTERM cancel it

        def handle(price: str) -> None:
            print("  price", price)
            if price == "108":
                stop.cancel("seen enough")

        with (
            suppress(Cancelled),
            socketserver.TCPServer(("127.0.0.1", 0), Server) as server,
        ):
            serve = partial(server.serve_forever, 0.1)
            threading.Thread(target=serve).start()
            try:
                port = server.server_address[1]
                asyncio.run(stay_connected(port, handle, stop))
            finally:
                server.shutdown()
        print("stopped:", stop.cause)
