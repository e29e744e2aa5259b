"""Stop a web service gracefully: requests in threads, a job in an event loop, retries.

Problem: on SIGTERM a service must end its waits at once, finish the requests in flight, and exit.
Shows: one token that signals cancel, for the ticker of the job and for all retries of the process.

    python examples/web_service.py

The program visits itself. The first request succeeds in the third attempt. When SIGTERM comes, the
second stops waiting for another attempt, and the third is finished. Ctrl-C does the same.
"""

import asyncio
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ExponentialBackOff,
    cancel_on_signals,
    configure,
    retry,
)

calls = Counter[str]()


@retry(ExponentialBackOff(0.1), on=ConnectionError, timeout=10)
def ask_backend(path: str) -> str:
    calls[path] += 1  # the rest stands for a backend that is slow or fails
    if path == "/down" or (path == "/flaky" and calls[path] < 3):
        raise ConnectionError("the backend hung up")
    time.sleep(1.5 if path == "/slow" else 0)
    return f"OK in attempt {calls[path]}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        try:
            status, text = 200, ask_backend(self.path)
        except Cancelled as error:  # the service stops, or the time is up
            status, text = 503, str(error)
        self.send_response_only(status)
        self.end_headers()
        self.wfile.write(text.encode())


async def refresh(stop: CancellationToken) -> None:
    async for tick in AsyncTicker(ConstantBackOff(1), token=stop):
        print("job: run", tick.number)
        if tick.number == 2:
            signal.raise_signal(signal.SIGTERM)  # somebody stops it


def visit(port: int, path: str) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    with connection.getresponse() as answer:
        print(f"GET {path}: {answer.status} {answer.read().decode()}")


if __name__ == "__main__":
    with (
        cancel_on_signals() as stop,
        configure(token=stop),
        ThreadPoolExecutor() as threads,
    ):
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            # Leaving this block waits for requests in flight.
            server.daemon_threads = False
            threads.submit(server.serve_forever)
            for path in ["/flaky", "/down", "/slow"]:
                threads.submit(visit, server.server_port, path)
            try:
                asyncio.run(refresh(stop))  # until the token is cancelled
            finally:
                server.shutdown()  # no more requests
    print("stopped:", stop.cause)
