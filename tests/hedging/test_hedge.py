"""Hedged calls: when attempts start, which result wins, what ends them."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    FibonacciBackOff,
    Permanent,
    RejectedResult,
    RetryAfter,
    RetryBudget,
    StopBackOff,
    ZeroBackOff,
    hedge_call_async,
    with_max_retries,
)
from backoff_ticker.testing import VirtualClock, no_wait
from backoff_ticker.types import AsyncRetryOptions
from tests.retries.faces import in_loop
from tests.retries.hedges import InTurn, hedge as hedge_in_loop, takes
from tests.retries.made_policies import spent_budget
from tests.retries.scripts import Script, Takes, now
from tests.retries.test_options import BAD
from tests.tickers.made_policies import Scripted

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock
    from tests.retries.hedges import HedgeFace


pytestmark = pytest.mark.usefixtures("clock")


TEN = ConstantBackOff(10)


# Starts


def test_each_attempt_starts_its_delay_after_the_one_before(hedge: HedgeFace) -> None:
    script = Script(Takes(100, 7))
    assert hedge(script, Scripted(1, 20, 3, 40)) == 7
    assert (script.times, now()) == ([0, 1, 21, 24, 64], 100)


def test_there_are_five_at_the_most_if_nothing_is_said(hedge: HedgeFace) -> None:
    script = Script(Takes(1000, 7))
    hedge(script, TEN)
    assert script.times == [0, 10, 20, 30, 40]
    script = Script(Takes(95, 7))
    hedge(script, TEN, max_attempts=None)
    assert script.count == 10


def test_an_answer_in_time_needs_no_other_attempt(hedge: HedgeFace) -> None:
    script = Script(Takes(9, 7))
    assert hedge(script, TEN) == 7
    assert (script.times, now()) == ([0], 9)


def test_after_a_failure_the_next_starts_at_once_and_the_next_delay_counts_from_there(
    hedge: HedgeFace,
) -> None:
    script = Script(Takes(4, OSError), Takes(50, 7))
    assert hedge(script, Scripted(10, 20, 31)) == 7
    assert (script.times, now()) == ([0, 4, 24], 54)


def test_any_of_those_that_run_may_fail(hedge: HedgeFace) -> None:
    script = Script(Takes(12, OSError), Takes(3, OSError), Takes(100, 7))
    assert hedge(script, TEN) == 7
    assert script.times == [0, 10, 12, 13, 23]  # as 1 and 2 fail, and ten seconds later


def test_a_failure_in_the_place_of_each_that_failed() -> None:
    gate: list[Any] = []

    async def fails() -> None:
        if not gate:
            gate.append(asyncio.Event())
            asyncio.get_running_loop().call_later(15, gate[0].set)
        await gate[0].wait()
        raise OSError

    operation = InTurn(fails, fails, takes(1, 7))
    assert hedge_in_loop(operation, TEN) == 7
    assert (operation.times, now()) == ([0, 10, 15, 15], 16)


def test_without_delays_all_start_at_once() -> None:
    script = Script(Takes(9, 1), Takes(5, 2), Takes(9, 3))
    assert hedge_in_loop(script.in_loop, ZeroBackOff()) == 2
    assert (script.times, now()) == ([0] * 5, 5)


@pytest.mark.parametrize("answer", [7, Permanent(OSError(7))])
def test_one_that_answers_at_once_is_the_only_one_whatever_the_delays(answer: Any) -> None:
    for policy in (ZeroBackOff(), TEN):
        script = Script(answer)
        try:
            assert hedge_in_loop(script.in_loop, policy) == 7
        except OSError:
            pass
        assert script.count == 1


def test_without_a_policy_it_is_the_usual_one(hedge: HedgeFace) -> None:
    script = Script(Takes(3, 7))
    hedge(script)
    first = ExponentialBackOff()
    low, high = (first.initial_interval * factor for factor in (0.5, 1.5))
    assert low <= script.times[1] <= high


@pytest.mark.parametrize("ending", [10, 20, 30, 40])
def test_a_result_in_the_moment_that_the_next_is_due_comes_first(ending: float) -> None:
    for others in (0, 1, 7):  # more timers, in another order
        began = now()

        async def first() -> int:
            for n in range(others):
                asyncio.get_running_loop().call_later(ending + n % 2, int)
            await asyncio.sleep(ending)
            return 7

        operation = InTurn(first, takes(1000, 8))
        assert hedge_in_loop(operation, TEN) == 7
        assert [time - began for time in operation.times] == list(range(0, int(ending), 10))
        assert now() - began == ending


def test_a_failure_in_the_moment_that_the_next_is_due_starts_one() -> None:
    script = Script(Takes(10, OSError), Takes(15, 7))
    assert hedge_in_loop(script.in_loop, TEN) == 7
    assert script.times == [0, 10, 20]


# Results


def test_the_first_good_result_cancels_the_rest_and_they_have_ended() -> None:
    operation = InTurn(takes(100, 1, cleanup=5), takes(100, 2, cleanup=2), takes(3, 7))
    assert hedge_in_loop(operation, TEN) == 7
    assert now() == 20 + 3 + 5


def test_a_loser_that_swallows_the_cancel_is_waited_for() -> None:
    operation = InTurn(takes(100, 1, cleanup=30, then=2), takes(3, 7))
    assert hedge_in_loop(operation, TEN) == 7
    assert now() == 10 + 3 + 30


@pytest.mark.parametrize("error", [OSError, Permanent(OSError()), RetryAfter(5), GeneratorExit])
def test_what_losers_raise_as_they_end_is_nobodys_affair(hedge: HedgeFace, error: Any) -> None:
    operation = InTurn(takes(100, 1, cleanup=2, then=error), takes(3, 7))
    assert hedge(operation, TEN) == 7
    assert (len(operation.times), now()) == (2, 10 + 3 + 2 * hedge.waits)


def test_an_earlier_attempt_may_win(hedge: HedgeFace) -> None:
    script = Script(Takes(25, 1), Takes(100, 2))
    assert hedge(script, TEN) == 1
    assert (script.times, now()) == ([0, 10, 20], 25)


def together(*answers: Any, when: float = 50) -> Any:
    """Return attempts that end in one iteration of the loop, in this order."""
    gates: list[asyncio.Future[None]] = []

    def open_all() -> None:
        for gate in gates:
            if not gate.done():
                gate.set_result(None)

    def attempt_of(answer: Any) -> Any:
        async def attempt() -> Any:
            if not gates:
                asyncio.get_running_loop().call_later(when, open_all)
            gates.append(asyncio.get_running_loop().create_future())
            await gates[-1]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return attempt

    return InTurn(*map(attempt_of, answers))


def test_of_results_at_the_same_time_one_is_returned() -> None:
    assert hedge_in_loop(together(1, 2, 3), ConstantBackOff(1), max_attempts=3) == 1
    assert now() == 50


@pytest.mark.parametrize("good", range(4))
def test_a_result_beside_failures_at_the_same_time_wins(good: int) -> None:
    answers: list[Any] = [OSError(n) for n in range(4)]
    answers[good] = 7
    assert hedge_in_loop(together(*answers), ConstantBackOff(1), max_attempts=4) == 7


def test_failures_at_the_same_time_are_one_after_the_other() -> None:
    errors = [OSError(n) for n in range(3)]
    with pytest.raises(OSError) as caught:
        hedge_in_loop(together(*errors), ConstantBackOff(1), max_attempts=3)
    assert caught.value is errors[2]
    assert not any(hasattr(error, "__notes__") for error in errors[:2])


# What counts as good


def test_until_and_retry_if_reject_results(hedge: HedgeFace) -> None:
    for options in ({"until": lambda value: value == 7}, {"retry_if": lambda value: value != 7}):
        began, script = now(), Script(Takes(4, 1), Takes(5, 2), Takes(100, 7))
        assert hedge(script, TEN, on=OSError, **options) == 7
        assert [time - began for time in script.times] == [0, 4, 9, 19, 29]


def test_if_all_are_rejected_the_last_is_told(hedge: HedgeFace) -> None:
    script = Script(Takes(4, 1), Takes(5, 0))
    with pytest.raises(RejectedResult) as caught:
        hedge(script, TEN, max_attempts=2, until=lambda value: value > 7)
    assert (caught.value.result, script.times, now()) == (0, [0, 4], 9)


def test_a_result_that_cannot_be_judged_ends_all(hedge: HedgeFace) -> None:
    for options in ({"until": lambda value: value.none}, {"retry_if": lambda value: value.none}):
        began, operation = now(), InTurn(takes(100, 1, cleanup=2), takes(3, 7))
        with pytest.raises(AttributeError) as caught:
            hedge(operation, TEN, **options)
        (note,) = caught.value.__notes__
        assert note.endswith(f"{next(iter(options))} failed")
        assert now() - began == 10 + 3 + 2 * hedge.waits


# Errors that say by themselves what follows


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Permanent(ValueError(7)), "permanent"), (ValueError(7), "on does not retry this error")],
)
def test_an_error_that_is_not_retried_ends_all(
    hedge: HedgeFace, error: Exception, reason: str
) -> None:
    operation = InTurn(takes(100, 1, cleanup=5), takes(3, error))
    with pytest.raises(ValueError, match="7") as caught:
        hedge(operation, TEN, on=OSError)
    (note,) = caught.value.__notes__
    assert note.startswith("gave up after 2 attempts in 13.0 s: ")
    assert reason in note
    assert (operation.times, now()) == ([0, 10], 10 + 3 + 5 * hedge.waits)


def test_a_function_on_decides_and_may_say_when(hedge: HedgeFace) -> None:
    script = Script(Takes(2, OSError(1)), Takes(1, OSError(2)), Takes(5, 7))
    answers = {1: 30, 2: True}
    assert hedge(script, TEN, on=lambda error: answers[error.args[0]]) == 7
    assert (script.times, now()) == ([0, 32, 33], 38)


def test_an_on_that_fails_ends_all(hedge: HedgeFace) -> None:
    last = OSError()
    operation = InTurn(takes(100, 1), takes(3, last))
    with pytest.raises(TypeError, match="on returns") as caught:
        hedge(operation, TEN, on=lambda _: "soon")
    assert (caught.value.__cause__, now()) == (last, 13)


def test_retry_after_says_when_the_next_starts(hedge: HedgeFace) -> None:
    script = Script(Takes(100, 7), Takes(2, RetryAfter(40)), Takes(100, 8))
    assert hedge(script, TEN) == 7
    assert script.times == [0, 10, 52, 62, 72]
    began, script = now(), Script(Takes(100, 7), Takes(2, RetryAfter(1)), Takes(100, 8))
    assert hedge(script, TEN) == 7
    assert [time - began for time in script.times] == [0, 10, 13, 23, 33]


def test_retry_after_is_clamped_and_its_error_is_the_last(hedge: HedgeFace) -> None:
    last = OSError()
    script = Script(Takes(2, RetryAfter(40)), Takes(2, RetryAfter(40, last)))
    with pytest.raises(OSError) as caught:
        hedge(script, TEN, max_retry_after=15, max_attempts=3)
    assert caught.value is last
    assert (script.times, now()) == ([0, 17, 34], 36)


# No more attempts

LIMITS: list[tuple[Any, dict[str, Any], str]] = [
    (TEN, {"max_attempts": 2}, "max_attempts is 2"),
    (with_max_retries(TEN, 1), {}, "the policy stopped"),
    (TEN, {"budget": RetryBudget(1)}, "nothing left in <RetryBudget 0.0 of 1.0"),
]


@pytest.mark.parametrize(("policy", "options", "why"), LIMITS)
def test_those_that_run_decide(
    hedge: HedgeFace, clock: VirtualClock, policy: Any, options: Any, why: str
) -> None:
    if "budget" in options:
        options = {"budget": RetryBudget(1, token_ratio=0)}
    last = OSError(2)
    script = Script(Takes(50, OSError(1)), Takes(70, last))
    with pytest.raises(OSError) as caught:
        hedge(script, policy, **options)
    assert caught.value is last
    (note,) = last.__notes__
    assert note.startswith(f"gave up after 2 attempts in 80.0 s: {why}")
    assert (script.times, now()) == ([0, 10], 80)
    if "budget" in options:
        options = {"budget": RetryBudget(1, token_ratio=0)}
    script = Script(Takes(50, OSError(1)), Takes(70, 7))
    assert hedge(script, policy, **options) == 7
    assert script.count == 2


@pytest.mark.parametrize(
    ("policy", "options"), [(StopBackOff(), {}), (TEN, {"max_attempts": 1}), (TEN, {"budget": 1})]
)
def test_the_first_attempt_is_always_made(
    hedge: HedgeFace, clock: VirtualClock, policy: Any, options: Any
) -> None:
    if "budget" in options:
        options = {"budget": spent_budget()}
    for step in (RetryAfter(5, OSError()), OSError):
        script = Script(Takes(50, step))
        with pytest.raises(OSError):
            hedge(script, policy, **options)
        assert script.count == 1
    script = Script(Takes(50, 7))
    assert hedge(script, policy, **options) == 7
    assert script.count == 1


def test_each_attempt_but_the_first_takes_from_the_budget(
    hedge: HedgeFace, clock: VirtualClock
) -> None:
    budget = RetryBudget(10, token_ratio=0.5)
    hedge(Script(Takes(25, 7)), TEN, budget=budget)
    assert budget.tokens == 10 - 2 + 0.5
    with pytest.raises(OSError):
        hedge(Script(OSError), TEN, budget=budget, max_attempts=4)
    assert budget.tokens == 8.5 - 3


# Policies


def test_a_policy_that_fails_ends_all(hedge: HedgeFace, clock: VirtualClock) -> None:
    for answer, kind in ((KeyError("policy"), KeyError), (-1, ValueError), ("x", TypeError)):
        began, last = now(), OSError()
        operation = InTurn(takes(100, 1, cleanup=2), takes(3, last), takes(100, 7))
        with pytest.raises(kind) as caught:
            hedge(operation, Scripted(10, 10, answer))
        assert caught.value.__cause__ is last
        assert caught.value.__notes__[-1].endswith("the back-off policy failed")
        assert now() - began == 10 + 3 + 2 * hedge.waits


def test_a_policy_that_fails_at_once_leaves_no_attempt(
    hedge: HedgeFace, clock: VirtualClock
) -> None:
    with pytest.raises(KeyError, match="policy") as caught:
        hedge(takes(100, 7, cleanup=2), Scripted(KeyError("policy")))
    assert (caught.value.__cause__, now()) == (None, 0)


def test_each_call_runs_its_own_copy(hedge: HedgeFace, clock: VirtualClock) -> None:
    policy = with_max_retries(TEN, 2)
    for _ in range(2):
        script = Script(Takes(100, 7))
        hedge(script, policy)
        assert script.count == 3


def test_feedback_policies_count_starts_as_failures(hedge: HedgeFace, clock: VirtualClock) -> None:
    script = Script(Takes(100, 7))
    hedge(script, FibonacciBackOff(1, 20))
    assert script.times == [0, 1, 21, 42, 83]


# The timeout


def test_at_the_timeout_all_are_cancelled(hedge: HedgeFace, clock: VirtualClock) -> None:
    last = OSError()
    operation = InTurn(takes(100, 1, cleanup=5), takes(3, last), takes(100, 2))
    with pytest.raises(DeadlineExceeded) as caught:
        hedge(operation, TEN, timeout=25)
    assert caught.value.__cause__ is last
    (note,) = caught.value.__notes__
    assert note == "gave up after 4 attempts in 25.0 s: the timeout of 25.0 s"
    assert (operation.times, now()) == ([0, 10, 13, 23], 25 + 5 * hedge.waits)


def test_a_result_that_comes_after_the_timeout_is_judged_too() -> None:
    for late, good in ((1, False), (7, True)):
        began, operation = now(), InTurn(takes(100, 0, then=late))
        options = {"timeout": 25, "until": lambda value: value == 7, "max_attempts": 1}
        if good:
            assert hedge_in_loop(operation, TEN, **options) == 7
        else:
            with pytest.raises(DeadlineExceeded):
                hedge_in_loop(operation, TEN, **options)
        assert now() - began == 25


def test_what_ends_in_the_moment_of_the_timeout_counts(clock: VirtualClock) -> None:
    assert hedge_in_loop(Script(Takes(10, 7)).in_loop, ConstantBackOff(20), timeout=10) == 7
    for policy in (ConstantBackOff(20), ZeroBackOff()):
        assert hedge_in_loop(Script(7).in_loop, policy, timeout=0) == 7
    last = OSError()
    script = Script(Takes(10, last))
    with pytest.raises(DeadlineExceeded) as caught:
        hedge_in_loop(script.in_loop, ConstantBackOff(20), timeout=10)
    assert caught.value.__cause__ is last
    assert script.count == 1


def test_nobody_waits_for_a_start_that_the_timeout_forbids(
    hedge: HedgeFace, clock: VirtualClock
) -> None:
    script = Script(Takes(3, RetryAfter(50)))
    with pytest.raises(DeadlineExceeded):
        hedge(script, TEN, timeout=20)
    assert (script.count, now()) == (1, 3)
    script = Script(Takes(15, 7), Takes(2, RetryAfter(50)))
    assert hedge(script, TEN, timeout=20) == 7


# Clocks


def test_delays_are_kept_where_waits_are_skipped(hedge: HedgeFace, clock: VirtualClock) -> None:
    script = Script(Takes(25, 7), Takes(2, RetryAfter(5)), Takes(100, 7))
    with no_wait():
        assert hedge(script, TEN, timeout=60) == 7
    assert (script.times, now()) == ([0, 10, 17], 25)


# Operations


def test_an_operation_that_fails_as_it_is_called_has_failed(hedge: HedgeFace) -> None:
    operation = InTurn(Script(OSError), Script(OSError), takes(3, 7))
    assert hedge(operation, TEN) == 7
    assert operation.times == [0, 0, 0]
    last = OSError()
    with pytest.raises(OSError) as caught:
        hedge(Script(OSError, last), TEN, max_attempts=2)
    assert caught.value is last


@pytest.mark.parametrize("value", [7, None, "text", [1]])
def test_one_that_returns_no_awaitable_is_not_made_again(value: Any) -> None:
    script = Script(value)
    operation = InTurn(takes(50, 1), lambda: script())
    with pytest.raises(TypeError, match=f"awaitable, not one of type {type(value).__name__}"):
        hedge_in_loop(operation, TEN)
    assert (script.count, now()) == (1, 10)


class Awaitable:
    """Can be awaited, and is no coroutine."""

    def __await__(self) -> Any:
        yield from asyncio.sleep(15).__await__()
        return 7


def test_whatever_can_be_awaited_will_do() -> None:
    def future() -> asyncio.Future[int]:
        made = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(15, lambda: made.done() or made.set_result(7))
        return made

    def task() -> asyncio.Task[int]:
        return asyncio.ensure_future(takes(15, 7).in_loop())

    for made in (future, task, Awaitable):
        began, operation = now(), InTurn(made)
        assert hedge_in_loop(operation, TEN) == 7
        assert [time - began for time in operation.times] == [0, 10]


def test_one_that_cancels_itself_is_cancelled(hedge: HedgeFace) -> None:
    operation = InTurn(takes(100, 1, cleanup=2), takes(3, asyncio.CancelledError("itself")))
    with pytest.raises(asyncio.CancelledError, match="itself"):
        hedge(operation, TEN)
    assert (len(operation.times), now()) == (2, 10 + 3 + 2 * hedge.waits)


class Interrupt(BaseException):
    """Is no Exception."""


def test_what_is_no_exception_passes_after_all_have_ended(hedge: HedgeFace) -> None:
    for options in ({}, {"on": lambda _: True}):
        began, error = now(), Interrupt()
        operation = InTurn(takes(100, 1, cleanup=2), takes(3, error))
        with pytest.raises(Interrupt) as caught:
            hedge(operation, TEN, **options)
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        assert (len(operation.times), now() - began) == (2, 10 + 3 + 2 * hedge.waits)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_interrupts_end_the_loop(kind: type[BaseException]) -> None:
    operation = InTurn(takes(100, 1), takes(3, kind))

    async def main() -> None:
        await hedge_call_async(operation.in_loop, TEN)

    with pytest.raises(kind):
        asyncio.run(main())
    assert (len(operation.times), now()) == (2, 13)


def test_attempts_see_the_context_of_the_caller_each_in_a_copy() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    async def operation() -> None:
        seen.append(variable.get())
        variable.set("an attempt's")
        raise OSError

    async def main() -> None:
        variable.set("the caller's")
        with pytest.raises(OSError):
            await hedge_call_async(operation, TEN, max_attempts=3)
        assert variable.get() == "the caller's"

    in_loop(main())
    assert seen == ["the caller's"] * 3


def test_tasks_are_named_after_the_operation_and_count() -> None:
    names = []

    async def fetch() -> None:
        names.append(asyncio.current_task().get_name())
        raise OSError

    with pytest.raises(OSError):
        hedge_in_loop(fetch, TEN, max_attempts=2)
    assert [name.rpartition(".")[2] for name in names] == ["fetch, 1", "fetch, 2"]


# Options

HERE = {"on", "until", "retry_if", "token", "timeout", "max_elapsed_time", "max_attempts"}
HERE |= {"max_retry_after", "fallback", "budget", "breaker", "clock", "name"}
NOT_HERE = sorted(AsyncRetryOptions.__annotations__.keys() - HERE)


def test_some_options_of_a_retry_are_not_there() -> None:
    assert {"attempt_timeout", "notify", "timer", "on_attempt", "on_retry"} <= set(NOT_HERE)


@pytest.mark.parametrize("name", [*NOT_HERE, "retries", "backoff_", "Token"])
def test_options_that_are_not_there_are_refused_by_name(hedge: HedgeFace, name: str) -> None:
    for value in (None, 3):
        script = Script(7)
        with pytest.raises(TypeError, match=rf"{hedge.name}\(\) has no option '{name}'") as e:
            hedge(script, **{name: value})
        offered = str(e.value).partition("it has")[2]
        assert not [other for other in NOT_HERE if other in offered]
        assert script.count == 0


@pytest.mark.parametrize("name", [name for name in BAD if name not in NOT_HERE])
def test_bad_values_are_refused_by_name(hedge: HedgeFace, name: str) -> None:
    script = Script(7)
    for value, kind in BAD[name]:
        with pytest.raises(kind, match=name):
            hedge(script, **{name: value})
    with pytest.raises(TypeError, match=rf"{hedge.name}\(\).*until or retry_if"):
        hedge(script, until=bool, retry_if=bool)
    assert script.count == 0


@pytest.mark.parametrize("operation", [None, 7, ValueError()])
def test_what_cannot_be_called_is_refused(hedge: HedgeFace, operation: Any) -> None:
    with pytest.raises(TypeError, match="operation"):
        hedge(operation)


def test_a_token_with_a_deadline_on_another_clock_is_refused(
    hedge: HedgeFace, clock: VirtualClock
) -> None:
    script = Script(7)
    with pytest.raises(ValueError, match="clock"):
        hedge(
            script,
            token=CancellationToken(clock=clock).child(timeout=5),
            clock=type(clock)(),
        )
    assert script.count == 0


# Eager tasks


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_eager_tasks_do_the_same() -> None:
    def eagerly(operation: Any, backoff: Any, **options: Any) -> Any:
        async def main() -> Any:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
            try:
                made = getattr(operation, "in_loop", operation)
                return await hedge_call_async(made, backoff, **options)
            finally:
                assert asyncio.all_tasks() == {asyncio.current_task()}

        return in_loop(main())

    for policy in (TEN, ZeroBackOff()):
        script = Script(7)
        assert eagerly(script.in_loop, policy) == 7
        assert script.count == 1
        script = Script(OSError, OSError, 7)
        assert eagerly(script.in_loop, policy) == 7
        assert script.count == 3
    script = Script(OSError)
    with pytest.raises(OSError):
        eagerly(script.in_loop, TEN)
    assert (script.count, now()) == (5, 0)
    operation = InTurn(takes(100, 1, cleanup=5), takes(3, OSError), takes(30, 7))
    assert eagerly(operation, TEN, max_attempts=3) == 7
    assert (operation.times, now()) == ([0, 10, 13], 13 + 30 + 5)
    with pytest.raises(Interrupt):
        eagerly(Script(Interrupt).in_loop, TEN)
    with pytest.raises(asyncio.CancelledError):
        eagerly(Script(asyncio.CancelledError).in_loop, TEN)
    token = CancellationToken()
    with pytest.raises(Cancelled):
        eagerly(
            Script(Takes(1, lambda: token.cancel() and None)).in_loop, TEN, token=token, until=bool
        )


def test_no_attempt_starts_later_than_the_elapsed_time_allows(hedge: Any) -> None:
    operation = InTurn(takes(100, 7))
    assert hedge(operation, ConstantBackOff(4), max_elapsed_time=10) == 7
    assert operation.times == [0, 4, 8]
    operation = InTurn(takes(11, OSError("last")))
    with pytest.raises(OSError, match="last") as caught:
        hedge(operation, ConstantBackOff(6), max_elapsed_time=10)
    assert [at - operation.times[0] for at in operation.times] == [0, 6]
    assert "max_elapsed_time of 10.0 s" in caught.value.__notes__[0]
    operation = InTurn(takes(1, RetryAfter(50, OSError("busy"))))
    with pytest.raises(OSError, match="busy"):
        hedge(operation, ConstantBackOff(20), max_elapsed_time=10)
    assert len(operation.times) == 1


def test_a_wait_that_the_elapsed_time_does_not_allow_is_named(hedge: HedgeFace) -> None:
    with pytest.raises(OSError, match="busy") as caught:
        hedge(Script(RetryAfter(50, OSError("busy"))), TEN, max_elapsed_time=30)
    assert caught.value.__notes__[0].endswith(
        ": the next wait of 50.0 s would exceed max_elapsed_time of 30.0 s"
    )


def test_a_start_that_the_budget_refuses_ends_the_call_if_nothing_runs(hedge: HedgeFace) -> None:
    budget = RetryBudget(1)

    def busy() -> None:
        assert budget.try_acquire()  # somebody else takes what is left
        raise RetryAfter(20, OSError("busy"))

    with pytest.raises(OSError, match="busy") as caught:
        hedge(Script(busy), TEN, budget=budget)
    assert now() == 20
    assert ": nothing left in " in caught.value.__notes__[0]
