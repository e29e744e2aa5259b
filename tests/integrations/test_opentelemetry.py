"""Metrics and span events of OpenTelemetry: what is its alone; the rest is in ``test_metrics``."""

from contextlib import contextmanager

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import backoff_ticker
from backoff_ticker import CircuitBreaker, ConstantBackOff, retry, retry_call
from backoff_ticker.integrations.opentelemetry import OpenTelemetryObserver
from tests.integrations.processes import run
from tests.integrations.test_metrics import failing, tell_everything


def test_names_units_and_attributes(clock):
    reader = InMemoryMetricReader()
    tell_everything(OpenTelemetryObserver(MeterProvider([reader])), clock)
    (resource,) = reader.get_metrics_data().resource_metrics
    (found,) = resource.scope_metrics
    assert (found.scope.name, found.scope.version) == ("backoff_ticker", backoff_ticker.__version__)
    points = {metric.name: metric.data.data_points[0] for metric in found.metrics}
    described = {
        metric.name.removeprefix("backoff_ticker."): (
            metric.unit,
            {name.removeprefix("backoff_ticker.") for name in points[metric.name].attributes},
        )
        for metric in found.metrics
    }
    assert described == {
        "retries": ("{retry}", {"operation", "error.type"}),
        "retry.delay": ("s", {"operation"}),
        "runs": ("{run}", {"operation", "outcome", "error.type"}),
        "circuits": ("{circuit}", {"circuit.name", "circuit.state"}),
        "circuit.changes": ("{change}", {"circuit.name", "circuit.state"}),
        "cancels": ("{cancel}", {"token.name", "cancel.cause"}),
        "ticks": ("{tick}", {"ticker.name"}),
        "tick.missed": ("{tick}", {"ticker.name"}),
        "tick.lateness": ("s", {"ticker.name"}),
        "jobs": ("{job}", {"schedule.name"}),
        "job.missed": ("{job}", {"schedule.name"}),
        "job.lateness": ("s", {"schedule.name"}),
    }
    assert max(points["backoff_ticker.retry.delay"].explicit_bounds) == 3600
    for kind in ("tick", "job"):
        assert min(points[f"backoff_ticker.{kind}.lateness"].explicit_bounds) == 0.0001


@contextmanager
def span():
    """Make a span the current one; yield a list that has its events after the block."""
    spans, events = InMemorySpanExporter(), []
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    try:
        with provider.get_tracer("tests").start_as_current_span("request"):
            yield events
    finally:
        (finished,) = spans.get_finished_spans()
        for event in finished.events:
            facts = {
                name.removeprefix("backoff_ticker."): fact
                for name, fact in event.attributes.items()
            }
            events.append((event.name.removeprefix("backoff_ticker."), facts))


def test_the_current_span_has_the_retries_and_the_recovery(clock):
    @retry(ConstantBackOff(7), name="fetch", **OpenTelemetryObserver().hooks)
    async def fetch():
        return page()

    async def main():
        with span() as events:
            await fetch()
            await fetch()  # a success at once adds nothing
        return events

    page = failing(ConnectionError("secret"), 1)
    error = {"operation": "fetch", "error.type": "ConnectionError"}
    assert clock.run_async(main()) == [
        ("retry", {**error, "attempts": 1, "elapsed": 0.0, "delay": 7.0}),
        ("recovered", {**error, "attempts": 2, "elapsed": 7.0}),
    ]


@pytest.mark.parametrize("span_events", [True, False])
def test_the_current_span_has_the_end_and_the_changes_of_circuits_unless_told(clock, span_events):
    telemetry = OpenTelemetryObserver(span_events=span_events)
    breaker = CircuitBreaker(failures=1, on_change=telemetry.on_change("prices"))
    page = failing(ConnectionError(), 9)
    with span() as events, pytest.raises(ConnectionError):
        retry_call(page, max_attempts=1, breaker=breaker, **telemetry.hooks)
    error = {"operation": "fetch", "error.type": "ConnectionError"}
    told = [
        ("circuit_changed", {"circuit.name": "prices", "circuit.state": "open"}),
        ("gave_up", {**error, "attempts": 1, "elapsed": 0.0, "outcome": "max_attempts"}),
    ]
    assert events == (told if span_events else [])


def test_where_the_metrics_go_is_checked():
    with pytest.raises(TypeError, match="^meter_provider must be a MeterProvider or None, not 5$"):
        OpenTelemetryObserver(5)


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
    assert run(script) == ["[('backoff_ticker.runs', 1)]"]
