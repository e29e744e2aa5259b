"""What type checkers make of policies and tokens in other packages; never run."""

from __future__ import annotations

from typing import assert_type

import backoff
import tenacity
from google.api_core.retry import if_transient_error, retry_target
from redis import Redis
from starlette.applications import Starlette
from starlette.middleware import Middleware

from backoff_ticker import BudgetLike, CancellationToken, ConstantBackOff, RetryBudget, retry_call
from backoff_ticker.integrations.backoff import wait_gen
from backoff_ticker.integrations.google_api_core import SleepGenerator
from backoff_ticker.integrations.gunicorn import shutdown_token
from backoff_ticker.integrations.redis import RedisRetryBudget
from backoff_ticker.integrations.starlette import TokenMiddleware
from backoff_ticker.integrations.tenacity import (
    BackOffWait,
    sleep_using_token,
    sleep_using_token_async,
    stop_when_cancelled,
)

policy = ConstantBackOff(1)
token = CancellationToken()
wait = BackOffWait(policy)


def fetch() -> str:
    return "page"


budget: BudgetLike = RedisRetryBudget(Redis(), "prices", fallback=RetryBudget(5))
RedisRetryBudget(Redis(), "prices", fallback=None)
RedisRetryBudget(Redis(), "prices", fallback="none")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
assert_type(retry_call(fetch, policy, budget=budget), str)


@tenacity.retry(
    wait=wait + tenacity.wait_fixed(1),
    stop=wait.stop | stop_when_cancelled(token) | tenacity.stop_after_attempt(5),
    sleep=sleep_using_token(token),
)
def sync(url: str) -> str:
    return url


@tenacity.retry(wait=wait, stop=wait.stop, sleep=sleep_using_token_async(token))
async def coroutine(url: str) -> str:
    return url


@backoff.on_exception(wait_gen(policy), OSError, jitter=None)
def decorated(url: str) -> str:
    return url


assert_type(sync("url"), str)
assert_type(decorated("url"), str)
assert_type(shutdown_token(), CancellationToken)
retry_target(fetch, if_transient_error, SleepGenerator(policy))
app = Starlette(middleware=[Middleware(TokenMiddleware, token=token)])
app.add_middleware(TokenMiddleware)

BackOffWait(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
wait_gen(policy.next_backoff)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
SleepGenerator([1.0])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
sleep_using_token(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
