"""Policies as the ``sleep_generator`` of google-api-core."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("google.api_core")
from google.api_core import exceptions, retry

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    StopBackOff,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from backoff_ticker.integrations.google_api_core import SleepGenerator
from backoff_ticker.testing import VirtualClock

ON = retry.if_transient_error


class Service:
    """Answers after some failures; remembers when it was called."""

    def __init__(self, clock, failures):
        self.clock, self.failures, self.calls, self.raised = clock, failures, [], []

    def __call__(self):
        self.calls.append(self.clock.monotonic())
        if len(self.calls) <= self.failures:
            self.raised.append(exceptions.ServiceUnavailable(f"no {len(self.calls)}"))
            raise self.raised[-1]
        return "page"

    async def coroutine(self):
        return self()

    def stream(self):
        yield self()

    async def async_stream(self):
        yield self()


def unary(clock, service, delays, **options):
    return retry.retry_target(service, ON, delays, **options)


def unary_async(clock, service, delays, **options):
    return clock.run_async(retry.retry_target_async(service.coroutine, ON, delays, **options))


def stream(clock, service, delays, **options):
    return next(retry.retry_target_stream(service.stream, ON, delays, **options))


def stream_async(clock, service, delays, **options):
    async def first():
        target = retry.retry_target_stream_async(service.async_stream, ON, delays, **options)
        async for item in target:
            return item
        return None

    return clock.run_async(first())


VARIANTS = pytest.mark.parametrize("call", [unary, unary_async, stream, stream_async])


@pytest.fixture
def time():
    with VirtualClock(100.0, auto=True, patch_time=True) as clock:
        yield clock


@VARIANTS
def test_the_waits_are_those_of_the_policy(time, call):
    service = Service(time, 3)
    delays = SleepGenerator(ExponentialBackOff(1, 0, 2))
    assert call(time, service, delays) == "page"
    assert service.calls == [100, 101, 103, 107]


@VARIANTS
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_the_last_error_itself_is_raised_where_the_policy_stops(time, call, retries):
    service = Service(time, 100)
    delays = SleepGenerator(with_max_retries(ConstantBackOff(2), retries))
    with pytest.raises(exceptions.ServiceUnavailable) as caught:
        call(time, service, delays)
    assert len(service.calls) == retries + 1
    assert caught.value is service.raised[-1]
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_generator_that_ends_would_be_a_value_error(time):
    with pytest.raises(ValueError, match="Sleep generator stopped"):
        unary(time, Service(time, 100), iter([1.0]))


@VARIANTS
def test_each_call_starts_the_policy_anew_when_it_begins(time, call):
    """The limit of elapsed time counts from there, the time of the attempts included."""
    delays = SleepGenerator(ExponentialBackOff(1, 0, 2, max_elapsed_time=5))
    for _ in range(2):
        time.sleep(1000)
        service, began = Service(time, 100), time.monotonic()
        with pytest.raises(exceptions.ServiceUnavailable):
            call(time, service, delays)
        assert [called - began for called in service.calls] == [0, 1, 3]


def test_calls_at_the_same_time_have_policies_of_their_own(time):
    delays = SleepGenerator(ExponentialBackOff(1, 0, 2))
    services = [Service(time, 3) for _ in range(8)]
    threads = [threading.Thread(target=unary, args=(time, each, delays)) for each in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for service in services:
        assert service.calls == [100, 101, 103, 107]


def test_the_timeout_of_google_still_holds(time):
    service = Service(time, 100)
    with pytest.raises(exceptions.RetryError):
        unary(time, service, SleepGenerator(ConstantBackOff(2)), timeout=5)
    assert service.calls == [100, 102, 104]


def test_a_token_in_the_policy_ends_the_call_at_the_next_failure_and_cuts_no_wait(time):
    token = CancellationToken()
    service = Service(time, 100)

    def cancel(error):
        if len(service.calls) == 2:
            token.cancel()

    with pytest.raises(exceptions.ServiceUnavailable):
        unary(time, service, SleepGenerator(with_token(ConstantBackOff(2), token)), on_error=cancel)
    assert service.calls == [100, 102]


def test_bad_delays_of_a_policy_are_an_error_that_names_it(time):
    class Bad:
        def next_backoff(self):
            return -1

        def reset(self):
            pass

        def __repr__(self):
            return "Bad()"

    with pytest.raises(ValueError, match=r"what Bad\(\) returns must be .* not -1"):
        unary(time, Service(time, 1), SleepGenerator(Bad()))


@pytest.mark.parametrize("bad", [1, ConstantBackOff, None, [1.0]])
def test_what_is_no_policy_is_refused_at_once(bad):
    with pytest.raises(TypeError, match="backoff must be a BackOff"):
        SleepGenerator(bad)


def test_outside_a_retry_it_is_iterated_until_the_policy_stops():
    assert list(SleepGenerator(with_max_retries(ZeroBackOff(), 2))) == [0.0, 0.0]
    assert list(SleepGenerator(StopBackOff())) == []
    assert repr(SleepGenerator(ZeroBackOff())) == "SleepGenerator(ZeroBackOff())"
