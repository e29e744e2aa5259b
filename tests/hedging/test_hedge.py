"""Hedged calls: when attempts start, which result wins, what ends them."""

import asyncio
import contextvars
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    FibonacciBackOff,
    Permanent,
    RetryAfter,
    RetryBudget,
    StopBackOff,
    hedge_call_async,
    with_max_retries,
)
from backoff_ticker.testing import no_wait
from backoff_ticker.types import HedgeOptions, RetryOptions
from backoff_ticker.waiting import trio_runs
from tests.retries.faces import check, in_loop
from tests.retries.hedges import HedgeFace, hedge as hedge_in_loop, takes
from tests.retries.scripts import (
    ONE,
    TEN,
    ZERO,
    Ahead,
    Script,
    Takes,
    answered,
    at,
    cancelled_token,
    now,
    spent_budget,
)
from tests.retries.test_cancelling import PLACES
from tests.stress.places import Interrupted
from tests.tickers.made_policies import Scripted

pytestmark = pytest.mark.usefixtures("clock")


REJECTED = [Takes(4, 1), Takes(5, 2), Takes(100, 7)]
ANSWERED = [Takes(2, OSError(30)), Takes(1, OSError(True)), Takes(5, 7)]


REPORTED = [Takes(1, OSError), Takes(2, KeyError), Takes(3, ValueError), Takes(9, 7)]
RULES = {OSError: 30, KeyError: True, ValueError: ConstantBackOff(2)}


# When attempts start, and when the call returns 7.
STARTS = {
    "after its delay": (([Takes(100, 7)], (1, 20, 3, 80), {}), ([0, 1, 21, 24], 7, 100)),
    "by its feedback": (([Takes(60, 7)], FibonacciBackOff(1, 20), {}), ([0, 1, 21, 42], 7, 60)),
    "five times at most": (([Takes(1000, 7)], TEN, {}), ([0, 10, 20, 30, 40], 7, 1000)),
    "without limit": (([Takes(95, 7)], TEN, {"max_attempts": None}), ([*range(0, 100, 10)], 7, 95)),
    "all at once": (([Takes(9, 7), Takes(5, 7)], ZERO, {}), ([0] * 5, 7, 5)),
    "not after an answer": (([Takes(9, 7)], TEN, {}), ([0], 7, 9)),
    "one before may answer": (([Takes(25, 7), Takes(100, 8)], TEN, {}), ([0, 10, 20], 7, 25)),
    "at a failure, from which the next delay counts": (
        ([Takes(4, OSError), Takes(50, 7)], (10, 20, 31), {}),
        ([0, 4, 24], 7, 54),
    ),
    "at any failure": (
        ([Takes(12, OSError), Takes(3, OSError), Takes(100, 7)], TEN, {}),
        ([0, 10, 12, 13, 23], 7, 112),
    ),
    "as the call itself fails": (([OSError, OSError, Takes(3, 7)], TEN, {}), ([0, 0, 0], 7, 3)),
    "if until rejects": (
        (REJECTED, TEN, {"until": lambda value: value > 2}),
        ([0, 4, 9, 19, 29], 7, 109),
    ),
    "when on says": ((ANSWERED, TEN, {"on": lambda error: error.args[0]}), ([0, 32, 33], 7, 38)),
    "when a rule says": ((REPORTED, TEN, {"on": RULES}), ([0, 31, 33, 38], 7, 47)),
    "when RetryAfter says, later": (
        ([Takes(100, 7), Takes(2, RetryAfter(40)), Takes(100, 8)], TEN, {}),
        ([0, 10, 52, 62, 72], 7, 100),
    ),
    "when RetryAfter says, sooner": (
        ([Takes(100, 7), Takes(2, RetryAfter(1)), Takes(100, 8)], TEN, {}),
        ([0, 10, 13, 23, 33], 7, 100),
    ),
    "unless the timeout forbids it": (
        ([Takes(15, 7), Takes(2, RetryAfter(50))], TEN, {"timeout": 20}),
        ([0, 10], 7, 15),
    ),
    "unless max_elapsed_time forbids it": (
        ([Takes(100, 7)], ConstantBackOff(4), {"max_elapsed_time": 10}),
        ([0, 4, 8], 7, 100),
    ),
}


