"""What type checkers make of the parts for HTTP clients; checked by mypy and pyright, never run."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

import aiohttp
import httpx
import urllib3

from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    ConstantBackOff,
    Outcome,
    RetryBudget,
    log_retries,
)
from backoff_ticker.integrations.aiohttp import RetryMiddleware
from backoff_ticker.integrations.httpx import AsyncRetryTransport, RetryTransport
from backoff_ticker.integrations.urllib3 import BackOffRetry

policy = ConstantBackOff(1)


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
