"""What type checkers make of the integrations; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import assert_type

import aiohttp
import httpx
import structlog
import urllib3
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry
from redis import Redis
from starlette.applications import Starlette
from starlette.middleware import Middleware

from backoff_ticker import (
    BudgetLike,
    CancellationToken,
    CircuitBreaker,
    CircuitState,
    ConstantBackOff,
    Outcome,
    RetryBudget,
    Ticker,
    attempts,
    configure,
    log_retries,
    retry,
    retry_call,
)
from backoff_ticker.integrations.aiohttp import RetryMiddleware
from backoff_ticker.integrations.gunicorn import shutdown_token
from backoff_ticker.integrations.httpx import AsyncRetryTransport, RetryTransport
from backoff_ticker.integrations.opentelemetry import OpenTelemetryObserver
from backoff_ticker.integrations.prometheus import PrometheusObserver
from backoff_ticker.integrations.redis import RedisRetryBudget
from backoff_ticker.integrations.starlette import TokenMiddleware
from backoff_ticker.integrations.structlog import StructlogObserver
from backoff_ticker.integrations.urllib3 import BackOffRetry
from backoff_ticker.types import CallbackHandle

# Tokens and budgets

policy = ConstantBackOff(1)
token = CancellationToken()


def fetch() -> str:
    return "page"


budget: BudgetLike = RedisRetryBudget(Redis(), "prices", fallback=RetryBudget(5))
RedisRetryBudget(Redis(), "prices", fallback=None)
RedisRetryBudget(Redis(), "prices", fallback="none")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
assert_type(retry_call(fetch, policy, budget=budget), str)
assert_type(shutdown_token(), CancellationToken)
app = Starlette(middleware=[Middleware(TokenMiddleware, token=token)])
app.add_middleware(TokenMiddleware)

# HTTP clients


def hook(outcome: Outcome) -> None: ...


async def async_hook(outcome: Outcome) -> None: ...


def notify(error: Exception, delay: float) -> None: ...


transport = RetryTransport(
    httpx.HTTPTransport(http2=True),
    policy,
    methods={"GET"},
    statuses=[503],
    max_attempts=None,
    max_retry_after=timedelta(minutes=1),
    timeout=120,
    max_elapsed_time=None,
    token=CancellationToken(),
    budget=RetryBudget(),
    breaker=CircuitBreaker(),
    notify=[notify, notify],
    on_retry=[hook, log_retries()],
    on_give_up=hook,
)
assert_type(httpx.Client(transport=transport).get("/"), httpx.Response)
AsyncRetryTransport(attempt_timeout=3, on_retry=async_hook)
httpx.AsyncClient(mounts={"https://": AsyncRetryTransport(httpx.AsyncHTTPTransport(), policy)})

retries = BackOffRetry(policy, total=3, raise_on_status=False, budget=None, on_retry=hook)
assert_type(retries.new(total=2), BackOffRetry)
assert_type(retries.increment("GET", "/"), BackOffRetry)
urllib3.PoolManager(retries=retries)

middleware = RetryMiddleware(policy, attempt_timeout=3, on_retry=[async_hook, hook])
aiohttp.ClientSession(middlewares=(middleware,))

RetryTransport(attempt_timeout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
RetryTransport(max_attempt=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
RetryTransport(policy=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
RetryMiddleware(budget=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Observers

metrics = PrometheusObserver(CollectorRegistry(), namespace="app", wait_buckets=[1, 2.5])
telemetry = OpenTelemetryObserver(MeterProvider(), span_events=False)
log = StructlogObserver(structlog.get_logger())

bound: structlog.typing.FilteringBoundLogger = structlog.get_logger()
StructlogObserver(bound)
stdlib: structlog.stdlib.BoundLogger = structlog.get_logger()
StructlogObserver(stdlib)

configure(**metrics.hooks)
configure(on_retry=[metrics.on_retry, log.on_retry], on_give_up=telemetry.on_give_up)


@retry(ConstantBackOff(1), max_attempts=3, **metrics.hooks)
def measured(url: str) -> int:
    return len(url)


@retry(ConstantBackOff(1), max_attempts=3, **log.hooks)
async def measured_async(url: str) -> int:
    return len(url)


assert_type(measured("x"), int)
assert_type(retry_call(lambda: 5, **telemetry.hooks), int)
attempts(**metrics.hooks)

Change = Callable[[CircuitState, CircuitState, CircuitBreaker], None]
assert_type(metrics.on_change("prices"), Change)
CircuitBreaker(on_change=[metrics.on_change("prices"), log.on_change("prices")])
assert_type(log.watch_token(CancellationToken(), "shutdown"), CallbackHandle)
for tick in Ticker(ConstantBackOff(1)):
    metrics.record_tick(tick, "poll")
