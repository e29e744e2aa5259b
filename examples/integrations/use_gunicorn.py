"""A worker of gunicorn whose request waits for a retry when it is told to stop.

Problem: on SIGTERM a worker waits for its requests, until gunicorn kills it after 30 seconds.
Shows: the hooks that cancel a token first. This file is gunicorn's configuration, the application,
and, as a program, what starts the server and visits it.

    python examples/integrations/use_gunicorn.py
"""

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable

from backoff_ticker import Cancelled, ConstantBackOff, retry
from backoff_ticker.integrations.gunicorn import (
    post_worker_init,
    worker_exit,
    worker_int,
)

# The hooks: all that is needed.
__all__ = ["post_worker_init", "worker_exit", "worker_int"]

bind = "127.0.0.1:0"


def tell(_error: Exception, _delay: float) -> None:
    # One write; between the two of print() a line of gunicorn may come.
    sys.stderr.write("waits\n")


@retry(ConstantBackOff(3600), notify=tell)
def ask_exchange() -> bytes:
    raise ConnectionError("no route")


Start = Callable[[str, list[tuple[str, str]]], object]


def app(_environ: object, start_response: Start) -> object:
    try:
        status, body = "200 OK", ask_exchange()
    except Cancelled as cancelled:
        status, body = "503 Service Unavailable", str(cancelled).encode()
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]


if __name__ == "__main__":
    from threading import Thread

    def visit(address: str) -> None:
        try:
            urllib.request.urlopen(address, timeout=20)  # noqa: S310
        except urllib.error.HTTPError as error:
            print(error, error.read().decode())

    folder = __file__.rpartition("/")[0] or "."
    arguments = ["-m", "gunicorn", "--config", __file__, "use_gunicorn:app"]
    server = subprocess.Popen(  # noqa: S603
        [sys.executable, *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    for line in server.stderr:
        if "Listening at: " in line:
            address = line.partition("Listening at: ")[2].split()[0]
        elif "Booting worker" in line:
            visitor = Thread(target=visit, args=(address,))
            visitor.start()
        elif line == "waits\n":
            server.terminate()
    visitor.join()
    print("gunicorn has ended with", server.wait())
    server.stderr.close()