@pytest.mark.parametrize("case", STARTS)
def test_the_next_attempt_starts(hedge, case):
    check(hedge, STARTS[case])


def test_delays_are_kept_where_waits_are_skipped(hedge):
    steps = [Takes(25, 7), Takes(2, RetryAfter(5)), Takes(100, 7)]
    with no_wait():
        check(hedge, ((steps, TEN, {"timeout": 60}), ([0, 10, 17], 7, 25)))


@pytest.mark.parametrize("ending", [10, 20, 30, 40])
def test_a_result_in_the_moment_that_the_next_is_due_comes_first(ending):
    for others in (0, 1, 7):  # more timers, in another order
        began = now()

        async def first():
            for n in range(others):
                asyncio.get_running_loop().call_later(ending + n % 2, int)
            await asyncio.sleep(ending)
            return 7

        operation = Script(first, takes(1000, 8))
        assert hedge_in_loop(operation, TEN) == 7
        assert [time - began for time in operation.times] == list(range(0, int(ending), 10))
        assert now() - began == ending


LOSERS = [None, 2, OSError, Permanent(OSError()), RetryAfter(5), GeneratorExit]
IN_THREADS = [SystemExit, KeyboardInterrupt]
"""What would end a loop."""


@pytest.mark.parametrize("then", [*LOSERS, *IN_THREADS])
def test_the_first_good_result_ends_the_others_whatever_they_do(hedge, then):
    if hedge.waits and then in IN_THREADS:
        pytest.skip("ends the loop")
    losers = takes(100, 1, cleanup=5, then=then), takes(100, 2, cleanup=2)
    steps = [*losers, takes(3, 7)]
    check(hedge, ((steps, TEN, {}), ([0, 10, 20], 7, 23 + 5 * hedge.waits)))


def together(*answers, when=50):
    """Return attempts that end in one iteration of the loop, in this order; later ones at once."""
    gate = []

    def attempt_of(answer):
        async def attempt():
            if not gate:
                gate.append(asyncio.Event())
                asyncio.get_running_loop().call_later(when, gate[0].set)
            await gate[0].wait()
            return answered(answer)

        return attempt

    return Script(*map(attempt_of, answers))


@pytest.mark.parametrize("good", range(4))
def test_a_result_beside_failures_at_the_same_time_wins(good):
    answers = [OSError] * 4
    answers[good] = 7
    assert hedge_in_loop(together(*answers), ONE, max_attempts=4) == 7


def test_failures_at_the_same_time_are_one_after_the_other():
    errors = [OSError(n) for n in range(3)]
    caught = hedge_in_loop.fails(OSError, together(*errors), ONE, max_attempts=3)
    assert caught is errors[2]
    assert not any(hasattr(error, "__notes__") for error in errors[:2])
    began, operation = now(), together(OSError, OSError, 7, when=15)
    assert hedge_in_loop(operation, TEN) == 7
    assert [time - began for time in operation.times] == [0, 10, 15, 15], "each has a successor"


def ends(what, answer, kind, why="", **options):
    """Return a case: what the second attempt does, and what the call raises, and says why."""
    return pytest.param(answer, kind, why, {"backoff": TEN, **options}, id=what)


@pytest.mark.parametrize(
    ("answer", "kind", "why", "options"),
    [
        ends("permanent", Permanent(ValueError(7)), ValueError, "permanent", on=OSError),
        ends("not retried", ValueError(7), ValueError, "on does not retry this error", on=OSError),
        ends("until fails", 7, AttributeError, "until failed", until=lambda value: value.none),
        ends("a wrong answer of on", OSError(), TypeError, "on ", on=lambda _: "soon"),
        ends("a policy fails", OSError(), KeyError, "policy failed", backoff=(10, 10, KeyError())),
        ends("cancelled by itself", asyncio.CancelledError(), asyncio.CancelledError),
        ends("no Exception", Interrupted(), Interrupted),
        ends("no Exception, though on retries all", Interrupted(), Interrupted, on=lambda _: True),
    ],
)
def test_what_ends_all(hedge, answer, kind, why, options):
    operation, backoff = Script(takes(100, 1, cleanup=5), takes(3, answer)), options["backoff"]
    policy = Scripted(*backoff) if isinstance(backoff, tuple) else backoff
    caught = hedge.fails(kind, operation, **{**options, "backoff": policy})
    assert now() == 10 + 3 + 5 * hedge.waits
    notes = getattr(caught, "__notes__", [""])
    assert why in notes[-1]
    assert (" in 13.0 s: " in notes[-1]) is bool(why)
    if isinstance(answer, OSError):
        assert caught.__cause__ is answer
    else:
        assert operation.times == [0, 10]


