"""``on``: which failures are retried, and after how long."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    ExponentialBackOff,
    ExponentialFeedbackBackOff,
    Permanent,
    RetryAfter,
    StopReason,
    ZeroBackOff,
    attempts,
    retry,
    with_max_retries,
    with_token,
)
from tests.retries.faces import ALL_ASYNC, ASYNC, BOTH, FOUR, SYNC, in_loop
from tests.retries.hedges import InTurn, hedge as hedge_in_loop, takes
from tests.retries.scripts import Recorded, Script
from tests.tickers.made_policies import Counting, Scripted


@BOTH
def test_a_type_retries_its_subclasses_and_nothing_else(face: Any) -> None:
    script = Script(ConnectionResetError, TimeoutError, ValueError("other"), 7)
    with pytest.raises(ValueError, match="other"):
        face.run(script, ConstantBackOff(1), on=OSError)
    assert script.times == [0, 1, 2]


@BOTH
def test_a_tuple_retries_each_of_its_types(face: Any) -> None:
    script = Script(KeyError, ValueError, OSError("other"), 7)
    with pytest.raises(OSError, match="other"):
        face.run(script, ConstantBackOff(1), on=(LookupError, ValueError))
    assert script.times == [0, 1, 2]


class Renamed(ValueError, TypeError):
    """An error of a wrong program, although it is a ValueError, too."""


WRONG_PROGRAM = [
    *(AssertionError, AttributeError, ImportError, NameError, NotImplementedError, SyntaxError),
    *(TypeError, ModuleNotFoundError, UnboundLocalError, IndentationError, Renamed),
]


@BOTH
def test_by_default_every_other_exception_is_retried(face: Any) -> None:
    for options in ({}, {"on": None}):
        script = Script(Exception, StopAsyncIteration, TimeoutError, MemoryError, RuntimeError, 7)
        assert face.run(script, ConstantBackOff(1), **options) == 7
        assert script.count == 6


@pytest.mark.parametrize("kind", WRONG_PROGRAM)
def test_by_default_an_error_of_a_wrong_program_passes_at_once(face: Any, kind: Any) -> None:
    error, hook = kind("wrong"), Recorded()
    hooks = {"notify": hook, "on_retry": hook, "on_give_up": hook}
    for options in ({}, {"max_attempts": 5}, {"timeout": 60}, hooks):
        script = Script(error, 7)
        with pytest.raises(kind) as caught:
            face.run(script, ConstantBackOff(1), **options)
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        assert script.count == 1
    assert hook.calls == []


@FOUR
def test_by_default_it_passes_later_on_too_and_the_note_says_why(face: Any) -> None:
    for first in (OSError, ConnectionError("the same class as before")):
        script = Script(first, first, NameError("wrong"), 7)
        with pytest.raises(NameError) as caught:
            face.run(script, ZeroBackOff())
        assert script.count == 3
        (note,) = caught.value.__notes__
        assert re.fullmatch(r"gave up after 3 attempts.*: on does not retry this error", note)


@FOUR
def test_what_is_named_is_retried_whatever_it_means(face: Any) -> None:
    for kind in WRONG_PROGRAM:
        for on in (kind, (OSError, kind), Exception, {Exception: True}, lambda _: True):
            assert face.run(Script(kind, kind, 7), ConstantBackOff(1), on=on) == 7


@BOTH
def test_a_marker_of_the_operation_is_stronger_than_the_default(face: Any) -> None:
    assert face.run(Script(RetryAfter(1, TypeError()), 7), ConstantBackOff(1)) == 7


def test_the_default_holds_for_hedged_calls(hedge: Any) -> None:
    operation = InTurn(takes(1, TypeError("wrong")), takes(1, 7))
    with pytest.raises(TypeError, match="wrong"):
        hedge(operation, ConstantBackOff(100))
    assert operation.times == [0]
    operation = InTurn(takes(1, TypeError("named")), takes(1, 7))
    assert hedge(operation, ConstantBackOff(100), on=TypeError) == 7


@FOUR
def test_a_union_is_taken_as_a_tuple_is(face: Any) -> None:
    script = Script(KeyError, ValueError, OSError("other"), 7)
    with pytest.raises(OSError, match="other"):
        face.run(script, ConstantBackOff(1), on=LookupError | ValueError)
    assert script.times == [0, 1, 2]


@BOTH
def test_a_function_is_asked_once_for_each_error(face: Any) -> None:
    errors = [OSError(1), OSError(2), OSError(3)]
    asked = Recorded(lambda: asked.last is not errors[2])
    script = Script(*errors, 7)
    with pytest.raises(OSError) as caught:
        face.run(script, ConstantBackOff(1), on=asked)
    assert caught.value is errors[2]
    assert asked.calls == [(0, errors[0]), (1, errors[1]), (2, errors[2])]


@FOUR
def test_a_number_is_how_long_to_wait_and_true_is_none(face: Any) -> None:
    for answer, wait in [
        (7, 7),
        (2.5, 2.5),
        (0, 0),
        (0.0, 0),
        (1, 1),
        (True, 10),
        (timedelta(minutes=1), 60),
        (timedelta(), 0),
        (10**6, 21600),
    ]:
        told, script = Recorded(), Script(OSError, 7)
        assert face.run(script, ConstantBackOff(10), on=lambda error: answer, notify=told) == 7
        assert script.times[1] - script.times[0] == wait
        assert told.calls[0][2] == wait


@BOTH
def test_a_number_is_bounded_by_max_retry_after(face: Any) -> None:
    for bound, wait in [(60, 60), (timedelta(seconds=60), 60), (None, 10**6), (0, 0)]:
        script = Script(OSError, 7)
        face.run(script, ConstantBackOff(10), on=lambda error: 10**6, max_retry_after=bound)
        assert script.times[1] - script.times[0] == wait


@BOTH
def test_the_policy_is_asked_beside_a_number_and_its_end_binds(face: Any) -> None:
    script = Script(ValueError)
    with pytest.raises(ValueError):
        face.run(script, with_max_retries(ConstantBackOff(1), 2), on=lambda error: 5)
    assert script.times == [0, 5, 10]


@BOTH
def test_a_number_replaces_one_delay_of_the_policy(face: Any) -> None:
    script = Script(OSError, KeyError, OSError, 7)
    face.run(script, Counting(), on=lambda error: 50 if isinstance(error, KeyError) else True)
    assert script.times == [0, 1, 51, 54]


@FOUR
def test_any_other_answer_is_a_type_error_that_names_on(face: Any) -> None:
    for answer in (None, "1", b"", [], 1j, Fraction(1), ValueError):
        script, gave_up = Script(OSError("first"), 7), Recorded()
        with pytest.raises(TypeError, match=r"\bon\b") as caught:
            face.run(script, ConstantBackOff(1), on=lambda error: answer, on_give_up=gave_up)
        told = caught.value.__cause__ or caught.value.__context__
        assert str(told) == "first"
        assert script.count == 1
        assert [outcome.reason for _, outcome in gave_up.calls] == [StopReason.FAILED]


@BOTH
def test_a_number_that_is_no_delay_names_on(face: Any) -> None:
    for answer in (-1, float("nan"), float("inf"), timedelta(seconds=-1)):
        script = Script(OSError, 7)
        with pytest.raises((TypeError, ValueError), match=r"\bon\b"):
            face.run(script, ConstantBackOff(1), on=lambda error: answer)
        assert script.count == 1


@BOTH
def test_what_on_raises_ends_the_run(face: Any) -> None:
    own, first, gave_up = LookupError("of on"), OSError("first"), Recorded()
    script, policy = Script(first, 7), Scripted(then=1.0)
    with pytest.raises(LookupError) as caught:
        face.run(script, policy, on=Recorded(own), on_give_up=gave_up)
    assert caught.value is own
    assert first in (own.__cause__, own.__context__)
    assert (script.count, policy.asked) == (1, 0)
    assert gave_up.last.reason is StopReason.FAILED


def test_what_is_no_exception_is_refused_and_told_what_to_write(face: Any) -> None:
    script = Script(7)
    for kind in (BaseException, KeyboardInterrupt, asyncio.CancelledError, BaseExceptionGroup):
        for on in (kind, (OSError, kind)):
            with pytest.raises(TypeError, match=rf"not {kind.__name__}: .* on=Exception means"):
                face.run(script, on=on)
    assert script.count == 0


# Policies by error


def doubling(first: float) -> ExponentialBackOff:
    return ExponentialBackOff(first, 0, 2, max_interval=10**6, max_elapsed_time=None)


def test_a_mapping_gives_each_type_a_policy_or_that_of_the_retry(face: Any) -> None:
    script = Script(KeyError, OSError, KeyError, ValueError, OSError, 7)
    rules = {KeyError: ConstantBackOff(100), OSError: doubling(1000), ValueError: True}
    assert face.run(script, ConstantBackOff(1), on=rules) == 7
    assert script.times == [0, 100, 1100, 1200, 1201, 3201]


@BOTH
def test_the_most_specific_type_of_a_mapping_wins(face: Any) -> None:
    rules = {Exception: ConstantBackOff(1), OSError: ConstantBackOff(10), ConnectionError: False}
    script = Script(ValueError, TimeoutError, ConnectionResetError("last"))
    with pytest.raises(ConnectionResetError, match="last"):
        face.run(script, on=rules)
    assert script.times == [0, 1, 11]


@BOTH
def test_an_error_that_no_type_of_a_mapping_names_is_not_retried(face: Any) -> None:
    script = Script(OSError, ValueError("other"))
    with pytest.raises(ValueError, match="other"):
        face.run(script, ConstantBackOff(1), on={OSError: True})
    assert script.count == 2
    with pytest.raises(OSError):
        face.run(Script(OSError), on={})


@BOTH
def test_a_mapping_is_read_when_it_is_given(face: Any) -> None:
    rules: dict[type[Exception], Any] = {OSError: True}
    decorated = retry(ZeroBackOff(), on=rules, max_attempts=2)(Script(OSError, 7))
    rules.clear()
    assert decorated() == 7


@BOTH
def test_a_function_may_return_the_policy_to_ask(face: Any) -> None:
    fast, slow = doubling(1), ConstantBackOff(100)
    script = Script(OSError, OSError, KeyError, OSError, ValueError, 7)

    def on(error: Exception) -> Any:
        return {OSError: fast, KeyError: slow}.get(type(error), True)

    assert face.run(script, ConstantBackOff(10), on=on) == 7
    assert script.times == [0, 1, 3, 103, 107, 117]


@FOUR
def test_each_run_has_its_own_copy_of_each_policy(face: Any) -> None:
    policy = doubling(1)
    for _ in range(2):
        script = Script(OSError, OSError, 7)
        face.run(script, on={OSError: policy})
        assert [at - script.times[0] for at in script.times] == [0, 1, 3]
    assert policy.next_backoff() == 1


@BOTH
def test_the_end_of_such_a_policy_ends_the_run_and_is_named(face: Any) -> None:
    gave_up = Recorded()
    script = Script(KeyError, OSError, KeyError, OSError("last"))
    rules = {KeyError: True, OSError: with_max_retries(ConstantBackOff(5), 1)}
    with pytest.raises(OSError, match="last") as caught:
        face.run(script, ConstantBackOff(1), on=rules, on_give_up=gave_up)
    assert script.times == [0, 1, 6, 7]
    assert gave_up.last.reason is StopReason.EXHAUSTED
    (note,) = caught.value.__notes__
    assert "the policy stopped: with_max_retries(ConstantBackOff(5.0), 1)" in note


@BOTH
def test_a_new_policy_for_each_error_begins_each_time_and_few_are_kept(face: Any) -> None:
    script = Script(*[OSError] * 250, 7)
    made: list[Any] = []

    def on(error: Exception) -> Any:
        made.append(doubling(1))
        return made[-1]

    assert face.run(script, on=on) == 7
    assert script.times == list(range(251))


@BOTH
def test_what_such_a_policy_raises_ends_the_run(face: Any) -> None:
    own, first = LookupError("of the policy"), OSError("first")
    with pytest.raises(LookupError) as caught:
        face.run(Script(first), on={OSError: Scripted(own)})
    assert caught.value is own
    assert first in (own.__cause__, own.__context__)


@BOTH
def test_markers_are_stronger_than_a_mapping(face: Any) -> None:
    with pytest.raises(OSError, match="for good"):
        face.run(Script(Permanent(OSError("for good"))), on={Exception: ConstantBackOff(1)})
    script = Script(RetryAfter(50, OSError("busy")), 7)
    face.run(script, ConstantBackOff(1), on={OSError: ConstantBackOff(5)})
    assert script.times[1] - script.times[0] == 50


@BOTH
def test_a_token_in_a_policy_of_a_mapping_cancels_the_run(face: Any) -> None:
    token = CancellationToken()

    def step() -> Any:
        token.cancel()
        raise KeyError

    script = Script(step)
    with pytest.raises(Cancelled):
        face.run(script, on={KeyError: True, OSError: with_token(ConstantBackOff(1), token)})
    assert script.count == 1


@SYNC
def test_a_wrong_mapping_is_refused_before_the_first_call(face: Any) -> None:
    script = Script(7)
    for on, told in [
        ({OSError: 5}, r"on\[OSError\] must be True, False or a BackOff, not 5"),
        ({OSError: ConstantBackOff}, r"on\[OSError\] must be True, False or a BackOff"),
        ({"OSError": True}, "on must be an exception type, a tuple or union of them"),
        ({KeyboardInterrupt: True}, "never retried"),
        ({(OSError, KeyError): True}, "on must be an exception type, a tuple or union of them"),
    ]:
        with pytest.raises(TypeError, match=told):
            face.run(script, on=on)
    assert script.count == 0


@BOTH
def test_a_feedback_policy_of_a_mapping_is_told_of_each_failure(face: Any) -> None:
    policy = ExponentialFeedbackBackOff(1, exponent_base=2)
    script = Script(OSError, OSError, OSError, 7)
    face.run(script, on={OSError: policy})
    alone = Script(OSError, OSError, OSError, 7)
    face.run(alone, policy)
    assert [at - script.times[0] for at in script.times] == [
        at - alone.times[0] for at in alone.times
    ]


@FOUR
def test_the_policy_of_the_retry_is_the_same_series_if_on_names_it_too(face: Any) -> None:
    policy = ExponentialBackOff(1, 0, 2)
    script = Script(OSError, KeyError, OSError, KeyError, 7)
    assert face.run(script, policy, on={OSError: policy, KeyError: True}) == 7
    assert script.times == [0, 1, 3, 7, 15]


# Functions that await


@ALL_ASYNC
def test_in_a_coroutine_on_may_await(face: Any) -> None:
    asked = []

    async def on(error: Exception) -> bool:
        await asyncio.sleep(1)
        asked.append(error)
        return len(asked) < 3

    errors = [OSError(1), OSError(2), OSError(3)]
    gave_up, script = Recorded(), Script(*errors)
    with pytest.raises(OSError) as caught:
        face.run(script, ConstantBackOff(10), on=on, on_give_up=gave_up)
    assert caught.value is errors[2]
    assert asked == errors
    assert script.times == [0, 11, 22]
    assert gave_up.last.reason is StopReason.NOT_RETRIED


@ASYNC
def test_what_on_awaits_may_be_seconds_a_policy_or_no_answer(face: Any) -> None:
    fast = doubling(1)

    async def on(error: Exception) -> Any:
        return {OSError: 5, KeyError: fast, ValueError: timedelta(minutes=1)}[type(error)]

    script = Script(OSError, KeyError, ValueError, KeyError, 7)
    assert face.run(script, ConstantBackOff(10), on=on) == 7
    assert script.times == [0, 5, 6, 66, 68]
    with pytest.raises(TypeError, match="what on returns must be a bool"):
        face.run(Script(OSError), on=lambda error: asyncio.sleep(0, "soon"))


@ASYNC
def test_of_a_cancel_by_its_own_token_nothing_is_awaited(face: Any) -> None:
    token, seen = CancellationToken(), Recorded()

    async def on(error: Exception) -> bool:
        seen(error)  # would be told if it was awaited; if it is forgotten, Python warns
        return True

    def cancel() -> None:
        token.cancel("the end")
        raise Cancelled("of the operation")

    with pytest.raises(Cancelled, match="the end"):
        face.run(Script(cancel), on=on, token=token)
    assert seen.calls == []


@ASYNC
def test_what_on_raises_as_it_is_awaited_ends_the_run(face: Any) -> None:
    own, first = LookupError("of on"), OSError("first")

    async def on(error: Exception) -> bool:
        await asyncio.sleep(0)
        raise own

    for hooks in ({}, {"notify": Recorded()}):
        with pytest.raises(LookupError) as caught:
            face.run(Script(first), on=on, **hooks)
        assert caught.value is own
        assert first in (own.__cause__, own.__context__)


@ALL_ASYNC
@pytest.mark.parametrize("name", ["until", "retry_if"])
def test_in_a_coroutine_a_judge_of_results_may_await(face: Any, name: str) -> None:
    async def judge(result: int) -> bool:
        await asyncio.sleep(1)
        return (result == 7) == (name == "until")

    script = Script(1, OSError, 2, 7)
    assert face.run(script, ConstantBackOff(10), **{name: judge}) == 7
    assert script.times == [0, 11, 21, 32]


@SYNC
@pytest.mark.parametrize("name", ["on", "until", "retry_if"])
def test_in_a_thread_an_answer_that_must_be_awaited_is_refused(face: Any, name: str) -> None:
    async def judge(_: Any) -> bool:
        raise AssertionError("it is closed, not awaited")

    script = Script(OSError("first"), 7) if name == "on" else Script(7)
    with pytest.raises(TypeError, match=f"{name} must be a plain function"):
        face.run(script, ConstantBackOff(1), **{name: judge})
    assert script.count == 1


def test_hedges_await_their_predicates_and_ask_chosen_policies(clock: Any) -> None:
    async def until(result: int) -> bool:
        await asyncio.sleep(1)
        return result > 1

    async def on(error: Exception) -> Any:
        await asyncio.sleep(1)
        return ConstantBackOff(20)

    operation = InTurn(takes(5, 1), takes(5, OSError()), takes(5, 2))
    assert hedge_in_loop(operation, ConstantBackOff(100), until=until, on=on) == 2
    assert operation.times == [0, 6, 32]


def test_a_task_cancelled_while_a_predicate_awaits_ends_the_run(clock: Any) -> None:
    gave_up = Recorded()

    async def main() -> None:
        async def on(error: Exception) -> bool:
            await asyncio.sleep(100)
            return True

        async def run() -> None:
            async for attempt in attempts(on=on, on_give_up=gave_up):
                async with attempt:
                    raise OSError

        task = asyncio.ensure_future(run())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_loop(main())
    assert gave_up.calls == [] or gave_up.last.reason is StopReason.INTERRUPTED
