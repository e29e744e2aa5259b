"""Temporal's activities: policies, errors that say when to retry, tokens.

No server of Temporal runs in these tests: activities run in Temporal's ``ActivityEnvironment``.
"""

import asyncio
import dataclasses
import threading
from datetime import timedelta
from functools import partial

import pytest
from temporalio import activity
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    FullJitterBackOff,
    Permanent,
    RetryAfter,
    StopBackOff,
    retry_call,
    retry_call_async,
    with_max_retries,
)
from backoff_ticker.integrations.temporal import activity_errors, activity_token, retry_policy
from tests.helpers import PATIENCE, collect_garbage, eventually, turns

PLAIN = ExponentialBackOff(0.5, 0, 2, 60, None)


@pytest.mark.parametrize(
    "policy, most, found",
    [
        (PLAIN, None, (0.5, 2.0, 60.0, 0)),
        (PLAIN, 7, (0.5, 2.0, 60.0, 7)),
        (ConstantBackOff(5), None, (5.0, 1.0, 5.0, 0)),
        (with_max_retries(PLAIN, 3), None, (0.5, 2.0, 60.0, 4)),
        (with_max_retries(PLAIN, 3), 7, (0.5, 2.0, 60.0, 4)),
        (with_max_retries(PLAIN, 9), 7, (0.5, 2.0, 60.0, 7)),
        (with_max_retries(ConstantBackOff(5), 0), None, (5.0, 1.0, 5.0, 1)),
        (ExponentialBackOff(1, 0, 1.5, 1e300, None), None, (1.0, 1.5, 36_500 * 86_400.0, 0)),
    ],
)
def test_a_policy_that_the_server_can_follow(policy, most, found):
    made = retry_policy(policy, max_attempts=most)
    made._validate()
    seconds = made.initial_interval.total_seconds(), made.maximum_interval.total_seconds()
    assert (seconds[0], made.backoff_coefficient, seconds[1], made.maximum_attempts) == found
    assert made.non_retryable_error_types is None


def test_errors_that_are_not_retried_are_named():
    made = retry_policy(PLAIN, non_retryable_error_types=[LookupError, "Conflict"])
    assert made.non_retryable_error_types == ["LookupError", "Conflict"]


@pytest.mark.parametrize(
    "policy, told",
    [
        (ExponentialBackOff(1, 0.5, 2, 60, None), "randomization_factor=0, not 0.5"),
        (ExponentialBackOff(1, 0, 2), "max_elapsed_time=None, not 900.0"),
        (ExponentialBackOff(1, 0, 2, None, None), "must have a max_interval, not None"),
        (FullJitterBackOff(1, 60), "must be a ConstantBackOff or an ExponentialBackOff"),
        (ConstantBackOff(0), "an interval above 0, not 0.0"),
        (ConstantBackOff(1e-9), "an interval above 0, not 1e-09"),
        (type("Mine", (ExponentialBackOff,), {})(1, 0, 2, 60, None), "must be a ConstantBackOff"),
        (5, "must be a BackOff"),
    ],
)
def test_a_policy_that_the_server_cannot_follow_is_refused(policy, told):
    with pytest.raises((TypeError, ValueError), match=told):
        retry_policy(policy)


def environment_with(**info):
    """Return where an activity can run, which has such a message."""
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, **info)
    return environment


def failing(error, attempt=1, **options):
    """Return what Temporal gets from an activity that raises; a coroutine tells the same."""

    def body():
        with activity_errors(**options):
            raise error

    async def coroutine():
        with activity_errors(**options):
            await asyncio.sleep(0)
            raise error

    environment = environment_with(attempt=attempt)
    with pytest.raises(BaseException) as caught:
        environment.run(body)
    with pytest.raises(BaseException) as again:
        asyncio.run(environment.run(coroutine))
    assert type(caught.value) is type(again.value)
    assert str(caught.value) == str(again.value)
    return caught.value


def parts(error):
    delay = error.next_retry_delay
    return error.type, error.message, error.non_retryable, delay and delay.total_seconds()


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error, told",
    [
        (Permanent(LookupError("no user")), ("LookupError", "no user", True, None)),
        (caused(KeyError("user"), Permanent(LookupError())), ("KeyError", "'user'", True, None)),
        (RetryAfter(20, ConnectionError("busy")), ("ConnectionError", "busy", False, 20.0)),
        (RetryAfter(20), ("RetryAfter", "retry after 20.0 s", False, 20.0)),
        (RetryAfter(0), ("RetryAfter", "retry after 0.0 s", False, 0.001)),
        (RetryAfter(10**9), ("RetryAfter", "retry after 1000000000.0 s", False, 21_600.0)),
        (CircuitOpen(30.0), ("CircuitOpen", "the circuit is open, 30.0 s left", False, 30.0)),
    ],
)
def test_an_error_that_says_when_it_is_retried(error, told):
    assert parts(failing(error)) == told


