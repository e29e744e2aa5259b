"""Retries, circuits, tokens and tickers as metrics and span events of OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)

import backoff_ticker
from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    ConstantBackOff,
    DeadlineExceeded,
    Ticker,
    retry,
    retry_call,
)
from backoff_ticker.integrations.opentelemetry import OpenTelemetryObserver
from backoff_ticker.testing import no_wait
from tests.integrations.processes import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture
def reader():
    made = InMemoryMetricReader()
    yield made
    made.shutdown()


@pytest.fixture
def provider(reader):
    return MeterProvider([reader])


@pytest.fixture
def telemetry(provider):
    return OpenTelemetryObserver(provider)


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def tracer(spans):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider.get_tracer("tests")


def metrics_of(reader):
    """Return name -> metric, without the prefix that all names have."""
    found = {}
    for resource in reader.get_metrics_data().resource_metrics:
        for scope in resource.scope_metrics:
            assert scope.scope.name == "backoff_ticker"
            assert scope.scope.version == backoff_ticker.__version__
            for metric in scope.metrics:
                assert metric.name.startswith("backoff_ticker.")
                found[metric.name.removeprefix("backoff_ticker.")] = metric
    return found


def failing(error, times):
    errors = [error] * times

    def fetch():
        if errors:
            raise errors.pop()
        return "page"

    fetch.__qualname__ = "fetch"
    return fetch


# Retries


def test_names_units_and_attributes(reader, telemetry, clock):
    with no_wait(), pytest.raises(ConnectionError):
        retry_call(failing(ConnectionError(), 9), max_attempts=2, **telemetry.hooks)
    CircuitBreaker(on_change=telemetry.on_change("prices")).open()
    telemetry.record_tick(Ticker(ConstantBackOff(1)).receive(), "poll")
    telemetry.watch_token(CancellationToken(timeout=1), "shutdown")
    kept = CancellationToken(timeout=1)
    telemetry.watch_token(kept, "shutdown")
    clock.advance(1)
    found = metrics_of(reader)
    assert {name: metric.unit for name, metric in found.items()} == {
        "retries": "{retry}",
        "retry.delay": "s",
        "runs": "{run}",
        "circuits": "{circuit}",
        "circuit.changes": "{change}",
        "cancels": "{cancel}",
        "ticks": "{tick}",
        "tick.missed": "{tick}",
        "tick.lateness": "s",
    }
    attributes = {
        name: set(metric.data.data_points[0].attributes) for name, metric in found.items()
    }
    operation, circuit = "backoff_ticker.operation", "backoff_ticker.circuit.name"
    assert attributes["retries"] == {operation, "error.type"}
    assert attributes["retry.delay"] == {operation}
    assert attributes["runs"] == {operation, "backoff_ticker.outcome", "error.type"}
    assert attributes["circuits"] == {circuit, "backoff_ticker.circuit.state"}
    assert attributes["cancels"] == {"backoff_ticker.token.name", "backoff_ticker.cancel.cause"}
    assert attributes["ticks"] == {"backoff_ticker.ticker.name"}
    bounds = {
        name: found[name].data.data_points[0].explicit_bounds
        for name in ("retry.delay", "tick.lateness")
    }
    assert max(bounds["retry.delay"]) == 3600
    assert min(bounds["tick.lateness"]) == 0.0001


# Circuits, tokens, tickers


# Spans


def events_of(spans):
    (span,) = spans.get_finished_spans()
    return [
        (
            event.name.removeprefix("backoff_ticker."),
            {name.removeprefix("backoff_ticker."): each for name, each in event.attributes.items()},
        )
        for event in span.events
    ]


def test_the_current_span_has_the_retries_and_the_recovery(telemetry, tracer, spans, clock):
    @retry(ConstantBackOff(7), **telemetry.hooks)
    async def fetch():
        return page()

    async def main():
        with tracer.start_as_current_span("request"):
            await fetch()

    page = failing(ConnectionError("secret"), 1)
    clock.run_async(main())
    name = f"{test_the_current_span_has_the_retries_and_the_recovery.__name__}.<locals>.fetch"
    error = {"operation": name, "error.type": "ConnectionError"}
    assert events_of(spans) == [
        ("retry", {**error, "attempts": 1, "elapsed": 0.0, "delay": 7.0}),
        ("recovered", {**error, "attempts": 2, "elapsed": 7.0}),
    ]


def test_the_current_span_has_the_end_and_the_changes_of_circuits(telemetry, tracer, spans):
    breaker = CircuitBreaker(failures=1, on_change=telemetry.on_change("prices"))
    with tracer.start_as_current_span("request"), pytest.raises(ConnectionError):
        retry_call(
            failing(ConnectionError("secret"), 9),
            max_attempts=1,
            breaker=breaker,
            **telemetry.hooks,
        )
    changed, gave_up = events_of(spans)
    assert changed == ("circuit_changed", {"circuit.name": "prices", "circuit.state": "open"})
    assert gave_up[0] == "gave_up"
    assert gave_up[1].pop("elapsed") >= 0
    assert gave_up[1] == {
        "operation": "fetch",
        "attempts": 1,
        "outcome": "max_attempts",
        "error.type": "ConnectionError",
    }
    assert "secret" not in repr(spans.get_finished_spans()[0].events)


def test_a_run_that_is_cut_in_its_first_attempt_has_no_error(telemetry, tracer, spans, clock):
    @retry(timeout=5, **telemetry.hooks)
    async def hang():
        await asyncio.sleep(60)

    async def main():
        with tracer.start_as_current_span("request"):
            await hang()

    with pytest.raises(DeadlineExceeded):
        clock.run_async(main())
    gave_up, exception = events_of(spans)
    assert (gave_up[0], exception[0]) == ("gave_up", "exception")  # the latter is of the SDK
    assert "error.type" not in gave_up[1]
    assert gave_up[1]["outcome"] == "deadline"


def test_a_success_at_once_adds_nothing_to_a_span(telemetry, tracer, spans):
    with tracer.start_as_current_span("request"):
        retry_call(str, **telemetry.hooks)
    assert events_of(spans) == []


def test_events_of_spans_can_be_left_out(provider, tracer, spans):
    telemetry = OpenTelemetryObserver(provider, span_events=False)
    with tracer.start_as_current_span("request"), no_wait():
        retry_call(failing(ConnectionError(), 1), **telemetry.hooks)
        CircuitBreaker(on_change=telemetry.on_change("prices")).open()
    assert events_of(spans) == []


# Providers and options


def test_the_global_provider_may_be_set_later():
    script = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from backoff_ticker import retry_call
from backoff_ticker.integrations.opentelemetry import OpenTelemetryObserver
telemetry = OpenTelemetryObserver()
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
retry_call(str, **telemetry.hooks)
scope, = reader.get_metrics_data().resource_metrics[0].scope_metrics
print([(metric.name, metric.data.data_points[0].value) for metric in scope.metrics])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == "[('backoff_ticker.runs', 1)]"


def test_span_events_must_be_a_bool():
    with pytest.raises(TypeError, match="^span_events must be a bool, not 1$"):
        OpenTelemetryObserver(span_events=1)
    with pytest.raises(ValueError, match="^max_label_values must be >= 1, not 0$"):
        OpenTelemetryObserver(max_label_values=0)
