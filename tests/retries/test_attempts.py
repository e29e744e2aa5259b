"""Retries as loops over attempts, also with ``with attempt:`` in ``async for``.

That is for blocks that nothing has to cut, and for options of which nothing has to be awaited.
"""

import asyncio

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    RetryBudget,
    attempts,
    configure,
    current_attempt,
    with_token,
)
from tests.helpers import sleep
from tests.retries.faces import BOTH, FACES, LOOPS, in_loop
from tests.retries.made_hooks import HOOKS, AsyncManager, noting, spanning
from tests.retries.scripts import FIVE, ONE, ZERO, Recorded, Script, answered, at, now
from tests.retries.test_budget import Awaited


@pytest.fixture(autouse=True)
def _no_attempt_is_left(clock):
    yield
    assert current_attempt() is None


def test_leaving_the_block_early_is_a_success():
    budget, success, gave_up = RetryBudget(10, 0.5), Recorded(), Recorded()
    run = attempts(FIVE, budget=budget, on_success=success, on_give_up=gave_up)
    for attempt in run:
        with attempt:
            if attempt.number == 2:
                break
            raise OSError
    else:
        raise AssertionError("it has ended")
    assert run.outcome[1:4] == (2, 5, 5)
    assert run.outcome.reason == "succeeded"
    assert (len(success.calls), gave_up.calls, budget.tokens) == (1, [], 9.5)


def test_nothing_happens_before_the_first_step(clock):
    hook = Recorded()
    run = attempts(ZERO, on_attempt=hook, timeout=5)
    clock.sleep(60)
    assert hook.calls == []
    for attempt in run:
        with attempt:
            if attempt.number == 1:
                raise OSError
    assert [(when, outcome.elapsed) for when, outcome in hook.calls] == [(60, 0), (60, 0)]


@LOOPS
@pytest.mark.parametrize("again", ["loop", "async loop"])
def test_a_run_is_iterated_once(face, again):
    run = attempts(ZERO)
    face.blocks(run, id)
    with pytest.raises(RuntimeError, match="iterated once"):
        FACES[again].blocks(run, id)


def test_an_attempt_whose_block_is_not_entered_is_refused_at_the_next_step():
    async def main():
        async for _ in attempts(ZERO):
            pass

    for run in (lambda: [*attempts(ZERO)], lambda: in_loop(main())):
        with pytest.raises(RuntimeError, match="attempt 1 was not made: write `with attempt:`"):
            run()


def test_a_block_is_entered_once():
    with pytest.raises(RuntimeError):
        for attempt in attempts(ZERO, on=OSError):
            with attempt:
                raise OSError
            with attempt:
                pass


@LOOPS
@pytest.mark.parametrize("delay", [0, 1])
def test_a_cancel_between_the_loop_and_the_block_keeps_the_block_from_running(face, delay):
    async def awaited(_):
        await sleep(0)

    for hooks in [{}, {"on_give_up": awaited}] if face.asynchronous else [{}]:
        token, error = CancellationToken(), OSError()
        script = Script(error)
        run = attempts(ConstantBackOff(delay), token=token, **hooks)
        with pytest.raises(Cancelled) as caught:
            face.blocks(
                run, lambda _: script(), before=lambda one: one.number == 2 and token.cancel()
            )
        assert caught.value.__cause__ is error
        assert script.count == 1
        assert (run.outcome.attempts, run.outcome.reason) == (1, "cancelled")


@LOOPS
def test_an_error_that_looks_like_the_end_of_a_loop_does_not_end_it(face):
    kind = StopAsyncIteration if face.asynchronous else StopIteration
    with pytest.raises(RuntimeError, match=kind.__name__) as caught:
        face.blocks(attempts(on_retry=Recorded(kind)), lambda _: answered(OSError))
    assert isinstance(caught.value.__cause__, kind)


@LOOPS
def test_an_attempt_is_one_object_tells_how_it_stands_and_is_seen_in_its_block_only(face):
    seen = []

    def block(attempt):
        assert attempt is current_attempt()
        seen.append(repr(attempt))
        attempt.set_result(attempt.outcome)
        if attempt.number == 1:
            raise OSError

    def not_seen(attempt):
        assert current_attempt() is None

    def after(attempt):
        not_seen(attempt)
        seen.append(attempt)

    run = attempts(FIVE, name="prices", until=lambda told: told.attempts == 2)
    face.blocks(run, block, before=not_seen, after=after)
    assert seen[::2] == ["<Attempt 1 of prices>", "<Attempt 2 of prices>"]
    assert repr(seen[3]) == "<Attempt 2 of prices, ended>"
    assert seen[3].outcome == run.outcome
    with pytest.raises(RuntimeError):
        seen[3].set_result(8)


@LOOPS
def test_an_attempt_takes_a_result_only_while_its_own_block_runs(face):
    seen = []

    def refused(attempt):
        with pytest.raises(RuntimeError, match=r"set_result\(\)"):
            attempt.set_result(7)

    def block(attempt):
        seen.append(attempt)
        if attempt.number == 1:
            raise OSError
        refused(seen[0])
        attempt.set_result(8)

    results = Recorded(True)
    face.blocks(attempts(ZERO, until=results), block, before=refused, after=refused)
    assert results.calls == [(0, 8)]


@BOTH
def test_the_attempt_of_a_call_has_no_block_and_takes_no_result(face):
    def operation():
        with pytest.raises(RuntimeError, match="has no block"):
            current_attempt().set_result(7)
        with pytest.raises(RuntimeError, match="has no block"), current_attempt():
            pass
        return 8

    assert face.run(Script(operation)) == 8


@LOOPS
def test_who_leaves_after_a_failed_block_is_told_of_no_retry(face):
    told = []
    run = attempts(FIVE, notify=told.append, on_retry=told.append)
    face.blocks(run, lambda _: answered(OSError), after=lambda _: False)
    assert told == []
    assert (run.outcome.attempts, run.outcome.delay) == (1, 5.0)


# ``with attempt:`` in ``async for``


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
    assert run.outcome.reason == "failed"
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
    assert run.outcome.reason in ("failed", "max_attempts")


def test_an_async_with_is_for_async_for():
    run = attempts()
    attempt = next(run)
    with pytest.raises(TypeError, match="write `with attempt:`"):
        in_loop(attempt.__aenter__())
