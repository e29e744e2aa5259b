"""The hooks for gunicorn, called as it calls them."""

import os
import signal
import threading
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    cancel_on_signals,
    configure,
    retry_call,
)
from backoff_ticker.integrations import gunicorn
from tests.helpers import PATIENCE

WORKER = SimpleNamespace(
    pid=os.getpid(), alive=True, cfg=SimpleNamespace(graceful_timeout=2 * PATIENCE)
)


@pytest.fixture(autouse=True)
def token(monkeypatch):
    former, before = signal.getsignal(signal.SIGTERM), {*threading.enumerate()}
    made = CancellationToken()
    blocks = ExitStack()

    def block(*numbers, **options):
        opened = cancel_on_signals(*numbers, **options)
        blocks.push(opened)  # a worker leaves it to the end of its process
        return opened

    monkeypatch.setattr(gunicorn, "_token", made)
    monkeypatch.setattr(gunicorn, "cancel_on_signals", block)
    with blocks, configure(token=None):
        yield made
        made.cancel()
    for thread in {*threading.enumerate()} - before:
        thread.join(PATIENCE)
    signal.signal(signal.SIGTERM, former)


def test_sigterm_cancels_first_and_the_handler_of_gunicorn_runs_next(token):
    calls = []
    signal.signal(signal.SIGTERM, lambda number, frame: calls.append((number, token.cause)))
    gunicorn.post_worker_init(WORKER)
    assert gunicorn.shutdown_token() is token
    signal.raise_signal(signal.SIGTERM)
    assert calls == [(signal.SIGTERM, "SIGTERM")]


def test_it_is_the_default_token_of_retries(token):
    gunicorn.post_worker_init(WORKER)

    def fails():
        token.cancel("SIGTERM")
        raise ConnectionError

    with pytest.raises(Cancelled, match="SIGTERM"):
        retry_call(fails, ConstantBackOff(60))


def test_an_interrupt_cancels(token):
    gunicorn.worker_int(WORKER)
    assert token.cause == "SIGINT or SIGQUIT"


def test_the_end_of_a_worker_cancels_in_the_worker_only(token):
    gunicorn.worker_exit(None, SimpleNamespace(pid=os.getpid() + 1))
    assert not token.cancelled
    gunicorn.worker_exit(None, WORKER)
    assert token.cause == "the worker exits"


def test_a_worker_that_got_no_signal_lets_requests_go_on_for_half_of_its_time(token, monkeypatch):
    waits = []
    worker = SimpleNamespace(alive=True, cfg=SimpleNamespace(graceful_timeout=30))

    def wait(seconds):
        waits.append(seconds)
        worker.alive = len(waits) < 3
        assert not token.cancelled

    gunicorn._watch(worker, SimpleNamespace(wait=wait, cancel=token.cancel))
    assert waits == [0.5, 0.5, 0.5, 15]
    assert token.cause == "the worker ends"
