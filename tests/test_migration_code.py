"""What the pages "From ..." name as the same behaves the same: waits, conditions, ends of a run."""

from itertools import islice
from unittest import mock

import pytest

import backoff_ticker as b
from backoff_ticker.testing import no_wait


def within(policy, slept):
    """Return whether each wait is one that the policy could have had."""
    bounds = [found for found in map(policy.bounds, range(1, 8)) if found]
    return all(low <= delay <= high for (low, high), delay in zip(bounds, slept, strict=True))


def calls(decorate, operation):
    """Return how often the operation is called."""
    made = []

    @decorate
    def run():
        made.append(1)
        return operation()

    try:
        run()
    except Exception:
        pass
    return len(made)


# tenacity


def test_the_waits_of_tenacity():
    t = pytest.importorskip("tenacity")
    tripling = b.ExponentialBackOff(
        1, multiplier=3, max_interval=None, randomization_factor=0, max_elapsed_time=None
    )
    feedback = b.ExponentialFeedbackBackOff(1, 3, min_delay=4, max_delay=9)
    jittered = b.TruncatedExponentialBackOff(9, 2, multiplier=3)
    steps = [b.with_max_retries(b.ConstantBackOff(seconds), 1) for seconds in (1, 2)]
    pairs = [
        (t.wait_none(), b.ZeroBackOff()),
        (t.wait_fixed(3), b.ConstantBackOff(3)),
        (t.wait_random(1, 3), b.with_added_jitter(b.ConstantBackOff(1), 2)),
        (t.wait_incrementing(1, 2, 6), b.LILDBackOff(1, 2, 0, max_delay=6)),
        (t.wait_incrementing(), b.LILDBackOff(0, 100, 0)),
        (t.wait_exponential(exp_base=3), tripling),
        (t.wait_exponential(), b.ExponentialFeedbackBackOff(1)),
        (t.wait_exponential(1, 9, 3, 4), feedback),
        (t.wait_random_exponential(1, 9, 3), b.FullJitterBackOff(1, 9, multiplier=3)),
        (t.wait_full_jitter(), b.FullJitterBackOff(1, None)),
        (t.wait_exponential_jitter(1, 9, 3, 2), jittered),
        (t.wait_chain(*map(t.wait_fixed, (1, 2, 5))), b.chain(*steps, b.ConstantBackOff(5))),
        (t.wait_fixed(3) + t.wait_random(0, 2), b.with_added_jitter(b.ConstantBackOff(3), 2)),
    ]
    for wait, policy in pairs:
        slept = []
        retrying = t.Retrying(wait=wait, stop=t.stop_after_attempt(8), sleep=slept.append)
        with pytest.raises(t.RetryError):
            retrying(int, "x")
        assert within(policy, slept), wait


def test_the_waits_of_tenacity_that_depend_on_the_error():
    t = pytest.importorskip("tenacity")

    class TooMany(Exception):
        pass

    def seconds_for(error):
        return 30 if isinstance(error, TooMany) else 1

    def note(_, delay):
        waited.append(delay)

    policies = {TooMany: b.ConstantBackOff(30), OSError: b.ConstantBackOff(1)}
    theirs = t.retry(
        wait=lambda state: seconds_for(state.outcome.exception()),
        sleep=lambda seconds: waited.append(seconds),
    )
    function = b.retry(b.ZeroBackOff(), on=seconds_for, notify=note)
    for decorate in theirs, function, b.retry(on=policies, notify=note):
        errors, waited = [OSError(), TooMany(), OSError()], []

        def fetch(errors=errors):
            if errors:
                raise errors.pop()

        with no_wait():
            decorate(fetch)()
        assert waited == [1, 30, 1]


def some(result):
    return result is not None


def test_the_conditions_of_tenacity():
    t = pytest.importorskip("tenacity")
    never = {}.get
    other = {Exception: True, OSError: False}
    either = t.retry_if_exception_type(OSError) | t.retry_if_not_result(some)
    pairs = [
        (t.retry_if_exception_type(OSError), {"on": OSError}),
        (t.retry_if_not_exception_type(OSError), {"on": other}),
        (t.retry_unless_exception_type(OSError), {"on": other, "until": never}),
        (t.retry_if_exception_message(match="inv"), {"on": lambda error: "inv" in str(error)}),
        (t.retry_if_result(lambda result: result is None), {"on": (), "until": some}),
        (t.retry_if_not_result(bool), {"on": (), "until": bool}),
        (either, {"on": OSError, "until": some}),
        (t.retry_always, {"until": never}),
        (t.retry_never, {"on": ()}),
    ]
    for strategy, options in pairs:
        theirs = t.retry(retry=strategy, stop=t.stop_after_attempt(3))
        ours = b.retry(b.ZeroBackOff(), max_attempts=3, **options)
        for operation in (
            lambda: open("/no/file"),  # noqa: PTH123, SIM115
            lambda: int("x"),
            lambda: None,
            lambda: 7,
        ):
            assert calls(theirs, operation) == calls(ours, operation)


