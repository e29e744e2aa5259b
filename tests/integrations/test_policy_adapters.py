"""What holds for every package that retries by itself, and takes its delays from a policy."""

import threading
from functools import partial

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    StopBackOff,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from tests.tickers.made_policies import Scripted

# Of each package: what takes a policy, and ways to call an operation with it until it succeeds.


def with_backoff(policy):
    import backoff

    from backoff_ticker.integrations.backoff import wait_gen

    return backoff.on_exception(wait_gen(policy), ConnectionError, jitter=None)


def with_tenacity(policy):
    import tenacity

    from backoff_ticker.integrations.tenacity import BackOffWait

    return tenacity.retry(wait=BackOffWait(policy), reraise=True)


def decorated(decorate, clock, operation):
    return decorate(lambda: operation())()


def decorated_async(decorate, clock, operation):
    @decorate
    async def coroutine():
        return operation()

    return clock.run_async(coroutine())


def with_google(policy):
    from google.api_core import retry

    from backoff_ticker.integrations.google_api_core import SleepGenerator

    options = retry.if_exception_type(ConnectionError), SleepGenerator(policy)
    return lambda name, target: getattr(retry, name)(target, *options)


def target(retry, clock, operation):
    return retry("retry_target", operation)


def target_async(retry, clock, operation):
    async def coroutine():
        return operation()

    return clock.run_async(retry("retry_target_async", coroutine))


def stream(retry, clock, operation):
    def stream():
        yield operation()

    return next(retry("retry_target_stream", stream))


def stream_async(retry, clock, operation):
    async def stream():
        yield operation()

    async def first():
        async for item in retry("retry_target_stream_async", stream):
            return item
        return None

    return clock.run_async(first())


def face_of(made_with, call):
    """Return a function of a policy, which returns a function of a clock and an operation."""
    return lambda policy: partial(call, made_with(policy))


WAYS = {
    with_backoff: (decorated, decorated_async),
    with_tenacity: (decorated, decorated_async),
    with_google: (target, stream, target_async, stream_async),
}
FACES = [
    pytest.param(face_of(made_with, call), id=f"{made_with.__name__}-{call.__name__}")
    for made_with, calls in WAYS.items()
    for call in calls
]
THREADS = [face for face in FACES if "async" not in face.id]
ANY = pytest.mark.parametrize("face", FACES)


class Service:
    """Answers after some failures; remembers when it was called, and what it has raised."""

    def __init__(self, clock, failures=3):
        self.clock, self.failures, self.calls, self.raised = clock, failures, [], []

    def __call__(self):
        self.calls.append(self.clock.monotonic())
        if len(self.calls) <= self.failures:
            self.raised.append(ConnectionError(f"no {len(self.calls)}"))
            raise self.raised[-1]
        return "page"


@ANY
def test_the_waits_are_those_of_the_policy(time, face):
    service = Service(time)
    assert face(ExponentialBackOff(1, 0, 2))(time, service) == "page"
    assert service.calls == [100, 101, 103, 107]


@ANY
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_the_last_error_itself_is_raised_where_the_policy_stops(time, face, retries):
    service = Service(time, 100)
    with pytest.raises(ConnectionError) as caught:
        face(with_max_retries(ConstantBackOff(2), retries))(time, service)
    assert len(service.calls) == retries + 1
    assert caught.value is service.raised[-1]


@ANY
def test_each_call_starts_the_policy_anew(time, face):
    """A limit of elapsed time counts from there, the time of the attempts included."""
    call = face(ExponentialBackOff(1, 0, 2, max_elapsed_time=5))
    for _ in range(2):
        time.sleep(1000)
        service, began = Service(time, 100), time.monotonic()
        with pytest.raises(ConnectionError):
            call(time, service)
        assert [called - began for called in service.calls] == [0, 1, 3]


@pytest.mark.parametrize("face", THREADS)
def test_calls_at_the_same_time_have_policies_of_their_own(time, face):
    call = face(ExponentialBackOff(1, 0, 2))
    services = [Service(time) for _ in range(8)]
    threads = [threading.Thread(target=call, args=(time, each)) for each in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.calls for each in services] == [[100, 101, 103, 107]] * 8


@ANY
def test_a_token_in_the_policy_ends_the_call_at_the_next_failure(time, face):
    token, service = CancellationToken(), Service(time, 100)
    time.call_at(101, token.cancel)  # cuts no wait
    with pytest.raises(ConnectionError):
        face(with_token(ConstantBackOff(2), token))(time, service)
    assert service.calls == [100, 102]


@ANY
def test_a_bad_delay_is_an_error_that_names_the_policy(time, face):
    with pytest.raises(ValueError, match=r"what <the scripted policy> returns must be .* not -1"):
        face(Scripted(-1))(time, Service(time))


@ANY
def test_a_policy_that_raises_stop_iteration_has_not_stopped(time, face):
    service = Service(time)
    with pytest.raises(RuntimeError, match="StopIteration"):
        face(Scripted(StopIteration()))(time, service)
    assert service.calls == [100]


@pytest.mark.parametrize("face", THREADS)
@pytest.mark.parametrize("bad", [1, ConstantBackOff, None, [1.0]])
def test_what_is_no_policy_is_refused_at_once(face, bad):
    with pytest.raises(TypeError, match="backoff must be a BackOff"):
        face(bad)


def test_the_error_that_google_raises_has_no_other_behind_it(time):
    with pytest.raises(ConnectionError) as caught:
        target(with_google(with_max_retries(ConstantBackOff(2), 1)), time, Service(time, 100))
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_outside_a_retry_that_of_google_is_iterated_until_the_policy_stops():
    from backoff_ticker.integrations.google_api_core import SleepGenerator

    assert list(SleepGenerator(with_max_retries(ZeroBackOff(), 2))) == [0.0, 0.0]
    assert list(SleepGenerator(StopBackOff())) == []
    assert repr(SleepGenerator(ZeroBackOff())) == "SleepGenerator(ZeroBackOff())"


@pytest.mark.parametrize("call", [decorated, decorated_async])
def test_backoff_retries_results_until_the_policy_stops_and_calls_its_hook(time, call):
    import backoff

    from backoff_ticker.integrations.backoff import wait_gen

    calls, given_up = [], []
    delays = wait_gen(with_max_retries(ConstantBackOff(2), 2))
    decorate = backoff.on_predicate(delays, jitter=None, on_giveup=given_up.append)
    assert call(decorate, time, lambda: calls.append(time.monotonic())) is None
    assert calls == [100, 102, 104]
    assert [each["tries"] for each in given_up] == [3]
