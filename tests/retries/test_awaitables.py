"""What counts as awaitable, besides what coroutine functions return."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    ZeroBackOff,
    attempts,
    hedge_call_async,
    retry_call,
    retry_call_async,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

CALLS = [
    pytest.param(lambda operation: retry_call_async(operation, ZeroBackOff()), id="call"),
    pytest.param(
        lambda operation: retry_call_async(operation, ZeroBackOff(), on_retry=lambda _: None),
        id="script",
    ),
    pytest.param(
        lambda operation: retry_call_async(operation, ZeroBackOff(), timeout=60), id="cut"
    ),
    pytest.param(lambda operation: hedge_call_async(operation, ZeroBackOff()), id="hedge"),
]


def flaky() -> Callable[[], Any]:
    failures = [OSError()]

    @types.coroutine
    def operation() -> Generator[None, None, int]:
        yield
        if failures:
            raise failures.pop()
        return 7

    return operation


@pytest.mark.parametrize("call", CALLS)
def test_a_coroutine_made_of_a_generator_is_awaited(call: Any) -> None:
    assert asyncio.run(call(flaky())) == 7


@pytest.mark.parametrize("call", CALLS)
def test_a_generator_that_is_no_coroutine_is_not(call: Any) -> None:
    def operation() -> Generator[None, None, None]:
        yield

    with pytest.raises(TypeError, match="must return an awaitable, not one of type generator"):
        asyncio.run(call(operation))


@pytest.mark.parametrize("block", ["with", "async with"])
def test_a_hook_that_is_a_coroutine_made_of_a_generator_is_awaited(block: str) -> None:
    log: list[str] = []

    @types.coroutine
    def hook(_: object) -> Generator[None, None, None]:
        yield
        log.append("awaited")

    async def main() -> None:
        async for attempt in attempts(ZeroBackOff(), on_success=hook):
            if block == "with":
                with attempt:
                    pass
            else:
                async with attempt:
                    pass

    asyncio.run(main())
    assert log == ["awaited"]


def test_a_thread_refuses_a_hook_that_is_a_coroutine_made_of_a_generator() -> None:
    @types.coroutine
    def hook(_: object) -> Generator[None, None, None]:
        yield

    with pytest.raises(TypeError, match="on_success returned an awaitable"):
        retry_call(int, on_success=hook)
