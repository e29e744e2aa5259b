"""Retries as loops over attempts."""

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    RetryBudget,
    StopReason,
    ZeroBackOff,
    attempts,
    current_attempt,
)
from tests.helpers import sleep
from tests.retries.faces import BOTH, FACES, LOOPS, in_loop
from tests.retries.scripts import FIVE, Recorded, Script, answered


def breaking(run):
    for attempt in run:
        with attempt:
            if attempt.number == 2:
                break
            raise OSError
    else:
        return "ended"
    return "broken"


def test_leaving_the_block_early_is_a_success(clock):
    budget, success, gave_up = RetryBudget(10, 0.5), Recorded(), Recorded()
    run = attempts(FIVE, budget=budget, on_success=success, on_give_up=gave_up)
    assert breaking(run) == "broken"
    assert run.outcome[1:4] == (2, 5, 5)
    assert run.outcome.reason is StopReason.SUCCEEDED
    assert (len(success.calls), gave_up.calls, budget.tokens) == (1, [], 9.5)


def test_nothing_happens_before_the_first_step(clock):
    hook = Recorded()
    run = attempts(ZeroBackOff(), on_attempt=hook, timeout=5)
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
    run = attempts(ZeroBackOff())
    face.blocks(run, id)
    with pytest.raises(RuntimeError, match="iterated once"):
        FACES[again].blocks(run, id)


def test_an_attempt_whose_block_is_not_entered_is_refused_at_the_next_step(clock):
    async def main():
        async for _ in attempts(ZeroBackOff()):
            pass

    for run in (lambda: [*attempts(ZeroBackOff())], lambda: in_loop(main())):
        with pytest.raises(RuntimeError, match="attempt 1 was not made: write `with attempt:`"):
            run()


def test_a_block_is_entered_once(clock):
    with pytest.raises(RuntimeError):
        for attempt in attempts(ZeroBackOff(), on=OSError):
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
        assert (run.outcome.attempts, run.outcome.reason) == (1, StopReason.CANCELLED)


@LOOPS
def test_an_error_that_looks_like_the_end_of_a_loop_does_not_end_it(face):
    kind = StopAsyncIteration if face.asynchronous else StopIteration
    with pytest.raises(RuntimeError, match=kind.__name__) as caught:
        face.blocks(attempts(on_retry=Recorded(kind)), lambda _: answered(OSError))
    assert isinstance(caught.value.__cause__, kind)


@LOOPS
def test_an_attempt_is_one_object_and_tells_how_it_stands(face):
    seen = []

    def block(attempt):
        assert attempt is current_attempt()
        assert (attempt.number, attempt.waited, attempt.name) == (2, 5, "prices")
        assert repr(attempt) == "<Attempt 2 of prices>"
        attempt.set_result(attempt.outcome)
        seen.append(attempt)

    def first_fails(attempt):
        return answered(OSError) if attempt.number == 1 else block(attempt)

    run = attempts(FIVE, name="prices", until=lambda seen: seen.attempts == 2)
    face.blocks(run, first_fails)
    assert repr(seen[0]) == "<Attempt 2 of prices, ended>"
    assert seen[0].outcome == run.outcome
    with pytest.raises(RuntimeError):
        seen[0].set_result(8)


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
    face.blocks(attempts(ZeroBackOff(), until=results), block, before=refused, after=refused)
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
