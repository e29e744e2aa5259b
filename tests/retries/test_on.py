"""``on`` and ``until``: what is retried, and after how long."""

import asyncio
from datetime import timedelta
from fractions import Fraction
from typing import Union

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    RejectedResult,
    RetryBudget,
    ZeroBackOff,
    attempts,
    configure,
    retry,
    with_max_retries,
    with_token,
)
from tests.helpers import sleep
from tests.retries.faces import ALL_ASYNC, AND_HEDGES, BOTH, FOUR, LOOPS, SYNC, check
from tests.retries.hedges import hedge as hedge_in_loop, takes
from tests.retries.scripts import FIVE, ONE, TEN, ZERO, Recorded, Script, Takes, now


def doubling(first):
    return ExponentialBackOff(first, 0, 2, max_interval=10**6, max_elapsed_time=None)


FAST, SLOW = doubling(1), ConstantBackOff(100)
CHOSEN = {OSError: 20, KeyError: timedelta(seconds=100), TimeoutError: 0}
LAST = RuntimeError("last")

# What `on` is, the steps of the operation, and when it is called; the policy of the retry is ONE.
RULES = {
    "a type": (OSError, [OSError, TimeoutError, LAST], [0, 1, 2]),
    "a tuple": ((LookupError, ValueError), [KeyError, UnicodeError, LAST], [0, 1, 2]),
    "a union": (LookupError | ValueError, [KeyError, UnicodeError, LAST], [0, 1, 2]),
    "a union of typing": (
        Union[LookupError, ValueError],  # noqa: UP007 - before Python 3.14 it is another type
        [KeyError, UnicodeError, LAST],
        [0, 1, 2],
    ),
    "a mapping": ({OSError: True}, [OSError, LAST], [0, 1]),
    "nothing": ({}, [LAST], [0]),
    "a mapping to policies": (
        {KeyError: SLOW, OSError: doubling(1000), ValueError: True},
        [KeyError, OSError, KeyError, ValueError, OSError, 7],
        [0, 100, 1100, 1200, 1201, 3201],
    ),
    "a mapping to seconds": (
        {KeyError: 20, OSError: timedelta(seconds=100), ValueError: 0.0, RuntimeError: False},
        [KeyError, OSError, ValueError, LAST],
        [0, 20, 120, 120],
    ),
    "types and subtypes": (
        {Exception: ONE, OSError: TEN, RuntimeError: False},
        [ValueError, TimeoutError, LAST],
        [0, 1, 11],
    ),
    "a function": (
        lambda error: CHOSEN.get(type(error), error is not LAST),
        [OSError, TimeoutError, KeyError, ValueError, LAST],
        [0, 20, 20, 120, 121],
    ),
}


@FOUR
@pytest.mark.parametrize("rule", RULES)
def test_on_says_which_errors_are_retried_and_when(face, rule):
    """Each run on a copy of each policy: all faces have the same ones."""
    on, steps, times = RULES[rule]
    check(face, ((steps, ONE, {"on": on}), (times, steps[-1])))


@FOUR
def test_the_policy_of_the_retry_is_the_same_series_if_on_names_it_too(face):
    steps, rules = [OSError, KeyError, OSError, KeyError, 7], {OSError: FAST, KeyError: True}
    check(face, ((steps, FAST, {"on": rules}), ([0, 1, 3, 7, 15], 7)))


class Renamed(ValueError, TypeError):
    """An error of a wrong program, although it is a ValueError, too."""


WRONG_PROGRAM = [
    *(AssertionError, AttributeError, ImportError, NameError, NotImplementedError, SyntaxError),
    *(TypeError, ModuleNotFoundError, UnboundLocalError, IndentationError, Renamed),
]


@BOTH
def test_by_default_every_other_exception_is_retried(face):
    for options in ({}, {"on": None}):
        script = Script(Exception, StopAsyncIteration, TimeoutError, MemoryError, RuntimeError, 7)
        assert face.run(script, ONE, **options) == 7
        assert script.count == 6


@AND_HEDGES
@pytest.mark.parametrize("kind", WRONG_PROGRAM)
def test_by_default_an_error_of_a_wrong_program_passes_at_once(face, kind):
    error, hook = kind("wrong"), Recorded()
    for hooks in ({}, {"notify": hook, "on_retry": hook, "on_give_up": hook}):
        for options in ({}, {"max_attempts": 5}, {"timeout": 60}):
            script = Script(error, 7)
            with configure(**hooks):
                assert face.fails(kind, script, ONE, **options) is error
            assert not hasattr(error, "__notes__")
            assert script.count == 1
    assert hook.calls == []