def test_what_is_left_at_the_end_with_tenacity():
    t = pytest.importorskip("tenacity")

    def queued():
        return "queued"

    twice = {"stop": t.stop_after_attempt(2), "retry": t.retry_if_result("done".__ne__)}
    with pytest.raises(t.RetryError) as theirs:
        t.retry(**twice)(queued)()
    assert theirs.value.last_attempt.result() == "queued"
    options = {"until": "done".__eq__, "max_attempts": 2}
    with pytest.raises(b.RejectedResult) as ours:
        b.retry(b.ZeroBackOff(), **options)(queued)()
    assert ours.value.result == "queued"

    theirs = t.retry(**twice, retry_error_callback=lambda state: state.outcome.result())
    ours = b.retry(b.ZeroBackOff(), **options, fallback=lambda run: run.last_error.result)
    assert theirs(queued)() == ours(queued)() == "queued"


# backoff


def test_the_waits_of_backoff():
    backoff = pytest.importorskip("backoff")
    expo, fibo, constant = backoff.expo, backoff.fibo, backoff.constant
    fibonacci = b.FibonacciBackOff(1, 1, max_delay=5)
    steps = b.chain(*(b.with_max_retries(b.ConstantBackOff(s), 1) for s in (1, 5, 10)))
    tripling = b.ExponentialFeedbackBackOff(2, 3, max_delay=20)
    random = {"jitter": backoff.random_jitter}
    pairs = [
        (expo, {"max_value": 9}, b.FullJitterBackOff(1, 9)),
        (expo, {"base": 3, "factor": 2, "max_value": 20, "jitter": None}, tripling),
        (expo, {"jitter": None}, b.ExponentialFeedbackBackOff(1)),
        (fibo, {"max_value": 5}, b.with_jitter(fibonacci, "full")),
        (fibo, {"max_value": 5, "jitter": None}, fibonacci),
        (constant, {"interval": 2}, b.with_jitter(b.ConstantBackOff(2), "full")),
        (constant, {"interval": [1, 5, 10], "jitter": None}, steps),
        (constant, random, b.with_added_jitter(b.ConstantBackOff(1), 1)),
    ]
    for generator, options, policy in pairs:
        slept = []
        with mock.patch("time.sleep", slept.append), pytest.raises(ValueError, match="invalid"):
            backoff.on_exception(generator, ValueError, max_tries=8, **options)(int)("x")
        assert within(policy, slept), options


def test_what_is_left_at_the_end_with_backoff():
    backoff = pytest.importorskip("backoff")

    def fetch():
        raise ConnectionError("no route")

    theirs = backoff.on_exception(backoff.expo, OSError, max_tries=3, raise_on_giveup=False)
    ours = b.retry(b.ConstantBackOff(1), on=OSError, max_attempts=3, fallback=None)
    with mock.patch("time.sleep"), no_wait():
        assert (theirs(fetch)(), ours(fetch)()) == (None, None)

    theirs = backoff.on_predicate(backoff.constant, "done".__ne__, max_tries=2)
    options = {"on": (), "until": "done".__eq__, "max_attempts": 2}
    ours = b.retry(b.ZeroBackOff(), fallback=lambda run: run.last_error.result, **options)
    with mock.patch("time.sleep"):
        assert theirs(lambda: "queued")() == ours(lambda: "queued")() == "queued"


# stamina, google-api-core, urllib3


def test_the_waits_of_stamina():
    stamina = pytest.importorskip("stamina")
    slept, waited = [], []
    policy = b.TruncatedExponentialBackOff(5, max_jitter=0, initial_backoff=0.1)

    def note(_, delay):
        waited.append(delay)

    theirs = stamina.retry(on=LookupError, attempts=8, wait_jitter=0)
    ours = b.retry(policy, on=LookupError, max_attempts=8, notify=note)
    with mock.patch("time.sleep", slept.append), no_wait():
        assert calls(theirs, {}.popitem) == calls(ours, {}.popitem) == 8
    assert slept == waited == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


def test_the_waits_and_the_types_of_google_api_core():
    retry = pytest.importorskip("google.api_core.retry")
    exceptions = pytest.importorskip("google.api_core.exceptions")
    theirs = retry.exponential_sleep_generator(initial=1, maximum=20, multiplier=3)
    ours = b.FullJitterBackOff(1, 20, multiplier=3)
    assert within(ours, list(islice(theirs, 7)))

    some = (exceptions.TooManyRequests, exceptions.ServiceUnavailable)
    zero = {"initial": 0.0, "maximum": 0.0}
    pairs = [
        (retry.Retry(retry.if_exception_type(*some), **zero), some),
        (retry.Retry(**zero), retry.if_transient_error),
    ]
    for decorate, on in pairs:
        for each in decorate, b.retry(b.ZeroBackOff(), on=on):
            errors = [kind("no") for kind in (*some, exceptions.NotFound)]

            def fetch(errors=errors):
                raise errors.pop(0)

            assert calls(each, fetch) == 3


def test_the_waits_of_urllib3():
    retry = pytest.importorskip("urllib3.util.retry")
    at_once = b.with_max_retries(b.ZeroBackOff(), 1)
    policy = b.ExponentialBackOff(1, multiplier=2, max_interval=6, randomization_factor=0)
    jittered = b.TruncatedExponentialBackOff(6, 0.5, initial_backoff=1)
    for jitter, each in (0, b.chain(at_once, policy)), (0.5, b.chain(at_once, jittered)):
        retries = retry.Retry(10, backoff_factor=0.5, backoff_max=6, backoff_jitter=jitter)
        slept = []
        for _ in range(7):
            retries = retries.increment(error=OSError())
            slept.append(retries.get_backoff_time())
        assert within(each, slept)
