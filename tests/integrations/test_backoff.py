"""Policies as the ``wait_gen`` of the package backoff."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest

backoff = pytest.importorskip("backoff")

from backoff_ticker import (  # noqa: E402
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    with_max_retries,
    with_token,
)
from backoff_ticker.integrations.backoff import wait_gen  # noqa: E402
from backoff_ticker.testing import VirtualClock  # noqa: E402

FAILURES = 3


@pytest.fixture
def time():
    with VirtualClock(100.0, auto=True, patch_time=True) as clock:
        yield clock


def sync(clock, decorate, operation):
    return decorate(operation)()


def on_loop(clock, decorate, operation):
    @decorate
    async def coroutine():
        return operation()

    return clock.run_async(coroutine())


FACES = pytest.mark.parametrize("call", [sync, on_loop])


def service(clock, calls, failures=FAILURES):
    def operation():
        calls.append(clock.monotonic())
        if len(calls) <= failures:
            raise ConnectionError(f"no {len(calls)}")
        return "page"

    return operation


def on_errors(backoff_policy, **options):
    options = {"jitter": None, **options}
    return backoff.on_exception(wait_gen(backoff_policy), ConnectionError, **options)


@FACES
def test_the_waits_are_those_of_the_policy(time, call):
    calls = []
    decorate = on_errors(ExponentialBackOff(1, 0, 2))
    assert call(time, decorate, service(time, calls)) == "page"
    assert calls == [100, 101, 103, 107]


@FACES
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_it_gives_up_with_the_last_error_where_the_policy_stops(time, call, retries):
    calls, given_up = [], []
    decorate = on_errors(with_max_retries(ConstantBackOff(2), retries), on_giveup=given_up.append)
    with pytest.raises(ConnectionError, match=f"no {retries + 1}"):
        call(time, decorate, service(time, calls, 100))
    assert len(calls) == retries + 1
    assert [each["tries"] for each in given_up] == [retries + 1]


@FACES
def test_results_are_retried_until_the_policy_stops(time, call):
    calls = []

    def operation():
        calls.append(time.monotonic())

    policy = with_max_retries(ConstantBackOff(2), 2)
    decorate = backoff.on_predicate(wait_gen(policy), jitter=None)
    assert call(time, decorate, operation) is None
    assert calls == [100, 102, 104]


@FACES
def test_each_call_starts_the_policy_anew_when_it_begins(time, call):
    calls = []
    decorate = on_errors(ExponentialBackOff(1, 0, 2, max_elapsed_time=5))
    for began in 1000, 2000:
        calls.clear()
        time.sleep(began - time.monotonic())
        with pytest.raises(ConnectionError):
            call(time, decorate, service(time, calls, 100))
        assert calls == [began, began + 1, began + 3]


def test_calls_at_the_same_time_have_policies_of_their_own(time):
    decorate = on_errors(ExponentialBackOff(1, 0, 2))
    all_calls = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=decorate(service(time, calls)), args=()) for calls in all_calls
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all_calls == [[100, 101, 103, 107]] * 8


def test_the_limits_of_backoff_still_hold(time):
    calls = []
    with pytest.raises(ConnectionError):
        sync(time, on_errors(ConstantBackOff(2), max_tries=2), service(time, calls, 100))
    assert calls == [100, 102]


def test_trap_the_default_jitter_would_replace_the_delays(time):
    calls = []
    decorate = on_errors(ConstantBackOff(1000), jitter=backoff.full_jitter)
    sync(time, decorate, service(time, calls))
    waits = [after - before for before, after in pairwise(calls)]
    assert all(wait < 1000 for wait in waits)


def test_defect_of_the_peer_raise_on_giveup_does_not_hold_where_the_delays_end(time):
    policy = with_max_retries(ConstantBackOff(2), 1)
    quiet = {"raise_on_giveup": False}
    assert sync(time, on_errors(policy, max_tries=1, **quiet), service(time, [], 9)) is None
    with pytest.raises(ConnectionError):
        sync(time, on_errors(policy, **quiet), service(time, [], 9))


def test_a_token_in_the_policy_ends_the_call_at_the_next_failure_and_cuts_no_wait(time):
    token, calls = CancellationToken(), []

    def cancel(details):
        token.cancel()  # as the wait begins

    decorate = on_errors(with_token(ConstantBackOff(2), token), on_backoff=cancel)
    with pytest.raises(ConnectionError):
        sync(time, decorate, service(time, calls, 100))
    assert calls == [100, 102]


@pytest.mark.parametrize("bad", [1, ConstantBackOff, None, backoff.expo])
def test_what_is_no_policy_is_refused_at_once(bad):
    with pytest.raises(TypeError, match="backoff must be a BackOff"):
        wait_gen(bad)