LIMITS = [
    (TEN, {"max_attempts": 2, "max_elapsed_time": 60}, "max_attempts is 2"),
    (with_max_retries(TEN, 1), {}, "the policy stopped"),
    (TEN, {"budget": 1}, "nothing left in <RetryBudget 0.0 of 1.0"),
]


@pytest.mark.parametrize(("policy", "options", "why"), LIMITS)
def test_those_that_run_decide(hedge, policy, options, why):
    for last in (OSError(2), 7):
        asked = {"budget": RetryBudget(1, token_ratio=0), "breaker": CircuitBreaker()}
        given = asked if "budget" in options else options  # the budget before the circuit
        steps = [Takes(50, OSError(1)), Takes(70, last)]
        check(hedge, ((steps, policy, given), ([0, 10], last, 80)))
        if last != 7:
            (note,) = last.__notes__
            assert note.startswith(f"gave up after 2 attempts in 80.0 s: {why}")


@pytest.mark.parametrize("given", [{"backoff": StopBackOff()}, {"max_attempts": 1}, {"budget": 1}])
def test_the_first_attempt_is_always_made(hedge, given):
    options = {"budget": spent_budget()} if "budget" in given else {**given}
    backoff = options.pop("backoff", TEN)
    for step, end in [(RetryAfter(5, OSError()), OSError), (OSError, OSError), (7, 7)]:
        check(hedge, (([Takes(50, step)], backoff, options), ([0], end)))


def test_each_attempt_but_the_first_takes_from_the_budget(hedge):
    budget = RetryBudget(10, token_ratio=0.5)
    hedge(Script(Takes(25, 7)), TEN, budget=budget)
    assert budget.tokens == 10 - 2 + 0.5
    last = OSError()
    with pytest.raises(OSError) as caught:
        hedge(Script(OSError, OSError, OSError, last), TEN, budget=budget, max_attempts=4)
    assert (caught.value, budget.tokens) == (last, 8.5 - 3)


def test_no_attempt_starts_later_than_the_elapsed_time_allows(hedge):
    script = Script(Takes(11, OSError("last")))
    caught = hedge.fails(OSError, script, ConstantBackOff(6), max_elapsed_time=10, match="last")
    assert script.times == [0, 6]
    assert caught.__notes__[0].endswith("max_elapsed_time of 10.0 s has passed")
    for delay, most in ((20, 10), (10, 30)):
        script = Script(Takes(1, RetryAfter(50, OSError("busy"))))
        with pytest.raises(OSError, match="busy") as caught:
            hedge(script, ConstantBackOff(delay), max_elapsed_time=most)
        assert script.count == 1
        (note,) = caught.value.__notes__
        assert note.endswith(f"next wait of 50.0 s would exceed max_elapsed_time of {most}.0 s")


def test_a_planned_attempt_does_not_start_if_it_is_too_late_by_then(hedge, clock):
    ahead, script = Ahead(), Script(Takes(50, 7))
    at(clock, 5, lambda: setattr(ahead, "seconds", 100))  # as if the process had stood still
    assert hedge(script, TEN, clock=ahead, max_elapsed_time=60) == 7
    assert script.times == [0]


@pytest.mark.parametrize("limit", ["timeout", "max_elapsed_time"])
def test_a_failure_starts_one_though_a_planned_start_is_too_late(hedge, limit):
    check(hedge, (([takes(4, OSError), takes(5, 7)], 30, {limit: 20}), ([0, 4], 7, 9)))


