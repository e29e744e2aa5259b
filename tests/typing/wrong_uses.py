"""What type checkers must refuse; checked by mypy and pyright, never run.

Both are told to report each comment that is not needed: a line that passes is an error.
"""

from __future__ import annotations

from functools import partial

import backoff_ticker
from backoff_ticker import (
    CircuitBreaker,
    ConstantBackOff,
    Outcome,
    attempts,
    configure,
    delay_after,
    hedge_call,
    hedge_call_async,
    retry,
    retry_call,
    retry_call_async,
    retry_with,
)

policy = ConstantBackOff(1)


def function(count: int = 1) -> int:
    return count


async def coroutine(count: int = 1) -> int:
    return count


def page(outcome: Outcome) -> bytes:
    return b""


# Names

list(backoff_ticker.Tocker)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def imports() -> None:
    from backoff_ticker import Tocker  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

    Tocker()


# Policies

delay_after(30, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# What is decorated

retry((OSError, ValueError))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
retry(function, max_attempts=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
retry(1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
retry(function)("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

retry_with(function, max_attempt=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
retry_with(function)("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Operations of the wrong kind

number: int = retry_call(coroutine)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
retry_call(coroutine) + 1  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnusedExpression]
retry_call(function(1))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
retry_call(policy, function)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
retry_call(function, "page")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
number = hedge_call(coroutine)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
hedge_call(function, timer=None)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def awaits() -> None:
    await retry_call_async(coroutine())  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await hedge_call_async(coroutine, attempt_timeout=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    retry_call_async(coroutine)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]


awaited: object = retry_call_async(function)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
awaited = hedge_call_async(function)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Options

retry(max_attempt=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
retry(on=KeyboardInterrupt)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
retry(on=[OSError])  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
retry(on={OSError: "1s"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
retry(on=lambda error: policy)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
retry(retry_if=bool)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
retry(around=page)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
configure(around=page)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
configure(False)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
retry(on=lambda error: "yes")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
retry(on_retry=lambda error, delay: None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
retry(timeout="1s")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
retry(breaker=CircuitBreaker)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
retry_call(function, name=1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
attempts(fallback=None)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Results

text: str = retry_call(partial(function, 1))  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
text = retry_call(function, fallback=b"")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
whole: int = retry(fallback=None)(function)(1)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
whole = retry(fallback=page)(function)(1)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