@AND_HEDGES
def test_what_is_named_is_retried_whatever_it_means(face):
    for kind in WRONG_PROGRAM:
        for on in (kind, (OSError, kind), Exception, {Exception: True}, lambda _: True):
            assert face.run(Script(kind, kind, 7), ONE, on=on) == 7


@BOTH
def test_a_function_is_asked_once_for_each_error(face):
    errors = [OSError(1), OSError(2), OSError(3)]
    asked = Recorded(lambda: asked.last is not errors[2])
    script = Script(*errors, 7)
    assert face.fails(OSError, script, ONE, on=asked) is errors[2]
    assert asked.calls == [(0, errors[0]), (1, errors[1]), (2, errors[2])]


@BOTH
def test_the_policy_is_asked_beside_a_number_and_its_end_binds(face):
    policy = with_max_retries(ONE, 2)
    check(face, (([OSError], policy, {"on": lambda _: 5}), ([0, 5, 10], OSError, 10, "exhausted")))


@FOUR
def test_any_other_answer_is_an_error_that_names_on(face):
    bad_numbers = (-1, float("nan"), float("inf"), timedelta(seconds=-1))
    policies = (ONE, ZeroBackOff)
    for answer in (None, "1", b"", [], 1j, Fraction(1), ValueError, *bad_numbers, *policies):
        script, gave_up = Script(OSError("first"), 7), Recorded()
        with pytest.raises((TypeError, ValueError), match=r"\bon\b") as caught:
            face.run(script, ONE, on=lambda error: answer, on_give_up=gave_up)
        told = caught.value.__cause__ or caught.value.__context__
        assert str(told) == "first"
        assert script.count == 1
        assert [outcome.reason for _, outcome in gave_up.calls] == ["failed"]


WRONG = "on must be an exception type, a tuple or union of them"


@FOUR
def test_what_is_no_rule_is_refused_and_told_what_to_write(face):
    script = Script(7)
    for kind in (BaseException, KeyboardInterrupt, asyncio.CancelledError, BaseExceptionGroup):
        for on in (kind, (OSError, kind)):
            with pytest.raises(TypeError, match=rf"not {kind.__name__}: .* on=Exception means"):
                face.run(script, on=on)
    for on, told in [
        ({OSError: "5"}, r"on\[OSError\] must be True, False, seconds .* or a BackOff, not '5'"),
        ({OSError: ConstantBackOff}, r"on\[OSError\] must be True, False, seconds .* or a BackOff"),
        ({KeyboardInterrupt: True}, "never retried"),
        ({"OSError": True}, WRONG),
        ({(OSError, KeyError): True}, WRONG),
    ]:
        face.fails(TypeError, script, on=on, match=told)
    assert script.count == 0


def test_a_mapping_is_read_when_it_is_given():
    rules = {OSError: True}
    decorated = retry(ZERO, on=rules, max_attempts=2)(Script(OSError, 7))
    rules.clear()
    assert decorated() == 7


@BOTH
def test_the_end_of_such_a_policy_ends_the_run_and_is_named(face):
    gave_up = Recorded()
    script = Script(KeyError, OSError, KeyError, OSError("last"))
    rules = {KeyError: True, OSError: with_max_retries(FIVE, 1)}
    caught = face.fails(OSError, script, ONE, on=rules, on_give_up=gave_up, match="last")
    assert script.times == [0, 1, 6, 7]
    assert gave_up.last.reason == "exhausted"
    (note,) = caught.__notes__
    assert "the policy stopped: with_max_retries(ConstantBackOff(5.0), 1)" in note


@BOTH
def test_limits_of_time_of_all_policies_count_from_the_first_failure_of_the_run(face):
    limited = ExponentialBackOff(1, 0, 1, max_elapsed_time=10)
    script = Script(*[Takes(4, KeyError)] * 3, Takes(4, OSError))
    caught = face.fails(OSError, script, ONE, on={KeyError: True, OSError: limited})
    assert script.times == [0, 5, 10, 15]
    assert "the policy stopped" in caught.__notes__[0]


