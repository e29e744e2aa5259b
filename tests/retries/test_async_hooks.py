"""Hooks in coroutines: awaitable ones, and asynchronous context managers."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ZeroBackOff,
    hedge_call_async,
    retry_call_async,
)
from tests.retries.faces import ALL_ASYNC, FACES, SYNC, in_loop, on_faces
from tests.retries.made_hooks import HOOKS, AsyncManager, ends_of, spanning
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, Script, Takes, now

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from backoff_ticker.testing import VirtualClock


AWAITING = on_faces("async call", "async loop, async with")


@ALL_ASYNC
def test_a_hook_may_be_a_coroutine_function(face: Any) -> None:
    log: list[Any] = []

    def hook(name: str) -> Any:
        async def run(outcome: Any) -> None:
            log.append((name, outcome.attempts))
            for _ in range(3):
                await asyncio.sleep(0)
            log.append(("awaited", name))

        return run

    hooks = {name: hook(name) for name in HOOKS}
    script = Script(OSError, lambda: log.append("called") or 7)
    assert face.run(script, ConstantBackOff(5), **hooks) == 7
    assert log == [
        ("on_attempt", 1),
        ("awaited", "on_attempt"),
        ("on_retry", 1),
        ("awaited", "on_retry"),
        ("on_attempt", 2),
        ("awaited", "on_attempt"),
        "called",
        ("on_success", 2),
        ("awaited", "on_success"),
    ]
    assert script.times == [0, 5]


@AWAITING
@pytest.mark.parametrize("slow", [False, True])
def test_asynchronous_managers_span_attempts_and_waits(face: Any, slow: bool) -> None:
    """Each of them returns True, which swallows nothing."""
    log: list[Any] = []
    errors = [OSError(1), OSError(2)]
    hooks = spanning(log, manager=AsyncManager, slow=slow)
    with pytest.raises(OSError) as caught:
        face.run(Script(*errors), ConstantBackOff(50), max_attempts=2, **hooks)
    assert caught.value is errors[1]
    assert [entry[1:] for entry in log] == [
        ("in", "on_attempt 1"),
        ("out", "on_attempt 1", errors[0]),
        ("in", "on_retry 1"),
        ("out", "on_retry 1", None),
        ("in", "on_attempt 2"),
        ("out", "on_attempt 2", errors[1]),
        ("in", "on_give_up 2"),
        ("out", "on_give_up 2", None),
    ]
    assert log[3][0] - log[2][0] == 51


@AWAITING
def test_asynchronous_managers_are_left_once_when_a_cancel_comes(
    face: Any, clock: VirtualClock
) -> None:
    log: list[Any] = []
    token = CancellationToken()
    at(clock, 30, token.cancel)
    hooks = spanning(log, "on_attempt", "on_retry", manager=AsyncManager)
    with pytest.raises(Cancelled):
        face.run(Script(OSError), ConstantBackOff(100), token=token, **hooks)
    assert [(when, which, name) for when, which, name, *_ in log] == [
        (1, "in", "on_attempt 1"),
        (2, "out", "on_attempt 1"),
        (3, "in", "on_retry 1"),
        (31, "out", "on_retry 1"),
    ]


@AWAITING
def test_managers_are_left_once_when_the_task_is_cancelled(face: Any, clock: VirtualClock) -> None:
    for when, steps in [(0.5, (Takes(1, 7),)), (3, (Takes(1, OSError),))]:
        log: list[Any] = []

        async def main() -> None:
            began = now()
            hooks = spanning(log)
            task = asyncio.ensure_future(face.main(Script(*steps), ConstantBackOff(5), **hooks))
            await asyncio.sleep(when)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert now() == began + when

        in_loop(main())
        last = "on_attempt" if when < 1 else "on_retry"
        entered, (ended, error) = ends_of(log, last)
        assert entered == ("in",)
        assert ended == "out"
        assert isinstance(error, asyncio.CancelledError)
        assert ends_of(log, "on_give_up") == ends_of(log, "on_success") == []


def test_a_plain_with_enters_no_manager_if_one_of_them_is_asynchronous(
    clock: VirtualClock,
) -> None:
    log: list[Any] = []
    script, first, second = Script(7), spanning(log), spanning(log, manager=AsyncManager)
    with pytest.raises(RuntimeError, match="async with"):
        FACES["async loop"].run(script, on_attempt=[first["on_attempt"], second["on_attempt"]])
    assert (script.count, log) == (0, [])


@ALL_ASYNC
def test_coroutine_functions_and_functions_may_be_mixed(face: Any) -> None:
    log: list[Any] = []
    slow = spanning(log, slow=True)["on_attempt"]
    hooks = [spanning(log)["on_attempt"], slow, Recorded()]
    assert face.run(Script(7), on_attempt=hooks) == 7
    assert [entry[:3] for entry in log] == [
        (1, "in", "on_attempt 1"),
        (1, "in", "on_attempt 1"),
        (1, "out", "on_attempt 1"),
        (1, "out", "on_attempt 1"),
    ]


def test_a_plain_with_goes_with_asynchronous_managers_of_waits_and_ends(
    clock: VirtualClock,
) -> None:
    log: list[Any] = []
    hooks = spanning(log, "on_retry", "on_success", manager=AsyncManager)
    assert FACES["async loop"].run(Script(OSError, 7), ConstantBackOff(5), **hooks) == 7
    assert [(which, name) for _, which, name, *_ in log] == [
        ("in", "on_retry 1"),
        ("out", "on_retry 1"),
        ("in", "on_success 2"),
        ("out", "on_success 2"),
    ]


async def awaitable(outcome: Any) -> None:
    raise AssertionError


@types.coroutine
def awaitable_generator(outcome: Any) -> Generator[None, None, None]:
    yield


@SYNC
@pytest.mark.parametrize("hook", [awaitable, awaitable_generator])
def test_a_thread_awaits_no_hook(face: Any, hook: Any) -> None:
    """Nor is its coroutine left behind unawaited, which would be a warning."""
    for name in HOOKS:
        steps = (OSError,) if name == "on_give_up" else (OSError, 7)
        with pytest.raises(TypeError, match=f"{name} returned an awaitable"):
            face.run(Script(*steps), ConstantBackOff(5), max_attempts=len(steps), **{name: hook})


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


@on_faces("async loop", "async loop, async with")
def test_a_hook_that_is_a_coroutine_made_of_a_generator_is_awaited(face: Any) -> None:
    log: list[str] = []

    @types.coroutine
    def hook(_: object) -> Generator[None, None, None]:
        yield
        log.append("awaited")

    face.run(Script(7), on_success=hook)
    assert log == ["awaited"]
