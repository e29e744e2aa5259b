"""What type checkers make of observers; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import structlog
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    CircuitState,
    ConstantBackOff,
    Ticker,
    attempts,
    retry,
    retry_call,
    set_default_hooks,
)
from backoff_ticker.integrations.opentelemetry import OpenTelemetryObserver
from backoff_ticker.integrations.prometheus import PrometheusObserver
from backoff_ticker.integrations.structlog import StructlogObserver
from backoff_ticker.types import CallbackHandle

metrics = PrometheusObserver(CollectorRegistry(), namespace="app", wait_buckets=[1, 2.5])
telemetry = OpenTelemetryObserver(MeterProvider(), span_events=False)
log = StructlogObserver(structlog.get_logger())

bound: structlog.typing.FilteringBoundLogger = structlog.get_logger()
StructlogObserver(bound)
stdlib: structlog.stdlib.BoundLogger = structlog.get_logger()
StructlogObserver(stdlib)

set_default_hooks(**metrics.hooks)
set_default_hooks(on_retry=[metrics.on_retry, log.on_retry], on_give_up=telemetry.on_give_up)


@retry(ConstantBackOff(1), max_attempts=3, **metrics.hooks)
def fetch(url: str) -> int:
    return len(url)


@retry(ConstantBackOff(1), max_attempts=3, **log.hooks)
async def fetch_async(url: str) -> int:
    return len(url)


assert_type(fetch("x"), int)
assert_type(retry_call(lambda: 5, **telemetry.hooks), int)
attempts(**metrics.hooks)

Change = Callable[[CircuitState, CircuitState, CircuitBreaker], None]
assert_type(metrics.on_change("prices"), Change)
CircuitBreaker(on_change=[metrics.on_change("prices"), log.on_change("prices")])
assert_type(log.watch_token(CancellationToken(), "shutdown"), CallbackHandle)
for tick in Ticker(ConstantBackOff(1)):
    metrics.record_tick(tick, "poll")
