"""Policies and tokens as options of tenacity."""

import pytest
import tenacity

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    StopBackOff,
    ZeroBackOff,
    with_max_retries,
)
from backoff_ticker.integrations.tenacity import (
    BackOffWait,
    sleep_using_token,
    sleep_using_token_async,
    stop_when_cancelled,
)
from tests.integrations.test_policy_adapters import Service


def function(clock, operation, **options):
    return tenacity.retry(**options)(operation)()


def block(clock, operation, **options):
    for attempt in tenacity.Retrying(**options):
        with attempt:
            result = operation()
    return result


def coroutine(clock, operation, **options):
    @tenacity.retry(**options)
    async def call():
        return operation()

    return clock.run_async(call())


FORMS = pytest.mark.parametrize("call", [function, block, coroutine])


def sleep_of(call, token):
    return (sleep_using_token_async if call is coroutine else sleep_using_token)(token)


def test_the_statistics_and_the_state_have_them(time):
    seen = []
    wait = BackOffWait(ExponentialBackOff(1, 0, 2))

    def note(state):
        seen.append((state.upcoming_sleep, state.next_action.sleep, state.idle_for))

    call = tenacity.retry(wait=wait, before_sleep=note)(Service(time))
    call()
    assert seen == [(1, 1, 1), (2, 2, 3), (4, 4, 7)]
    assert call.statistics["idle_for"] == 7


@FORMS
@pytest.mark.parametrize("with_stop", [True, False])
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_where_the_policy_stops_the_call_ends_as_tenacity_ends_it(time, call, with_stop, retries):
    wait = BackOffWait(with_max_retries(ConstantBackOff(2), retries))
    options = {"wait": wait, **({"stop": wait.stop} if with_stop else {})}
    with pytest.raises(tenacity.RetryError) as caught:
        call(time, Service(time, 100), **options)
    assert str(caught.value.__cause__) == f"no {retries + 1}"
    assert caught.value.last_attempt.attempt_number == retries + 1
    with pytest.raises(ConnectionError, match=f"no {retries + 1}"):
        call(time, Service(time, 100), reraise=True, **options)


@pytest.mark.parametrize("call", [function, coroutine])
def test_with_its_stop_the_callback_at_the_end_is_called(time, call):
    wait = BackOffWait(StopBackOff())
    for stop in wait.stop, wait.stop | tenacity.stop_after_attempt(5), lambda s: wait.stop(s):
        options = {"wait": wait, "stop": stop, "retry_error_callback": lambda state: "fallback"}
        assert call(time, Service(time), **options) == "fallback"
    with pytest.raises(tenacity.RetryError):  # without, it cannot be
        call(time, Service(time), wait=wait, retry_error_callback=lambda state: "fallback")


def test_a_stop_that_does_not_agree_does_not_keep_a_call_alive_that_has_no_delay_left(time):
    wait = BackOffWait(with_max_retries(ZeroBackOff(), 2))
    for stop in (
        wait.stop & tenacity.stop_after_attempt(1000),
        tenacity.stop_before_delay(1000),
        lambda state: "a true value, but not True",
    ):
        service = Service(time, 100)
        with pytest.raises(tenacity.RetryError):
            function(time, service, wait=wait, stop=stop)
        assert len(service.calls) <= 3


def test_a_stop_that_looks_at_the_wait_to_come_finds_that_there_is_none(time):
    service = Service(time, 100)
    wait = BackOffWait(with_max_retries(ConstantBackOff(10), 1))
    with pytest.raises(tenacity.RetryError):  # the former wait would pass the limit
        function(time, service, wait=wait, stop=tenacity.stop_before_delay(15))
    assert service.calls == [100, 110]


def test_rejected_results_end_as_well(time):
    wait = BackOffWait(with_max_retries(ConstantBackOff(1), 2))
    options = {"wait": wait, "retry": tenacity.retry_if_result(lambda result: result == "page")}
    with pytest.raises(tenacity.RetryError) as caught:
        function(time, Service(time, 0), reraise=True, **options)
    assert caught.value.last_attempt.result() == "page"
    assert caught.value.last_attempt.attempt_number == 3


def test_a_call_inside_of_another_has_a_policy_of_its_own(time):
    wait = BackOffWait(ExponentialBackOff(1, 0, 2))
    retrying = tenacity.retry(wait=wait)
    outer = []

    @retrying
    def nested():
        outer.append(time.monotonic())
        service = Service(time, 2)
        retrying(service)()
        assert [each - service.calls[0] for each in service.calls] == [0, 1, 3]
        if len(outer) < 3:
            raise ConnectionError

    nested()
    assert outer == [100, 100 + 3 + 1, 104 + 3 + 2]


def test_the_elapsed_time_of_a_policy_counts_from_the_first_failure(time):
    service = Service(time, 100)

    def slow():
        try:
            service()
        finally:
            time.sleep(10)

    wait = BackOffWait(ExponentialBackOff(1, 0, 2, max_elapsed_time=12))
    with pytest.raises(tenacity.RetryError):
        function(time, slow, wait=wait)
    assert service.calls == [100, 111]


@pytest.mark.parametrize("make", [stop_when_cancelled, sleep_using_token, sleep_using_token_async])
def test_what_is_no_token_is_refused_at_once(make):
    with pytest.raises(TypeError, match="token must be a CancellationToken, not 5"):
        make(5)


@FORMS
@pytest.mark.parametrize("is_late", [False, True])
def test_a_cancel_or_a_deadline_ends_the_wait_and_no_attempt_follows(time, call, is_late):
    token, service = CancellationToken(timeout=5 if is_late else None), Service(time, 100)
    time.call_at(105.0, lambda: token.cancel("shutting down"))
    with pytest.raises(DeadlineExceeded if is_late else Cancelled):
        call(time, service, wait=tenacity.wait_fixed(60), sleep=sleep_of(call, token))
    assert service.calls == [100]
    assert time.monotonic() == 105


@FORMS
def test_a_cancel_during_an_attempt_ends_the_call_with_its_error(time, call):
    token, calls = CancellationToken(), []

    def operation():
        calls.append(1)
        token.cancel()
        raise ConnectionError("no route")

    options = {"sleep": sleep_of(call, token), "reraise": True}
    with pytest.raises(ConnectionError):
        call(time, operation, stop=stop_when_cancelled(token), **options)
    with pytest.raises(Cancelled):  # the wait that follows raises it
        call(time, operation, **options)
    assert len(calls) == 2
