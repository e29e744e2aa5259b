"""Retries, circuits, tokens and tickers as metrics of prometheus-client, read as it serves them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    ConstantBackOff,
    DeadlineExceeded,
    Pace,
    Permanent,
    Ticker,
    retry,
    retry_call,
    set_default_hooks,
    with_max_retries,
)
from backoff_ticker.integrations.prometheus import PrometheusObserver
from backoff_ticker.testing import no_wait
from tests.helpers import eventually
from tests.integrations.processes import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return PrometheusObserver(registry)


LABELS = ("name", "outcome", "error", "circuit", "state", "token", "cause", "ticker", "le")


def samples(text):
    """Return what Prometheus reads: name -> values of the labels, in the order above -> value."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                name = sample.name.removeprefix("backoff_ticker_")
                labels = tuple(sample.labels[name] for name in LABELS if name in sample.labels)
                found.setdefault(name, {})[labels] = sample.value
    return found


def read(registry):
    return samples(generate_latest(registry).decode())


def failing(error, times):
    errors = [error] * times

    def fetch():
        if errors:
            raise errors.pop()
        return "page"

    fetch.__qualname__ = "fetch"
    return fetch


# Retries


def test_retries_and_runs_are_served_to_prometheus(registry, metrics):
    with no_wait():
        retry_call(failing(ConnectionError(), 2), ConstantBackOff(7), **metrics.hooks)
        with pytest.raises(TimeoutError):
            retry_call(
                failing(TimeoutError(), 9), ConstantBackOff(0), max_attempts=2, **metrics.hooks
            )
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        address = f"http://127.0.0.1:{server.server_port}/metrics"
        with build_opener(ProxyHandler({})).open(address, timeout=10) as answer:
            found = samples(answer.read().decode())
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert found["retries_total"] == {
        ("fetch", "ConnectionError"): 2,
        ("fetch", "TimeoutError"): 1,
    }
    assert found["runs_total"] == {
        ("fetch", "succeeded", ""): 1,
        ("fetch", "max_attempts", "TimeoutError"): 1,
    }
    assert found["retry_wait_seconds_sum"] == {("fetch",): 14}
    assert found["retry_wait_seconds_count"] == {("fetch",): 3}
    buckets = found["retry_wait_seconds_bucket"]
    assert (buckets["fetch", "0.01"], buckets["fetch", "5.0"], buckets["fetch", "10.0"]) == (
        1,
        1,
        3,
    )


def test_runs_in_threads_and_loops_are_counted_together(registry, metrics, clock):
    def work():
        retry_call(failing(ConnectionError(), 1), ConstantBackOff(1), **metrics.hooks)

    async def work_async():
        fetch = failing(ConnectionError(), 1)

        @retry(ConstantBackOff(1), **metrics.hooks)
        async def fetch_async():
            return fetch()

        await fetch_async()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    clock.run_async(work_async())
    for thread in threads:
        thread.join()
    found = read(registry)
    assert sum(found["retries_total"].values()) == 6
    assert sum(found["runs_total"].values()) == 6
    assert sum(found["retry_wait_seconds_sum"].values()) == 6


def test_how_runs_end(registry, metrics, clock):
    token = CancellationToken()

    def cancelled():
        token.cancel()
        raise ConnectionError

    def permanent():
        raise Permanent(KeyError("id"))

    def foreign():
        raise ZeroDivisionError

    with set_default_hooks(**metrics.hooks):
        with pytest.raises(Cancelled):
            retry_call(cancelled, token=token)
        with pytest.raises(KeyError):
            retry_call(permanent)
        with pytest.raises(ZeroDivisionError):
            retry_call(foreign, on=OSError)  # not retried at all: the hooks are not called
        retry_call(int)
    name = "test_how_runs_end.<locals>."
    assert read(registry)["runs_total"] == {
        (f"{name}cancelled", "cancelled", "ConnectionError"): 1,
        (f"{name}permanent", "permanent", "KeyError"): 1,
        ("int", "succeeded", ""): 1,
    }


def test_a_run_that_is_cut_in_its_first_attempt_has_no_error(registry, metrics, clock):
    @retry(timeout=5, **metrics.hooks)
    async def hang():
        await asyncio.sleep(60)

    with pytest.raises(DeadlineExceeded):
        clock.run_async(hang())
    ((_, outcome, error),) = read(registry)["runs_total"]
    assert (outcome, error) == ("deadline", "")


def test_no_label_has_more_values_than_allowed(registry):
    metrics = PrometheusObserver(registry, max_label_values=2)
    errors = [type(f"Error{number}", (Exception,), {"__module__": "app"}) for number in range(5)]
    with no_wait():
        for number, error in enumerate(errors):
            function = failing(error(f"request {number}"), 1)
            function.__qualname__ = f"function_{number}"
            retry_call(function, **metrics.hooks)
            metrics.on_change(f"circuit {number}")
            metrics.record_tick(Ticker(ConstantBackOff(1)).receive(), f"ticker {number}")
    found = read(registry)
    assert found["retries_total"] == {
        ("function_0", "app.Error0"): 1,
        ("function_1", "app.Error1"): 1,
        ("other", "other"): 3,
    }
    assert found["circuits"] == {
        ("circuit 0", "closed"): 1,
        ("circuit 1", "closed"): 1,
        ("other", "closed"): 3,
    }
    assert found["ticks_total"] == {("ticker 0",): 1, ("ticker 1",): 1, ("other",): 3}


# Circuits