def test_at_the_timeout_all_are_cancelled(hedge):
    last = OSError()
    operation = Script(takes(100, 1, cleanup=5), takes(3, last), takes(100, 2))
    caught = hedge.fails(DeadlineExceeded, operation, TEN, timeout=25)
    assert caught.__cause__ is last
    (note,) = caught.__notes__
    assert note == "gave up after 4 attempts in 25.0 s: the timeout of 25.0 s"
    assert (operation.times, now()) == ([0, 10, 13, 23], 25 + 5 * hedge.waits)


@pytest.mark.parametrize("late", [1, 7])
@pytest.mark.parametrize("ends", ["timeout", "token"])
def test_a_result_that_comes_after_a_cut_is_judged_too(clock, ends, late):
    token, options = CancellationToken(), {"until": lambda value: value == 7, "max_attempts": 2}
    at(clock, 25, token.cancel if ends == "token" else lambda: None)
    options["timeout"] = 25 if ends == "timeout" else None
    operation = Script(takes(100, 0, then=1), takes(100, 0, then=late))
    with nullcontext() if late == 7 else pytest.raises(Cancelled):
        assert hedge_in_loop(operation, TEN, token=token, **options) == 7
    assert now() == 25


def test_what_ends_in_the_moment_of_the_timeout_counts(clock):
    assert hedge_in_loop(Script(Takes(10, 7)).in_loop, ConstantBackOff(20), timeout=10) == 7
    for policy in (ConstantBackOff(20), ZERO):
        assert hedge_in_loop(Script(7).in_loop, policy, timeout=0) == 7
    last = OSError()
    script = Script(Takes(10, last))
    caught = hedge_in_loop.fails(DeadlineExceeded, script.in_loop, ConstantBackOff(20), timeout=10)
    assert caught.__cause__ is last
    assert script.count == 1


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_who_ends_in_the_moment_of_a_cut_is_asked_even_if_another_has_failed_in_it(turns):
    def both(end):
        async def second():
            await asyncio.sleep(9)
            for _ in range(turns):
                await asyncio.sleep(0)
            return answered(end)

        return Script(takes(10, OSError("first")), second)

    options, bad = {"timeout": 10, "max_attempts": 2}, ValueError("bad request")
    assert hedge_in_loop(both(7), ONE, **options) == 7
    assert hedge_in_loop.fails(ValueError, both(Permanent(bad)), ONE, **options) is bad
    last = ConnectionError()
    caught = hedge_in_loop.fails(DeadlineExceeded, both(last), ONE, **options)
    assert caught.__cause__ is last


def test_nobody_waits_for_a_start_that_the_timeout_forbids(hedge):
    options = {"timeout": 20}
    check(hedge, (([Takes(3, RetryAfter(50))], TEN, options), ([0], DeadlineExceeded, 3)))


def test_the_fallback_is_called_after_all_attempts_have_ended(hedge):
    called = []

    def fallback(outcome):
        called.append(now())
        return 8

    operation = Script(takes(100, 1, cleanup=5))
    assert hedge(operation, TEN, timeout=25, fallback=fallback) == 8
    assert called == [25 + 5 * hedge.waits]


def test_a_cancel_ends_all_at_once(hedge, clock):
    for when, last in ((5, None), (12, None), (13.5, OSError())):
        began, token = now(), CancellationToken()
        at(clock, began + when, lambda: token.cancel("enough"))
        operation = Script(takes(100, 1, cleanup=2), takes(3, last), takes(100, 1))
        caught = hedge.fails(Cancelled, operation, TEN, token=token, until=bool, on=OSError)
        assert (caught.cause, caught.__cause__) == ("enough", last)
        assert now() - began == when + 2 * hedge.waits


@pytest.mark.parametrize("waits", [True, False])
def test_the_deadline_of_a_token_ends_all(hedge, clock, *, waits):
    last = OSError()
    token = CancellationToken(clock=clock).child(timeout=25)
    script = Script(Takes(3, last), Takes(100, 7))
    with no_wait() if not waits else nullcontext(), pytest.raises(DeadlineExceeded) as caught:
        hedge(script, TEN, token=token)
    assert caught.value.__cause__ is last
    assert (script.times, now()) == ([0, 3, 13, 23], 25)


