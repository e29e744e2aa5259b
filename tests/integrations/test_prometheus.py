"""Retries, circuits, tokens and tickers as metrics of prometheus-client, read as it serves them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    Ticker,
    retry_call,
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


# Circuits


# Tokens


def test_a_cancel_in_a_thread_that_holds_the_lock_of_a_metric_does_not_hang(registry, metrics):
    """As a signal handler does that interrupts a count: the lock is not re-entrant."""
    lock = metrics._metrics["cancels"]._lock
    token = CancellationToken()
    metrics.watch_token(token, "shutdown")
    with lock:
        assert not lock.acquire(blocking=False)
        assert token.cancel("SIGTERM")
    counted = {("shutdown", "SIGTERM"): 1}
    eventually(lambda: read(registry).get("cancels_total") == counted, "the count")


# Tickers


# Registries and options


def test_two_observers_of_one_registry_need_different_namespaces(registry, metrics):
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        PrometheusObserver(registry)
    PrometheusObserver(registry, namespace="batch").record_tick(
        Ticker(ConstantBackOff(1)).receive(), "poll"
    )
    assert "batch_ticks_total" in generate_latest(registry).decode()


def test_an_observer_need_not_be_registered_and_has_buckets_of_its_own():
    metrics = PrometheusObserver(None, wait_buckets=[1, 2], lateness_buckets=[3])
    assert metrics._metrics["waits"]._upper_bounds == [1, 2, float("inf")]
    assert metrics._metrics["lateness"]._upper_bounds == [3, float("inf")]


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
