"""SIGTERM in the middle of a wait ends servers and workers at once and cleanly."""

import http.client
import runpy
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from backoff_ticker import ConstantBackOff, retry
from tests.integrations.processes import PATIENCE, REPORT_WAITS, Process, write_files

pytestmark = [pytest.mark.slow, pytest.mark.posix]

GRACE = 8
"""Seconds that a worker of gunicorn has to end; its requests wait for at least 15."""
AT_ONCE = 12.0
"""Seconds in which a server ends on a busy machine; the first wait takes at least 15."""


@retry(ConstantBackOff(0.05), on=ConnectionRefusedError, timeout=PATIENCE)  # it may not listen yet
def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


APP = f"{REPORT_WAITS}\nfrom app import app\n"

DJANGO = f"""{REPORT_WAITS}
from django.conf import settings
from django.urls import path

import settings as page

settings.configure(ROOT_URLCONF="served", MIDDLEWARE=page.MIDDLEWARE, ALLOWED_HOSTS=["*"])

from asgi import application
from django.core.wsgi import get_wsgi_application

wsgi = get_wsgi_application()

import views

urlpatterns = [path("price", views.price)]
"""


def serve(folder, *command, pages=("fastapi",), app=APP):
    """Start a server with the files of pages, for an application in ``served``."""
    for package in (*pages, command[0]):
        pytest.importorskip(package)
    for page in pages:
        write_files(f"shut_down_{page}.md", folder)
    (folder / "served.py").write_text(app)
    return Process(folder, "-m", *command)


def assert_ends(server, number, answers, status_of_signal):
    """Stop a server whose requests wait: it ends at once and cleanly, and answers them with 503."""
    status, seconds = server.stop(number)
    assert [answer.result(PATIENCE) for answer in answers] == [503] * len(answers)
    assert seconds < AT_ONCE
    assert status in {0, status_of_signal}
    assert server.count("Traceback") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("package, workers", [("fastapi", 1), ("fastapi", 2), ("django", 1)])
def test_uvicorn_ends_while_requests_and_threads_wait(tmp_path, port, package, workers, number):
    app, name = (APP, "app") if package == "fastapi" else (DJANGO, "application")
    command = ["uvicorn", f"served:{name}", "--port", str(port), "--workers", str(workers)]
    with (
        serve(tmp_path, *command, pages=[package], app=app) as server,
        ThreadPoolExecutor() as clients,
    ):
        server.wait_for("Application startup complete", workers)
        if package == "fastapi":
            server.wait_for("polled", workers)
        answer = clients.submit(get, port, "/price")
        server.wait_for("waits")
        assert_ends(server, number, [answer], -number)  # uvicorn raises the signal again
        assert server.count("polling has ended") == (workers if package == "fastapi" else 0)


def test_the_test_client_of_fastapi_runs_on_a_virtual_clock(tmp_path, auto_clock, capsys):
    testclient = pytest.importorskip("fastapi.testclient")
    write_files("shut_down_fastapi.md", tmp_path)
    app = runpy.run_path(str(tmp_path / "app.py"))["app"]
    with testclient.TestClient(app) as client:
        auto_clock.sleep(65)
        assert client.get("/nothing").status_code == 404
    assert capsys.readouterr().out.split("\n") == [*["polled"] * 3, "polling has ended", ""]
    assert auto_clock.monotonic() == 65


def gunicorn(port, *options):
    return ["gunicorn", "--bind", f"127.0.0.1:{port}", "--no-control-socket", *options]


@pytest.mark.parametrize("options", [["--workers", "2"], ["--threads", "4"]], ids=str)
@pytest.mark.parametrize("is_django", [False, True])
def test_gunicorn_ends_while_requests_and_threads_wait(tmp_path, port, is_django, options):
    pages, app = (["gunicorn", "django"], DJANGO) if is_django else (["gunicorn"], APP)
    command = [*gunicorn(port, *options), "served:wsgi" if is_django else "served:app"]
    with serve(tmp_path, *command, pages=pages, app=app) as server, ThreadPoolExecutor() as clients:
        if not is_django:
            server.wait_for("polled", 2 if "--workers" in options else 1)
        answers = [clients.submit(get, port, "/price" if is_django else "/") for _ in range(2)]
        server.wait_for("waits", 2)
        assert_ends(server, signal.SIGTERM, answers, 0)


