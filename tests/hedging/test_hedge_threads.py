"""Hedged calls in threads: what is left of the attempts that lost, and pools."""

import asyncio
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    Permanent,
    RejectedResult,
    RetryBudget,
    configure,
    current_attempt,
    hedge_call,
)
from tests.retries.hedges import HEDGES, own_token, takes
from tests.retries.scripts import TEN, Script, at, now
from tests.tickers.made_policies import Scripted

pytestmark = pytest.mark.usefixtures("join_attempts")

in_threads = HEDGES["hedge"]


class Seen(Script):
    """A script that keeps the token of each attempt."""

    def __init__(self, *steps):
        super().__init__(*steps)
        self.tokens = []

    def _step(self):
        self.tokens.append(own_token())
        return super()._step()


@pytest.mark.parametrize("ends", ["timeout", "token", "error", "policy", "interrupt"])
def test_those_that_run_are_told_whatever_ends_the_call(clock, join_attempts, ends):
    token = CancellationToken()
    options = {"timeout": 15} if ends == "timeout" else {"token": token}
    if ends == "token":
        at(clock, 15, token.cancel)
    last = {"error": ValueError(), "interrupt": GeneratorExit()}.get(ends, OSError())
    operation = Seen(takes(100, 1, cleanup=5), takes(5, last), takes(100, 2))
    policy = Scripted(10, KeyError("policy") if ends == "policy" else 10, 10)
    with pytest.raises((Cancelled, KeyError, ValueError, GeneratorExit)):
        hedge_call(operation, policy, on=OSError, **options)
    assert now() == (10 if ends == "policy" else 15)
    assert all(token.cancelled for token in operation.tokens)
    join_attempts()
    assert now() == (15 if ends == "policy" else 20)


def test_current_attempt_tells_what_runs_in_a_thread():
    seen = []

    def fetch():
        attempt = current_attempt()
        assert attempt is not None
        seen.append((attempt.name.rpartition(".")[2], attempt.number, attempt.time_left))
        return takes(15, 7)()

    def outer():
        result = hedge_call(fetch, TEN, timeout=30)
        seen.append(current_attempt().name.rpartition(".")[2])
        return result

    assert hedge_call(outer, ConstantBackOff(100)) == 7
    assert seen == [("fetch", 1, 30), ("fetch", 2, 20), "outer"]
    assert current_attempt() is None


def test_an_attempt_that_outlives_its_call_still_sees_itself(clock, join_attempts):
    seen = []

    def slow():
        attempt = current_attempt()
        assert attempt is not None
        attempt.token.wait(100)
        clock.sleep(5)
        seen.append((current_attempt() is attempt, attempt.outcome.name, attempt.outcome.attempts))

    assert hedge_call(Script(slow, takes(3, 7)), TEN, name="fetch") == 7
    join_attempts()
    assert seen == [(True, "fetch", 2)]


@pytest.mark.parametrize("attempt", [takes(100, 7), takes(100, 7, then=7)])
@pytest.mark.parametrize("ends", ["timeout", "token", "deadline"])
def test_an_attempt_that_ends_as_its_token_says_has_neither_failed_nor_succeeded(
    clock, join_attempts, attempt, ends
):
    last, timeout = OSError(), 15 if ends == "timeout" else None
    for _ in range(10):  # whichever of the two comes first
        token = CancellationToken(timeout=15) if ends == "deadline" else CancellationToken()
        at(clock, now() + 15, token.cancel if ends == "token" else lambda: None)
        operation = Seen(takes(3, last), attempt)
        with pytest.raises(Cancelled) as caught:
            hedge_call(operation, TEN, token=token, timeout=timeout, max_attempts=3)
        assert caught.value.__cause__ is last
        (note,) = caught.value.__notes__
        assert note.startswith("gave up after 3 attempts in 15.0 s: ")
        if ends != "token":
            assert isinstance(caught.value, DeadlineExceeded)
            assert len({one.deadline for one in operation.tokens}) == 1
            join_attempts()
            assert isinstance(operation.tokens[1].cause, DeadlineExceeded)


def test_what_several_attempts_return_as_told_is_lost(clock):
    token = CancellationToken()

    def until(value):
        if value == 1:  # the others have ended when this one has been judged
            token.cancel()
            clock.sleep(10)
        return value == 7

    with pytest.raises(Cancelled):
        hedge_call(Script(takes(21, 1), takes(100, 7, then=7)), TEN, token=token, until=until)


def test_an_attempt_that_cancels_its_own_token_has_failed():
    def cancels():
        own_token().cancel("mine")
        own_token().raise_if_cancelled()

    caught = in_threads.fails(Cancelled, Script(takes(100, 1), cancels), TEN)
    assert caught.cause == "mine"
    assert "on does not retry this error" in caught.__notes__[0]