@BOTH
def test_a_token_in_a_policy_of_a_mapping_cancels_the_run(face):
    token = CancellationToken()
    script = Script(lambda: token.cancel() and KeyError)
    face.fails(Cancelled, script, on={KeyError: True, OSError: with_token(ONE, token)})
    assert script.count == 1


@ALL_ASYNC
def test_what_on_awaits_may_be_any_answer_or_none(face):
    answers = {OSError: 5, KeyError: timedelta(0), ValueError: True, RuntimeError: False}

    async def on(error):
        await sleep(1)
        return answers[type(error)]

    steps = [OSError, KeyError, ValueError, KeyError, RuntimeError]
    ends = [0, 6, 7, 18, 19], RuntimeError, 20, "not_retried"
    check(face, ((steps, TEN, {"on": on}), ends))
    with pytest.raises(TypeError, match="what on returns must be a bool"):
        face.run(Script(OSError), on=lambda error: Script("soon").in_loop())


@ALL_ASYNC
def test_in_a_coroutine_until_may_await(face):
    async def until(result):
        await sleep(1)
        return result == 7

    check(face, (([1, OSError, 2, 7], TEN, {"until": until}), ([0, 11, 21, 32], 7)))


@SYNC
@pytest.mark.parametrize("name", ["on", "until"])
def test_in_a_thread_an_answer_that_must_be_awaited_is_refused(face, name):
    async def judge(_):
        raise AssertionError("it is closed, not awaited")

    script = Script(OSError("first"), 7) if name == "on" else Script(7)
    face.fails(TypeError, script, ONE, match=f"{name} must be a plain function", **{name: judge})
    assert script.count == 1


def test_hedges_await_their_predicates(clock):
    async def until(result):
        await sleep(1)
        return result > 1

    async def on(error):
        await sleep(1)
        return 20

    operation = Script(takes(5, 1), takes(5, OSError()), takes(5, 2))
    assert hedge_in_loop(operation, ConstantBackOff(100), until=until, on=on) == 2
    assert operation.times == [0, 6, 32]


def at_least_three(result):
    return result >= 3


REJECTING = {"until": at_least_three}


RESULTS = {
    "until": (([1, 2, 3, 4], 5, REJECTING), ([0, 5, 10], 3)),
    **{
        f"whatever on says, {number}": (([1, 2, 3], 0, {"on": on, **REJECTING}), ([0, 0, 0], 3))
        for number, on in enumerate([KeyError, (KeyError, OSError), lambda _: False])
    },
}


@pytest.mark.parametrize("case", RESULTS)
def test_results_are_judged(face, case):
    check(face, RESULTS[case])


@AND_HEDGES
def test_a_result_rejected_to_the_end_is_told_by_the_error(face):
    caught = face.fails(RejectedResult, Script(1, 2), ONE, max_attempts=2, **REJECTING)
    assert caught.result == 2


@SYNC
def test_a_late_result_is_looked_at_before_it_is_returned(face):
    caught = face.fails(DeadlineExceeded, Script(Takes(5, 0)), ZERO, until=bool, timeout=3)
    assert isinstance(caught.__cause__, RejectedResult)
    assert now() == 5
    assert face.run(Script(Takes(5, 1)), ZERO, until=bool, timeout=3) == 1


@BOTH
def test_a_rejected_result_is_no_success(face):
    budget, success = RetryBudget(10, 0.5), Recorded()
    script = Script(0, 0, 0, 1)
    face.run(script, ZERO, until=bool, budget=budget, on_success=success)
    assert budget.tokens == 7.5
    assert [outcome.attempts for _, outcome in success.calls] == [4]


@LOOPS
def test_a_loop_must_tell_its_result(face):
    seen = []
    with pytest.raises(RuntimeError, match="set_result"):
        face.blocks(attempts(ZERO, until=bool), seen.append)
    assert len(seen) == 1


@LOOPS
def test_the_result_told_last_counts_and_a_failure_after_it_is_a_failure(face):
    seen = []

    def block(attempt):
        seen.append(attempt.number)
        attempt.set_result(attempt.number == 1)
        attempt.set_result(attempt.number > 1)
        if attempt.number == 2:
            raise OSError

    face.blocks(attempts(ZERO, until=bool), block)
    assert seen == [1, 2, 3]