def test_a_token_cancelled_before_lets_one_attempt_have_its_chance(hedge, clock):
    script = Script(Takes(50, 7))
    assert hedge(script, TEN, token=cancelled_token()) == 7
    assert (script.count, now()) == (1, 50)
    for last in (OSError(), RetryAfter(5), Cancelled("told")):
        script = Script(Takes(5, last))
        caught = hedge.fails(Cancelled, script, TEN, token=cancelled_token("before"))
        assert (caught.cause, caught.__cause__) == ("before", last)
        assert caught.__notes__[0].startswith("gave up after 1 attempt in 5.0 s: ")
        assert script.count == 1
    hedge.fails(DeadlineExceeded, script, TEN, token=cancelled_token(), timeout=2)


@pytest.mark.parametrize("place", PLACES)
def test_a_token_inside_the_policy_counts(hedge, clock, place):
    for when, others in ((13, None), (5, CancellationToken())):
        token, began, script = CancellationToken(), now(), Script(Takes(100, 7))
        at(clock, began + when, lambda: token.cancel(place))
        caught = hedge.fails(Cancelled, script, PLACES[place](token), token=others)
        assert (caught.cause, now() - began) == (place, when)


def test_no_attempt_starts_after_a_cancel(clock):
    for failure, most in ((OSError(), 5), (RetryAfter(0), 5), (OSError(), 1)):
        token, budget = CancellationToken(), RetryBudget()
        operation = Script(lambda token=token, failure=failure: token.cancel() and failure)
        with pytest.raises(Cancelled) as caught:
            hedge_in_loop(operation, TEN, token=token, budget=budget, max_attempts=most)
        assert caught.value.__cause__ is failure
        assert operation.count == 1
        assert budget.tokens == 500


class Cancelling(CircuitBreaker):
    """Cancels a token as it lets the second call through."""

    def __init__(self, token):
        super().__init__()
        self.second = [token.cancel, int]

    def allow(self):
        self.second.pop()()
        return super().allow()


def test_no_call_is_made_after_a_cancel_right_before(hedge):
    token, script = CancellationToken(), Script(Takes(100, 7))
    caught = hedge.fails(Cancelled, script, TEN, token=token, breaker=Cancelling(token))
    assert (script.count, now()) == (1, 10)
    assert caught.__notes__[0].startswith("gave up after 1 attempt in 10.0 s: ")


@pytest.mark.parametrize(("stays_open", "times"), [(2, [0, 11]), (30, [0, 31])])
def test_the_next_starts_as_planned_but_not_before_the_circuit_lets_it_through(
    hedge, stays_open, times
):
    breaker = CircuitBreaker(ConstantBackOff(stays_open), failures=1)
    options = {"breaker": breaker, "max_attempts": 3}
    check(hedge, (([takes(1, OSError), takes(1, 7)], TEN, options), (times, 7)))


def test_an_attempt_that_the_circuit_refuses_counts(hedge):
    breaker, script = CircuitBreaker(TEN, failures=1), Script(7)
    breaker.open(30)
    caught = hedge.fails(CircuitOpen, script, TEN, breaker=breaker, max_attempts=1)
    (note,) = caught.__notes__
    assert note == "gave up after 1 attempt in 0.0 s: max_attempts is 1"
    assert script.count == 0


def test_what_loses_says_nothing_to_the_circuit(hedge):
    breaker = CircuitBreaker(TEN, failures=1)
    operation = Script(takes(100, 1, then=Cancelled("as told")), takes(3, 7))
    assert hedge(operation, TEN, breaker=breaker, on=OSError) == 7
    assert breaker.remaining() == 0.0


@pytest.mark.parametrize("value", [7, None, "text", [1]])
def test_one_that_returns_no_awaitable_is_not_made_again(value):
    script = Script(value)
    calls = iter([takes(50, 1).in_loop, script])
    with pytest.raises(TypeError, match=f"awaitable, not one of type {type(value).__name__}"):
        hedge_in_loop(lambda: next(calls)(), TEN, breaker=CircuitBreaker())
    assert (script.count, now()) == (1, 10)