@pytest.mark.parametrize(
    "asked, most, delay", [(60, 5, 5), (60, timedelta(seconds=5), 5), (10**9, None, 10**9)]
)
def test_the_longest_wait_that_can_be_asked_for(asked, most, delay):
    assert parts(failing(RetryAfter(asked), max_retry_after=most))[3] == delay


@pytest.mark.parametrize(
    "policy, attempt, delay",
    [
        *((PLAIN, *row) for row in [(1, 0.5), (2, 1.0), (5, 8.0), (100, 60.0), (10**4, 60.0)]),
        (StopBackOff(), 1, None),
        (with_max_retries(PLAIN, 2), 3, None),
    ],
)
def test_a_policy_says_the_delay_of_the_attempt_or_that_there_is_no_retry(policy, attempt, delay):
    for kind in ConnectionError, DeadlineExceeded:
        told = failing(kind("no route"), attempt, policy=policy)
        assert parts(told) == (kind.__name__, "no route", delay is None, delay)
        assert type(told.__cause__) is kind


def test_an_open_circuit_lasts_at_least_as_long_as_the_policy_says():
    assert parts(failing(CircuitOpen(0.1), policy=ConstantBackOff(5)))[3] == 5.0
    assert parts(failing(CircuitOpen(30.0), policy=ConstantBackOff(5)))[3] == 30.0
    breaker = CircuitBreaker(ConstantBackOff(30), failures=1)
    breaker.open()
    with pytest.raises(CircuitOpen) as caught:
        breaker.allow()
    assert failing(caught.value) is not None  # nobody knows for how long
    assert type(failing(caught.value)) is CircuitOpen


@pytest.mark.parametrize(
    "error, policy",
    [
        (ApplicationError("mine", type="Mine", next_retry_delay=timedelta(seconds=3)), PLAIN),
        (CancelledError("cancelled"), PLAIN),
        (Cancelled("shutting down"), PLAIN),
        (KeyboardInterrupt(), PLAIN),
        (OSError("gone"), None),
        (DeadlineExceeded(), None),
    ],
)
def test_some_errors_pass(error, policy):
    assert failing(error, policy=policy) is error


def fail():
    raise ConnectionError("no route")


def ended(coroutine, how):
    """End an activity that waits, in a thread or a coroutine; return its token and its error."""
    environment = environment_with(start_to_close_timeout=timedelta(hours=1))
    tokens = []

    def wait(token, end):
        tokens.append(token)
        retry_call(fail, ConstantBackOff(3600), token=token, on_retry=lambda _: end())

    @activity.defn(no_thread_cancel_exception=True)
    def body():
        with activity_token(interval=0.001) as token:
            wait(token, getattr(environment, how))

    @activity.defn
    async def coroutine_body():
        loop = asyncio.get_running_loop()
        end = partial(loop.call_soon_threadsafe, getattr(environment, how))
        with activity_token(interval=0.001) as token:
            await asyncio.to_thread(wait, token, end)

    with pytest.raises(BaseException) as caught:
        asyncio.run(environment.run(coroutine_body)) if coroutine else environment.run(body)
    return tokens[0], caught.value


@pytest.mark.parametrize("coroutine", [False, True], ids=["thread", "coroutine"])
def test_a_cancel_and_a_shutdown_of_the_worker_end_the_wait_of_a_thread(coroutine):
    token, error = ended(coroutine, "cancel")
    if coroutine:  # which has started the thread; Temporal cancels its task as well
        assert token.cancelled
        assert isinstance(error, asyncio.CancelledError)
    else:
        assert token.cause == "the activity was cancelled"
        assert type(error) is CancelledError
        assert isinstance(error.__cause__, Cancelled)
    token, error = ended(coroutine, "worker_shutdown")
    assert type(error) is Cancelled  # Temporal retries the activity
    assert token.cause == "the worker shuts down"


def test_heartbeats_go_on_while_the_activity_cleans_up():
    beats = threading.Semaphore(0)
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.release()

    @activity.defn(no_thread_cancel_exception=True)
    def body():
        with activity_token(interval=0.001) as token:
            assert token.wait(PATIENCE)
            while beats.acquire(blocking=False):
                pass
            for _ in range(3):
                assert beats.acquire(timeout=PATIENCE)
            return "clean"

    threading.Timer(0.01, environment.cancel).start()
    assert environment.run(body) == "clean"