def test_a_result_that_is_there_as_the_call_is_cancelled_is_returned(clock):
    for good in (True, False):
        token = CancellationToken()

        def until(value):
            if value == 1:  # two more have ended when this one has been judged
                clock.sleep(10)
                token.cancel()
            return value == 7

        operation = Script(takes(21, 1), takes(12, OSError), takes(3, 7 if good else 2))
        if good:
            assert hedge_call(operation, TEN, token=token, until=until, max_attempts=3) == 7
        else:
            with pytest.raises(Cancelled) as caught:
                hedge_call(operation, TEN, token=token, until=until, max_attempts=3)
            assert isinstance(caught.value.__cause__, RejectedResult)


def test_no_thread_that_can_be_started_is_an_error(monkeypatch):
    started, budget = [], RetryBudget(5)
    start = threading.Thread.start

    def fails(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails)
    caught = in_threads.fails(RuntimeError, takes(100, 7), TEN, budget=budget, match="can't start")
    assert caught.__notes__ == ["gave up after 1 attempt in 10.0 s: the start of an attempt failed"]
    assert budget.tokens == 5


def test_a_coroutine_function_is_refused_and_not_made_again():
    script = Script(Script(7).in_loop)
    with pytest.raises(TypeError, match=r"returned a coroutine.*; use await|hedge_call_async"):
        hedge_call(script, TEN)
    assert script.count == 1


def test_while_retries_are_off_the_caller_calls_once_in_its_own_thread():
    with configure(active=False):
        pool = ThreadPoolExecutor(1)
        assert hedge_call(threading.current_thread, pool=pool) is threading.current_thread()


def test_it_warns_where_it_blocks_a_loop():
    async def main():
        with pytest.warns(RuntimeWarning, match=r"use await hedge_call_async\(\)"):
            assert hedge_call(lambda: 7) == 7

    asyncio.run(main())


def test_an_attempt_in_the_queue_is_slow_and_begins_as_a_worker_is_free():
    operation = Script(takes(25, OSError), takes(3, 7))
    with ThreadPoolExecutor(1) as pool:
        assert hedge_call(operation, TEN, pool=pool) == 7
    assert (operation.times, now()) == ([0, 25], 28)


@pytest.mark.parametrize("ends", ["result", "error", "token", "timeout"])
def test_one_that_has_not_begun_when_the_call_is_decided_never_begins(clock, ends):
    budget, token = RetryBudget(10), CancellationToken()
    operation = Script(takes(35, Permanent(ValueError()) if ends == "error" else 7))
    at(clock, 12, token.cancel if ends == "token" else lambda: None)
    timeout = 25 if ends == "timeout" else None
    with ThreadPoolExecutor(1) as pool:
        try:
            hedge_call(operation, TEN, pool=pool, budget=budget, token=token, timeout=timeout)
        except (ValueError, Cancelled) as error:
            assert error.__notes__[0].startswith("gave up after 1 attempt in ")
            assert ends != "result"
    assert (operation.times, budget.tokens) == ([0], 10)


def test_a_pool_that_drops_its_queue_is_an_error(clock):
    pool, budget, operation = ThreadPoolExecutor(1), RetryBudget(10), Script(takes(100, 7))
    at(clock, 25, lambda: pool.shutdown(wait=False, cancel_futures=True))
    with pytest.raises(RuntimeError, match="cancelled an attempt.*shut down") as caught:
        hedge_call(operation, TEN, pool=pool, budget=budget)
    assert caught.value.__notes__ == [
        "gave up after 1 attempt in 25.0 s: the start of an attempt failed"
    ]
    assert (operation.times, now(), budget.tokens) == ([0], 25, 10)
    pool.shutdown()


class Failing(Executor):
    """A pool that makes no job: it is full, or its workers cannot start, as the future says."""

    def __init__(self, *, is_full):
        self._is_full = is_full

    def submit(self, function, /, *args, **kwargs):
        if self._is_full:
            raise BlockingIOError("full")
        future = Future()
        future.set_exception(RuntimeError("no worker"))
        return future


def shut_down():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    return pool


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: Failing(is_full=False), RuntimeError, "no worker"),
        (lambda: Failing(is_full=True), BlockingIOError, "full"),
        (shut_down, RuntimeError, "after shutdown"),
    ],
)
def test_a_pool_that_cannot_make_an_attempt_is_an_error(make, kind, text):
    script, budget = Script(7), RetryBudget(10)
    caught = in_threads.fails(kind, script, TEN, pool=make(), budget=budget, match=text)
    assert caught.__notes__ == ["gave up after 0 attempts in 0.0 s: the start of an attempt failed"]
    assert (script.count, budget.tokens) == (0, 10)


class Unused(ProcessPoolExecutor):
    """A process pool that starts nothing."""

    def __init__(self):
        pass


def not_threads():
    made = [7, "pool", ThreadPoolExecutor, Unused(), threading.Thread()]
    if sys.version_info >= (3, 14):
        from concurrent.futures import InterpreterPoolExecutor

        made.append(InterpreterPoolExecutor())
    return made


@pytest.mark.parametrize("pool", not_threads(), ids=lambda pool: type(pool).__name__)
def test_what_is_no_pool_of_threads_is_refused(pool):
    script = Script(7)
    in_threads.fails(TypeError, script, TEN, pool=pool, match=r"^pool must .*, not ")
    assert script.count == 0
