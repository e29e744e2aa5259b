"""Tokens in applications that real servers serve: a client that leaves, a server that stops."""

import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integrations.processes import PATIENCE, REPORT_WAITS, Process
from tests.integrations.test_shut_down import AT_ONCE, get

pytestmark = [pytest.mark.slow, pytest.mark.posix]

FASTAPI = f"""{REPORT_WAITS}
import time
from typing import Annotated

from fastapi import Depends, FastAPI

from backoff_ticker import CancellationToken, ConstantBackOff, retry_call
from backoff_ticker.integrations.starlette import TokenMiddleware, request_token

app = FastAPI()
app.add_middleware(TokenMiddleware)
Stop = Annotated[CancellationToken, Depends(request_token)]


def fails():
    raise ConnectionError("no route")


@app.get("/thread")
def thread(stop: Stop):
    stop.on_cancel(lambda: print("ended: " + stop.cause, flush=True))
    retry_call(fails, ConstantBackOff(600), token=stop)


@app.get("/works")
def works():
    print("works", flush=True)
    time.sleep(1)
    return "done"
"""


def uvicorn(port):
    pytest.importorskip("uvicorn")
    return ["-m", "uvicorn", "served:app", "--port", str(port)]


def gunicorn(port):
    asgi = pytest.importorskip("gunicorn.workers.gasgi")
    assert asgi
    options = ["--worker-class", "asgi", "--bind", f"127.0.0.1:{port}", "--no-control-socket"]
    return ["-m", "gunicorn", *options, "served:app"]


SERVERS = pytest.mark.parametrize("server_of", [uvicorn, gunicorn])


def served(tmp_path, server_of, port):
    pytest.importorskip("fastapi")
    (tmp_path / "served.py").write_text(FASTAPI)
    return Process(tmp_path, *server_of(port))


@SERVERS
def test_a_thread_ends_with_its_client_or_the_server_and_requests_finish(tmp_path, port, server_of):
    with served(tmp_path, server_of, port) as server, ThreadPoolExecutor() as clients:
        assert get(port, "/none") == 404
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /thread HTTP/1.1\r\nHost: test\r\n\r\n")
            server.wait_for("waits")
            assert server.count("ended") == 0
        server.wait_for("ended: the client has disconnected")
        waiting = clients.submit(get, port, "/thread")
        server.wait_for("waits", 2)
        working = clients.submit(get, port, "/works")
        server.wait_for("works")
        status, seconds = server.stop()
        assert waiting.result(PATIENCE) == 503
        assert working.result(PATIENCE) == 200
        assert seconds < AT_ONCE
        assert status in {0, -signal.SIGTERM}
        assert server.count("ended: SIGTERM") == 1
        assert server.count("Traceback") == 0, server.lines