@pytest.mark.faults
def test_gunicorn_answers_requests_that_wait_before_a_worker_has_to_end(tmp_path, port):
    """The second request is the last of the worker, by --max-requests."""
    limits = ["--threads", "4", "--max-requests", "2", "--graceful-timeout", str(GRACE)]
    command = [*gunicorn(port, *limits), "served:app"]
    with serve(tmp_path, *command, pages=["gunicorn"]) as server, ThreadPoolExecutor() as clients:
        server.wait_for("polled")
        answers = [clients.submit(get, port, "/") for _ in range(2)]
        server.wait_for("waits", 2)
        began = time.monotonic()
        assert [answer.result(PATIENCE) for answer in answers] == [503] * 2
        assert time.monotonic() - began < GRACE
        server.wait_for("polled", 2)  # another worker
        assert server.stop()[0] == 0
        assert server.count("Traceback") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_of_django_ends_while_it_waits_for_a_tick(tmp_path, number):
    pytest.importorskip("django")
    write_files("shut_down_django.md", tmp_path)
    (tmp_path / "manage.py").write_text(
        """\
import sys

from django.conf import settings
from django.core.management import execute_from_command_line

database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(INSTALLED_APPS=["prices"], DATABASES={"default": database})
execute_from_command_line(sys.argv)
"""
    )
    for package in "prices", "prices/management", "prices/management/commands":
        (tmp_path / package / "__init__.py").touch()
    with Process(tmp_path, "manage.py", "poll_prices") as command:
        command.wait_for("price 42")
        status, seconds = command.stop(number)
        assert command.lines == ["price 42", f"stopped by {signal.Signals(number).name}"]
        assert status == 0
        assert seconds < AT_ONCE


FASTAPI = f"""{REPORT_WAITS}
import time
from typing import Annotated

from fastapi import Depends, FastAPI

from backoff_ticker import CancellationToken, ConstantBackOff, retry_call
from backoff_ticker.integrations.starlette import TokenMiddleware, request_token

app = FastAPI()
app.add_middleware(TokenMiddleware)


@app.get("/thread")
def thread(stop: Annotated[CancellationToken, Depends(request_token)]):
    stop.on_cancel(lambda: print("ended: " + stop.cause, flush=True))
    retry_call(lambda: 1 / 0, ConstantBackOff(600), token=stop)


@app.get("/works")
def works():
    print("works", flush=True)
    time.sleep(1)
    return "done"
"""


@pytest.mark.parametrize("name", ["uvicorn", "gunicorn"])
def test_a_thread_ends_with_its_client_or_the_server_and_requests_finish(tmp_path, port, name):
    pytest.importorskip("fastapi")
    if name == "uvicorn":
        command = ["uvicorn", "--port", str(port)]
    else:
        pytest.importorskip("gunicorn.workers.gasgi")
        command = gunicorn(port, "--worker-class", "asgi")
    with (
        serve(tmp_path, *command, "served:app", pages=(), app=FASTAPI) as server,
        ThreadPoolExecutor() as clients,
    ):
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
        assert_ends(server, signal.SIGTERM, [waiting], -signal.SIGTERM)
        assert working.result(PATIENCE) == 200
        assert server.count("ended: SIGTERM") == 1


CELERY = f"""{REPORT_WAITS}
from tasks import app

folders = {{"data_folder_in": "box", "data_folder_out": "box", "control_folder": "control"}}
app.conf.update(broker_url="filesystem://", broker_transport_options=folders)
"""
SUCCESSFUL = """
import tasks


def fetch_price():
    print("fetched", flush=True)


tasks.fetch_price = fetch_price
"""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_tasks_that_wait_go_back_to_the_broker_and_the_next_worker_does_them(tmp_path, pool):
    from tests.integrations.celery_workers import start_worker

    write_files("shut_down_celery.md", tmp_path)
    (tmp_path / "served.py").write_text(CELERY)
    (tmp_path / "working.py").write_text(CELERY + SUCCESSFUL)
    (tmp_path / "box").mkdir()
    (tmp_path / "control").mkdir()
    at_once = 1 if pool == "solo" else 2
    send = "import served, tasks\n" + "tasks.update_price.delay()\n" * at_once
    with Process(tmp_path, "-c", send) as sender:
        assert sender.wait() == 0, sender.lines
    options = ["--pool", pool, "--concurrency", "2"]
    with start_worker(tmp_path, "served:app", *options, level="INFO") as worker:
        worker.wait_for("waits", at_once)
        assert worker.stop()[0] == 0
        assert worker.count("Retry in 10.0s") == at_once
        assert worker.count("Traceback") == 0
    with start_worker(tmp_path, "working:app", *options) as worker:
        worker.wait_for("fetched", at_once)
        assert worker.stop()[0] == 0