def test_the_state_of_a_circuit(registry, metrics, clock):
    breaker = CircuitBreaker(ConstantBackOff(60), failures=1, on_change=metrics.on_change("prices"))

    def states():
        return {state: number for (_, state), number in read(registry)["circuits"].items()}

    guarded = breaker(failing(ConnectionError(), 2))
    assert states() == {"closed": 1}
    with pytest.raises(ConnectionError):
        guarded()
    assert states() == {"closed": 0, "open": 1}
    clock.advance(60)
    with breaker:
        assert states() == {"closed": 0, "open": 0, "half-open": 1}
    assert states() == {"closed": 1, "open": 0, "half-open": 0}
    assert read(registry)["circuit_changes_total"] == {
        ("prices", "open"): 1,
        ("prices", "half-open"): 1,
        ("prices", "closed"): 1,
    }


def test_the_states_of_circuits_are_right_after_changes_by_many_threads(registry, metrics):
    breakers = [CircuitBreaker(on_change=metrics.on_change("prices")) for _ in range(2)]
    start = threading.Barrier(4)

    def change():
        start.wait(10)
        for number in range(200):
            for breaker in breakers:
                breaker.open() if number % 2 else breaker.reset()

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    breakers[0].open()
    breakers[1].reset()
    assert read(registry)["circuits"] == {("prices", "closed"): 1, ("prices", "open"): 1}


# Tokens


def test_cancels_by_cause(registry, metrics, clock):
    for cause in ("SIGTERM", "SIGTERM", "user 4711 left", OSError("user 4711"), None):
        token = CancellationToken()
        metrics.watch_token(token, "shutdown")
        token.cancel(cause)
    metrics.watch_token(CancellationToken(timeout=1), "request")
    late = CancellationToken(timeout=1)
    metrics.watch_token(late, "request")
    clock.advance(1)
    assert read(registry)["cancels_total"] == {
        ("shutdown", "SIGTERM"): 2,
        ("shutdown", "text"): 1,
        ("shutdown", "OSError"): 1,
        ("shutdown", "none"): 1,
        ("request", "backoff_ticker.DeadlineExceeded"): 2,
    }


def test_a_cancel_in_a_thread_that_holds_the_lock_of_a_metric_does_not_hang(registry, metrics):
    """As a signal handler does that interrupts a count: the lock is not re-entrant."""
    lock = metrics._cancels._lock
    token = CancellationToken()
    metrics.watch_token(token, "shutdown")
    with lock:
        assert not lock.acquire(blocking=False)
        assert token.cancel("SIGTERM")
    counted = {("shutdown", "SIGTERM"): 1}
    eventually(lambda: read(registry).get("cancels_total") == counted, "the count")


# Tickers


def test_ticks_lateness_and_missed_ticks(registry, metrics, clock):
    async def read_slowly():
        async for tick in AsyncTicker(with_max_retries(ConstantBackOff(10), 2), pace=Pace.SKIP):
            metrics.record_tick(tick, "poll")
            await asyncio.sleep(25)

    clock.run_async(read_slowly())
    found = read(registry)
    assert found["ticks_total"] == {("poll",): 3}
    assert found["ticks_missed_total"] == {("poll",): 4}
    assert found["tick_lateness_seconds_count"] == {("poll",): 3}
    assert found["tick_lateness_seconds_sum"] == {("poll",): 0}


def test_the_lateness_of_a_reader_that_works_too_long(registry, metrics, clock):
    ticker = Ticker(ConstantBackOff(10))
    for seconds in (25, 0):
        metrics.record_tick(ticker.receive(timeout=0), "poll")
        clock.advance(seconds)
    found = read(registry)
    assert found["tick_lateness_seconds_sum"] == {("poll",): 15}
    assert found["ticks_missed_total"] == {("poll",): 0}


# Registries and options


def test_two_observers_of_one_registry_need_different_namespaces(registry, metrics):
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        PrometheusObserver(registry)
    PrometheusObserver(registry, namespace="batch").record_tick(
        Ticker(ConstantBackOff(1)).receive(), "poll"
    )
    assert "batch_ticks_total" in generate_latest(registry).decode()


@pytest.mark.parametrize("option", ["wait_buckets", "lateness_buckets"])
def test_there_must_be_buckets(option):
    with pytest.raises(ValueError, match="bucket"):
        PrometheusObserver(None, **{option: []})


def test_an_observer_need_not_be_registered_and_has_buckets_of_its_own():
    metrics = PrometheusObserver(None, wait_buckets=[1, 2], lateness_buckets=[3])
    assert metrics._waits._upper_bounds == [1, 2, float("inf")]
    assert metrics._lateness._upper_bounds == [3, float("inf")]


def test_the_global_registry_is_the_default():
    script = """
from prometheus_client import REGISTRY
from backoff_ticker import ConstantBackOff, Ticker
from backoff_ticker.integrations.prometheus import PrometheusObserver
PrometheusObserver().record_tick(Ticker(ConstantBackOff(1)).receive(), "poll")
print(REGISTRY.get_sample_value("backoff_ticker_ticks_total", {"ticker": "poll"}))
"""
    assert run(script) == ["1.0"]


def test_several_processes_are_counted_together(tmp_path):
    script = """
from backoff_ticker import CircuitBreaker, ConstantBackOff, Ticker
from backoff_ticker.integrations.prometheus import PrometheusObserver
metrics = PrometheusObserver()
CircuitBreaker(on_change=metrics.on_change("prices")).open()
metrics.record_tick(Ticker(ConstantBackOff(1)).receive(), "poll")
"""
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    run(script, **environment)
    run(script, **environment)
    serve = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
MultiProcessCollector(registry := CollectorRegistry())
print(generate_latest(registry).decode())
"""
    found = samples("\n".join(run(serve, **environment)))
    assert found["ticks_total"] == {("poll",): 2}
    assert found["circuits"] == {("prices", "closed"): 0, ("prices", "open"): 2}


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()
