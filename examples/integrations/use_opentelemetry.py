"""Metrics and span events of retries for OpenTelemetry.

Problem: a trace shows that a request took long, but not that two of its calls were retried.
Shows: ``OpenTelemetryObserver`` as hooks of a retry inside a span.

    python examples/integrations/use_opentelemetry.py
"""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from backoff_ticker import ConstantBackOff, retry
from backoff_ticker.integrations.opentelemetry import OpenTelemetryObserver
from backoff_ticker.testing import no_wait

reader = InMemoryMetricReader()  # in a program: a reader with an exporter
# Without an argument: the global provider.
telemetry = OpenTelemetryObserver(MeterProvider([reader]))
tracer = TracerProvider().get_tracer("prices")
answers = [ConnectionError("reset"), None]


@retry(
    ConstantBackOff(2),
    on=ConnectionError,
    max_attempts=3,
    **telemetry.hooks,
)
def fetch() -> int:
    error = answers.pop(0)
    if error is not None:
        raise error
    return 42


with tracer.start_as_current_span("request") as span, no_wait():
    fetch()

assert isinstance(span, ReadableSpan)
for event in span.events:
    print(
        event.name,
        dict(event.attributes or {}).get("backoff_ticker.attempts"),
    )

data = reader.get_metrics_data()
assert data is not None
(scope,) = data.resource_metrics[0].scope_metrics
for metric in scope.metrics:
    print(metric.name, dict(metric.data.data_points[0].attributes or {}))