@pytest.mark.parametrize(
    "options, info, expected",
    [
        ({}, {}, {()}),
        ({}, {"heartbeat_details": ["page", 7]}, {("page", 7)}),  # those of the last attempt
        ({"heartbeat": lambda: activity.heartbeat("own")}, {}, {("own",)}),
        ({"heartbeat": None}, {}, set()),  # the activity sends its heartbeats itself
        ({}, {"is_local": True}, set()),
    ],
)
def test_what_heartbeats_tell(options, info, expected):
    environment = environment_with(**info)
    found = []
    environment.on_heartbeat = lambda *details: found.append(details)

    def body():
        with activity_token(interval=0.001, **options) as token:
            while expected and len(found) < 2:
                token.wait(0.001)
            token.wait(0.02)

    environment.run(body)
    assert set(found) == expected


def test_a_heartbeat_that_fails_is_logged_and_the_next_one_is_sent(caplog):
    beats = threading.Semaphore(0)

    def heartbeat():
        beats.release()
        raise RuntimeError("not now")

    def body():
        with activity_token(interval=0.001, heartbeat=heartbeat):
            for _ in range(3):
                assert beats.acquire(timeout=PATIENCE)

    ActivityEnvironment().run(body)
    assert "A heartbeat failed." in caplog.text


def test_the_token_ends_with_the_time_of_the_activity():
    def body(operation):
        with activity_token(interval=60) as token:
            retry_call(operation, ConstantBackOff(3600), token=token)
        return token

    token = environment_with(start_to_close_timeout=None).run(body, str)
    assert (token.deadline, token.cause) == (None, "the activity has ended")
    environment = environment_with(start_to_close_timeout=timedelta(milliseconds=20))
    with pytest.raises(DeadlineExceeded):
        environment.run(body, lambda: 1 / 0)


def test_a_cancel_of_another_token_passes():
    def body():
        other = CancellationToken()
        other.cancel("not yours")
        with activity_token():
            other.raise_if_cancelled()

    with pytest.raises(Cancelled, match="not yours"):
        ActivityEnvironment().run(body)


def test_nothing_is_left_over():
    async def answer():
        return "page"

    def body():
        with activity_token():
            pass

    async def coroutine():
        with activity_token() as token:
            return await retry_call_async(answer, ConstantBackOff(1), token=token)

    before = threading.enumerate()
    ActivityEnvironment().run(body)
    assert new_threads(before) == set()

    async def main():
        await ActivityEnvironment().run(coroutine)
        await turns()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def new_threads(before):
    """Return the threads that have started since; some of those from before may have ended."""
    return set(threading.enumerate()) - set(before)


@pytest.mark.parametrize("fails", [False, True])  # a log keeps the traceback of one that fails
def test_a_watch_ends_once_nobody_holds_the_token(monkeypatch, caplog, fails):
    """Temporal may raise its error in a thread exactly where the block is left."""
    beats = threading.Semaphore(0)

    def heartbeat():
        beats.release()
        if fails:
            raise RuntimeError("not now")

    def interrupted(*_):
        raise CancelledError

    def body():
        block = activity_token(interval=0.001, heartbeat=heartbeat)
        block.__enter__()
        for _ in range(2):
            assert beats.acquire(timeout=PATIENCE)
        with monkeypatch.context() as patched, pytest.raises(CancelledError):
            patched.setattr(CancellationToken, "cancel", interrupted)
            block.__exit__(None, None, None)

    before = threading.enumerate()
    ActivityEnvironment().run(body)
    collect_garbage()
    eventually(lambda: not new_threads(before), "the end of all threads")
    assert any(record.exc_info for record in caplog.records) == fails


def test_outside_of_an_activity_there_is_no_token():
    with pytest.raises(RuntimeError, match="Not in activity context"), activity_token():
        raise AssertionError


@pytest.mark.parametrize(
    "make, told",
    [
        (lambda: retry_policy(PLAIN, max_attempts=0), "max_attempts must be"),
        (
            lambda: retry_policy(PLAIN, non_retryable_error_types=[5]),
            "non_retryable_error_types must be .*, not 5",
        ),
        (lambda: activity_errors(5).__enter__(), "policy must be a BackOff"),
        (lambda: activity_errors(max_retry_after=-1).__enter__(), "max_retry_after"),
        (lambda: activity_token(interval=0).__enter__(), "interval must be .* > 0 or a timedelta"),
        (lambda: activity_token(heartbeat=5).__enter__(), "heartbeat must be callable or None"),
    ],
)
def test_bad_options_are_told(make, told):
    with pytest.raises((TypeError, ValueError), match=told):
        ActivityEnvironment().run(make)
