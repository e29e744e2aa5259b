"""``with attempt:`` in ``async for``: for blocks that nothing has to cut, and nothing awaits."""

import asyncio

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    StopReason,
    attempts,
    configure,
    current_attempt,
    with_token,
)
from tests.retries.faces import in_loop
from tests.retries.made_hooks import HOOKS, AsyncManager, noting, spanning
from tests.retries.scripts import FIVE, ONE, Script, at, now
from tests.retries.test_budget import Awaited


@pytest.fixture(autouse=True)
def _on_the_clock(clock):
    yield
    assert current_attempt() is None


def looped(run, script):
    async def main():
        async for attempt in run:
            with attempt:
                attempt.set_result(await script.in_loop())
            if attempt.outcome.succeeded:
                return
        assert current_attempt() is None

    in_loop(main())


def test_what_awaits_nothing_is_done():
    log, script = [], Script(OSError, 0, 7)
    options = {"on": lambda _: True, "until": bool, "budget": None, "max_elapsed_time": 60}
    run = attempts(FIVE, around=spanning(log), **noting(log), **options)
    looped(run, script)
    assert script.times == [0, 5, 10]
    assert [name for _, name, *_ in log] == [
        *["in", "on_attempt", "out", "notify", "on_retry"] * 2,
        *["in", "on_attempt", "out", "on_success"],
    ]


async def awaited(*_):
    raise AssertionError("it is not called")


class Callable:
    """An object whose call is a coroutine function."""

    async def __call__(self, *_):
        raise AssertionError("it is not called")


WRONG = {
    "token": lambda: {"token": CancellationToken()},
    "the token of a policy": lambda: {"backoff": with_token(ONE, CancellationToken())},
    "the token of a rule": lambda: {"on": {OSError: with_token(ONE, CancellationToken())}},
    "timeout": lambda: {"timeout": 60},
    "timeout=0": lambda: {"timeout": 0},
    "attempt_timeout": lambda: {"attempt_timeout": 60},
    **{
        f"{name} that awaits": lambda name=name: {name: awaited}
        for name in ("on", "until", "notify", "around", *HOOKS)
    },
    "one of several hooks that awaits": lambda: {"on_success": [bool, Callable()]},
    "budget": lambda: {"budget": Awaited()},
}


@pytest.mark.parametrize("why", WRONG)
def test_what_has_to_cut_or_await_is_refused_on_entering(why):
    script, run = Script(7), attempts(**WRONG[why]())
    with pytest.raises(TypeError, match="write `async with attempt:`"):
        looped(run, script)
    assert script.count == 0
    assert run.outcome.reason is StopReason.FAILED
    with pytest.raises(StopAsyncIteration):
        in_loop(anext(run))


def test_the_token_and_the_hooks_of_the_process_do_not_forbid_it(clock):
    token, script = CancellationToken(), Script(OSError)
    at(clock, 7, token.cancel)
    with configure(token=token), pytest.raises(Cancelled):
        looped(attempts(FIVE), script)
    assert (script.times, now()) == ([0, 5], 7)


def test_an_asynchronous_manager_is_not_entered():
    log, script = [], Script(7)
    with pytest.raises(TypeError, match="`async with attempt:`"):
        looped(attempts(around=spanning(log, manager=AsyncManager)), script)
    assert (script.count, log) == (0, [])


@pytest.mark.parametrize("name", ["on", "until", "on_attempt", "on_success", "on_give_up"])
def test_an_answer_that_has_to_be_awaited_is_refused_when_it_comes(name):
    """As of a plain function that returns a coroutine; a step of the loop may await it."""
    script = Script(*[OSError] * (name not in ("until", "on_success")), 7)
    options = {"max_attempts": 1 if name == "on_give_up" else 2}
    run = attempts(ONE, **options, **{name: lambda *_: asyncio.sleep(0)})
    with pytest.raises(TypeError, match=f"{name} must be a plain function.*`async with attempt:`"):
        looped(run, script)
    assert run.outcome.reason in (StopReason.FAILED, StopReason.MAX_ATTEMPTS)


def test_an_async_with_is_for_async_for():
    run = attempts()
    attempt = next(run)
    with pytest.raises(TypeError, match="write `with attempt:`"):
        in_loop(attempt.__aenter__())