@pytest.mark.parametrize("pooled", [False, True])
def test_attempts_see_the_context_of_the_caller_each_in_a_copy(hedge, *, pooled):
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    def operation():
        seen.append(variable.get())
        variable.set("an attempt's")
        raise OSError

    def main():
        variable.set("the caller's")
        with ThreadPoolExecutor(2) as workers, pytest.raises(OSError):
            options = {"pool": workers} if pooled and not hedge.waits else {}
            hedge(Script(operation), TEN, max_attempts=3, **options)
        assert variable.get() == "the caller's"

    contextvars.copy_context().run(main)
    assert seen == ["the caller's"] * 3


def test_attempts_are_named_after_the_operation_and_count(hedge):
    names = []

    def fetch():
        thread = threading.current_thread()
        assert thread.daemon, "no process waits for it"
        names.append(thread.name)
        raise OSError

    async def fetch_in_loop():
        if trio_runs():
            names.append(sys.modules["trio"].lowlevel.current_task().name)
        else:
            names.append(asyncio.current_task().get_name())
        raise OSError

    operation = fetch_in_loop if hedge.waits else fetch
    hedge.fails(OSError, operation, TEN, max_attempts=2)
    kind = operation.__name__
    assert [name.rpartition(".")[2] for name in names] == [f"{kind}, 1", f"{kind}, 2"]


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("when", [0, 5, 10, 12, 17, 20, 27, 37, 38, 42])
def test_a_cancel_of_the_task_passes_at_every_await(clock, when, turns):
    steps = [(100, 1), (7, OSError), (20, 7)]
    operation = Script(*[takes(seconds, answer, cleanup=5) for seconds, answer in steps])

    async def main():
        task = asyncio.ensure_future(hedge_call_async(operation.in_loop, TEN, max_attempts=3))
        await asyncio.sleep(when)
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel("the user's"):
            with pytest.raises(asyncio.CancelledError, match="the user's"):
                await task
            assert task.cancelled()
        else:
            assert when == 42
            assert task.result() == 7
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if 0 < when < 37:
            assert now() == when + 5
        elif when == 38:
            assert now() == 38  # the second cancel cuts the clean-up

    in_loop(main())


def test_tasks_are_awaited_however_often_the_call_is_cancelled(clock):
    ended = []

    async def attempt():
        for seconds in (100, 10, 10, 10):  # a cancel cuts one of these waits
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(seconds)
        ended.append(now())

    async def main():
        task = asyncio.ensure_future(hedge_call_async(attempt, ConstantBackOff(100)))
        for _ in range(3):
            await asyncio.sleep(1)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_loop(main())
    assert ended == [3 + 10]


def test_a_task_that_has_not_begun_when_the_call_fails_ends_with_it(clock):
    script = Script(7)
    hedge_in_loop.fails(KeyError, script.in_loop, Scripted(KeyError()))
    assert script.count == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
def test_eager_tasks_do_the_same():
    async def main(*args, **options):
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        return await hedge_in_loop.main(*args, **options)

    eagerly = HedgeFace("eager", main, in_loop=in_loop)
    script = Script(OSError, OSError, 7)
    assert eagerly(script, TEN) == 7
    assert script.count == 3
    operation = Script(takes(100, 1, cleanup=5), takes(3, OSError), takes(30, 7))
    assert eagerly(operation, TEN, max_attempts=3) == 7
    assert (operation.times, now()) == ([0, 10, 13], 13 + 30 + 5)
    for error in (Interrupted, asyncio.CancelledError):
        with pytest.raises(error):
            eagerly(Script(error), TEN)


NOT_TAKEN = sorted({*RetryOptions.__annotations__} - {*HedgeOptions.__annotations__})


@pytest.mark.parametrize("name", [*NOT_TAKEN, "retry_if", "tries"])
def test_no_other_option_is_taken(hedge, name):
    """Those of other retries that make no sense here, and any that comes later."""
    script = Script(7)
    with pytest.raises(TypeError, match=rf"^{hedge.name}\(\) has no option '{name}'"):
        hedge(script, **{name: None})
    assert script.count == 0
    assert "attempt_timeout" in NOT_TAKEN
