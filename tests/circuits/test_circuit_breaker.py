"""CircuitBreaker: when it opens, what it lets through, what becomes of each result, and probes."""

import asyncio
import pickle
import re
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest

from backoff_ticker import (
    STOP,
    Cancelled,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    Permanent,
    RetryAfter,
    StopBackOff,
    retry_call,
    with_token,
)
from tests.circuits.circuits import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    WAYS,
    async_with_block_in_trio,
    fail,
    half_open,
    opened,
    refused,
    succeed,
    told,
    with_block,
)
from tests.helpers import PATIENCE, SetClock, in_thread
from tests.retries.faces import in_loop
from tests.retries.scripts import cancelled_token
from tests.tickers.made_policies import Blocking, Counting, Scripted

IN_TRIO = pytest.param(async_with_block_in_trio, marks=pytest.mark.slow)


@pytest.fixture(params=[*WAYS, IN_TRIO], ids=lambda way: way.__name__)
def way(request):
    """Each way to make a call in turn."""
    if request.param is async_with_block_in_trio:
        pytest.importorskip("trio")
    return request.param


def test_it_opens_refuses_probes_and_closes(way, now):
    policy = Counting()
    breaker = CircuitBreaker(policy, failures=3, clock=now)
    succeed(breaker, 2, way)
    fail(breaker, 2, way=way)
    succeed(breaker, 1, way)
    fail(breaker, 2, way=way)
    assert (breaker.state, breaker.remaining()) == (CLOSED, 0.0)
    fail(breaker, 1, way=way)
    assert (breaker.state, breaker.remaining()) == (OPEN, 1.0)
    assert refused(breaker, way).state is OPEN
    for seconds, wait in [(1.0, 0.75), (0.25, 0.125), (0.125, 0.125)]:
        assert refused(breaker, way).seconds == seconds
        now.advance(wait)
    assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0.0)
    fail(breaker, 1, way=way)
    assert (breaker.state, breaker.remaining()) == (OPEN, 2.0)
    now.advance(2)
    succeed(breaker, 1, way)
    assert (breaker.state, breaker.remaining()) == (CLOSED, 0.0)
    fail(breaker, 3, way=way)
    assert breaker.remaining() == 1.0, "the policy begins anew"
    assert policy.last == 0, "each breaker has its own copy"


@pytest.mark.parametrize(
    "neither",
    [
        *(KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit),
        *(Cancelled, lambda: Cancelled("enough"), CircuitOpen, lambda: CircuitOpen(3)),
    ],
)
def test_what_was_stopped_counts_as_neither_and_frees_its_probe(way, now, neither):
    if "async" in way.__name__ or "coroutine" in way.__name__:
        way = with_block  # a loop has its own ways with them: see below
    breaker = CircuitBreaker(ConstantBackOff(10), failures=2, on=lambda _: True, clock=now)
    fail(breaker)
    for _ in range(5):
        with pytest.raises(type(neither())):
            way(breaker, neither())
    assert breaker.state is CLOSED
    fail(breaker)
    assert breaker.state is OPEN, "it was not a success either"
    now.advance(10)
    for _ in range(3):
        with pytest.raises(type(neither())):
            way(breaker, neither())
        assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0.0)
    succeed(breaker)
    assert breaker.state is CLOSED


def test_an_error_that_on_does_not_cover_is_an_answer(now):
    breaker = CircuitBreaker(ConstantBackOff(10), on=OSError, failures=2, clock=now)
    fail(breaker)
    fail(breaker, 1, LookupError)
    fail(breaker)
    assert breaker.state is CLOSED, "the row of failures was interrupted"
    fail(breaker)
    now.advance(10)
    fail(breaker, 1, LookupError)
    assert breaker.state is CLOSED, "the probe has shown that the service answers"


def judges(now, on, error):
    """Return whether a breaker with this ``on`` takes the error for a failure."""
    breaker = CircuitBreaker(on=on, failures=1, clock=now)
    with pytest.raises(type(error)):
        told(breaker, error)
    return breaker.state is OPEN


@pytest.mark.parametrize(
    "on",
    [
        (ConnectionError, TimeoutError),
        ConnectionError | TimeoutError,
        {OSError: False, ConnectionError: True, TimeoutError: ConstantBackOff(1)},
        {OSError: False, ConnectionError: 0, TimeoutError: timedelta(minutes=1)},
        lambda error: isinstance(error, (ConnectionError, TimeoutError)),
        lambda error: 0 if isinstance(error, (ConnectionError, TimeoutError)) else False,
    ],
    ids=["types", "union", "mapping", "mapping to seconds", "predicate", "predicate of seconds"],
)
def test_on_has_the_meaning_it_has_for_retries(on, now):
    for error in (ConnectionResetError(), TimeoutError(), DeadlineExceeded()):
        assert judges(now, on, error)
    assert not judges(now, on, FileNotFoundError())


@pytest.mark.parametrize("answer", [ConstantBackOff(1), -1, None, "1"])
def test_a_wrong_answer_of_on_is_named(now, answer):
    breaker = half_open(now, on=lambda error: error.args == () or answer)
    with pytest.raises((TypeError, ValueError)) as caught:
        told(breaker, OSError("second"))
    told_of = f"what on returns must be a bool, seconds >= 0 or a timedelta, not {answer!r}"
    assert str(caught.value).startswith(told_of)
    assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0.0)


def test_markers_of_retries_are_understood(now):
    assert not judges(now, Exception, Permanent(OSError())), "it is an answer"
    for on in (OSError, {OSError: True}, lambda error: isinstance(error, OSError)):
        assert not judges(now, on, RetryAfter(3, ValueError(429))), "the error inside is judged"
        assert judges(now, on, RetryAfter(3, OSError(503)))
        assert judges(now, on, RetryAfter(3)), "without an error inside, it is a failure"


@pytest.mark.parametrize("wrong", [ValueError, "no route", 503, False])
def test_what_is_told_is_an_error_or_nothing(now, wrong):
    breaker = CircuitBreaker(failures=1, clock=now)
    with pytest.raises(TypeError, match="error must be an exception or None, not "):
        breaker.record(breaker.allow(), wrong)
    assert breaker.state is CLOSED


async def coroutine_function(_):
    raise AssertionError


@pytest.mark.parametrize(
    ("on", "kind", "text"),
    [
        (lambda _: 1 / 0, ZeroDivisionError, "division by zero"),
        (coroutine_function, TypeError, "on must be a plain function, not a coroutine function"),
    ],
)
def test_an_error_of_on_is_raised_and_the_call_does_not_count(way, now, on, kind, text):
    rules = [lambda _: True, on, on]  # the first one opens the circuit
    breaker = half_open(now, on=lambda error: rules.pop(0)(error))
    error = OSError()
    for state in (HALF_OPEN, CLOSED):
        with pytest.raises(kind) as caught:
            way(breaker, error)
        assert str(caught.value) == text
        assert caught.value.__context__ is error or way is told
        assert (breaker.state, breaker.remaining()) == (state, 0.0)
        breaker.reset()


def test_the_default_grows_to_a_minute_without_end(now):
    breaker = CircuitBreaker(failures=1, clock=now)
    for interval in [5, 10, 20, 40, *[60] * 100]:
        fail(breaker)
        seconds = breaker.remaining()
        assert seconds is not None
        assert interval / 2 <= seconds <= interval * 1.5
        now.advance(seconds)


def test_a_limit_of_elapsed_time_counts_from_the_opening(now):
    policy = ExponentialBackOff(4, 0, 1, max_elapsed_time=10)
    breaker = CircuitBreaker(policy, failures=1, clock=now)
    now.advance(1000)
    for _ in range(2):
        fail(breaker)
        assert breaker.remaining() == 4
        now.advance(4)
    fail(breaker)
    assert breaker.remaining() is None


def test_after_stop_it_stays_open_until_a_reset(now):
    for stops in (StopBackOff(), with_token(ConstantBackOff(1), cancelled_token())):
        breaker = CircuitBreaker(stops, failures=1, clock=now)
        fail(breaker)
        now.advance(1e9)
        assert (breaker.state, breaker.remaining()) == (OPEN, None)
        assert refused(breaker).seconds is None
        assert str(refused(breaker)) == "the circuit is open"
        breaker.reset()
        succeed(breaker)


@pytest.mark.parametrize("answer", [LookupError("policy"), float("nan"), -1, "1", None])
def test_a_failing_policy_leaves_it_open_and_is_asked_again(now, answer):
    policy = Scripted(answer, answer, 3)
    breaker = CircuitBreaker(policy, failures=1, clock=now)
    error = OSError()
    with pytest.raises((LookupError, TypeError, ValueError)) as caught, breaker.guard():
        raise error
    assert caught.value.__context__ is error
    assert (breaker.state, breaker.remaining()) == (OPEN, 0.0)
    with pytest.raises(type(caught.value)):
        breaker.allow()
    assert refused(breaker).seconds == 3
    now.advance(3)
    succeed(breaker)


@pytest.mark.parametrize("asked", [0, 1])
def test_opened_by_hand_it_stays_open_until_a_reset_without_its_policy(now, asked):
    policy = Scripted(LookupError("policy"))
    breaker = CircuitBreaker(policy, failures=1, clock=now)
    if asked:
        with pytest.raises(LookupError):
            fail(breaker)
    breaker.open()
    now.advance(1e9)
    assert policy.asked == asked
    assert (breaker.state, refused(breaker).seconds) == (OPEN, None)
    breaker.reset()
    for wrong in (0, -1, float("nan"), float("inf"), "1", True):
        with pytest.raises((TypeError, ValueError), match="seconds must be a finite number"):
            breaker.open(wrong)
    succeed(breaker)


def test_each_time_it_is_opened_for_some_time_the_policy_moves_on(now):
    breaker = CircuitBreaker(Counting(), failures=1, clock=now)
    breaker.open(30)
    breaker.open(timedelta(seconds=5))
    assert breaker.remaining() == 5.0, "the last word counts"
    now.advance(5)
    fail(breaker)
    assert breaker.remaining() == 3.0, "two of the policy's delays have gone by"
    breaker.reset()
    breaker.open(7)
    now.advance(7)
    fail(breaker)
    assert breaker.remaining() == 2.0, "a new outage begins the policy again"
    breaker.reset()
    breaker.open()
    breaker.open(7)
    now.advance(7)
    fail(breaker)
    assert breaker.remaining() == 2.0, "so does one that was open until a reset at first"


@pytest.mark.parametrize("answer", [3.0, STOP, LookupError("policy")])
def test_it_may_be_opened_while_its_policy_is_asked(now, answer):
    def use():
        breaker.open(7)
        seen.append((breaker.state, breaker.remaining(), refused(breaker).seconds))
        if isinstance(answer, Exception):
            raise answer
        return answer

    seen = []
    policy = Scripted(use, use)
    breaker = CircuitBreaker(policy, failures=1, clock=now)
    for _ in range(2):
        with pytest.raises((OSError, LookupError)), breaker.guard():
            raise OSError
        now.advance(6)
        assert (breaker.state, breaker.remaining()) == (OPEN, 1.0)
        refused(breaker)
        now.advance(1)
        assert breaker.state is HALF_OPEN
    assert seen == [(OPEN, 7.0, 7.0)] * 2
    assert policy.asked == 2, "once for each opening, although it opens the circuit itself"
    succeed(breaker)


def test_each_change_is_told_to_all_hooks(now):
    changes = []

    def on_change(old, new, which):
        assert which is breaker
        changes.append(f"{old} -> {new}, {which.remaining()}")

    breaker = CircuitBreaker(ConstantBackOff(10), failures=2, on_change=on_change, clock=now)
    succeed(breaker)
    fail(breaker, 2)
    refused(breaker)
    now.advance(10)
    assert breaker.state is HALF_OPEN
    fail(breaker)
    now.advance(10)
    succeed(breaker)
    breaker.reset()
    breaker.open()
    breaker.open()
    breaker.reset()
    assert changes == [
        "closed -> open, 10.0",
        "open -> half-open, None",
        "half-open -> open, 10.0",
        "open -> half-open, None",
        "half-open -> closed, 0.0",
        "closed -> open, None",
        "open -> closed, 0.0",
    ]


def test_a_failing_hook_is_reported_and_stops_nothing(now, unraisable):
    called = []

    def failing(*_):
        raise LookupError("hook")

    async def coroutine(*_):
        raise AssertionError

    hooks = (failing, coroutine, lambda *change: called.append(change[1]))
    breaker = opened(now, on_change=hooks)
    now.advance(10)
    succeed(breaker)
    assert called == [OPEN, HALF_OPEN, CLOSED]
    assert [type(one.exc_value) for one in unraisable] == [LookupError, TypeError] * 3
    assert unraisable[0].object is failing
    assert unraisable[0].err_msg == "Exception in on_change of a circuit breaker"


def test_an_interrupt_in_a_hook_passes_and_frees_the_probe(now):
    def interrupting(old, new, _):
        if new is HALF_OPEN:
            raise KeyboardInterrupt

    called = []
    breaker = half_open(now, on_change=[interrupting, lambda *change: called.append(change[1])])
    with pytest.raises(KeyboardInterrupt):
        breaker.allow()
    assert called == [OPEN], "the hooks after it are not called"
    assert breaker.remaining() == 0
    succeed(breaker)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"backoff": 3}, TypeError, "backoff must be a BackOff"),
        ({"on": KeyboardInterrupt}, TypeError, "on must name types of Exception"),
        ({"failures": 0}, ValueError, "failures must be an int >= 1 or None, not 0"),
        ({"failures": 3, "failure_rate": 0.5}, TypeError, "failures or failure_rate, not both"),
        ({"failure_rate": 0}, ValueError, "failure_rate must be > 0 and <= 1, not 0"),
        ({"window": 3}, TypeError, "window and minimum_calls need a failure_rate"),
        ({"minimum_calls": 3}, TypeError, "window and minimum_calls need a failure_rate"),
        ({"failure_rate": 1, "window": 1, "window_calls": 1}, TypeError, "window or window_calls"),
        ({"failure_rate": 1, "window": 0}, ValueError, "window must be a finite number of seconds"),
        ({"failure_rate": 1, "window_calls": 0}, ValueError, "window_calls must be an int >= 1"),
        ({"failure_rate": 1, "window_calls": 10_001}, ValueError, "must be <= 10000, not 10001"),
        (
            {"failure_rate": 1, "window_calls": 5, "minimum_calls": 6},
            ValueError,
            "minimum_calls must be <= window_calls (5), not 6",
        ),
        ({"probes": 0}, ValueError, "probes must be an int >= 1, not 0"),
        ({"probe_timeout": 0}, ValueError, "probe_timeout must be a finite number of seconds > 0"),
        ({"probe_timeout": None}, TypeError, "probe_timeout must be a finite number"),
        ({"may_probe": True}, TypeError, "may_probe must be callable or None, not True"),
        ({"on_change": [print, 3]}, TypeError, "on_change must be a callable, a list or tuple"),
        ({"clock": 3}, TypeError, "clock must be a Clock, not 3"),
    ],
)
def test_bad_options_are_named(options, kind, text):
    with pytest.raises(kind, match=re.escape(text)):
        CircuitBreaker(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"failures": 1},
        {"failure_rate": 1, "window_calls": 1},
        {"failure_rate": 1, "window_calls": 10_000},
        {"failure_rate": 1, "window_calls": 5, "minimum_calls": 5},
        {"failure_rate": 1, "window": 0.001, "minimum_calls": 1},
    ],
    ids=str,
)
def test_options_at_their_bounds_are_taken(options):
    assert CircuitBreaker(**options).state is CLOSED


def test_what_it_decorates_keeps_its_kind(now):
    breaker = CircuitBreaker(failures=1, clock=now)

    class Client:
        @breaker
        def get(self, page):
            """Get it."""
            return self, page

        @breaker
        @staticmethod
        def static(page):
            return page

        @breaker
        @classmethod
        def of_class(cls, page):
            return cls, page

    client = Client()
    assert client.get(3) == (client, 3)
    assert (client.get.__name__, client.get.__doc__) == ("get", "Get it.")
    assert (Client.static(3), Client.of_class(3)) == (3, (Client, 3))


@pytest.mark.parametrize("kind", ["class", "generator", "async generator", "number"])
def test_what_it_cannot_guard_is_refused(kind):
    def rows():
        yield 1

    async def async_rows():
        yield 1

    given = {"class": dict, "generator": rows, "async generator": async_rows, "number": 3}
    with pytest.raises(TypeError, match=r"use `with breaker.guard\(\):`"):
        CircuitBreaker()(given[kind])
    with pytest.raises(TypeError, match="decorate an `async def` function"):
        CircuitBreaker()(lambda: coroutine_function(OSError()))()


def test_its_error_is_pickled_without_it(now):
    error = refused(opened(now))
    error.add_note("seen")
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.seconds, twin.breaker, twin.state) == (CircuitOpen, 10, None, OPEN)
    assert str(twin) == str(error) == "the circuit is open, 10.0 s left"
    assert twin.__notes__ == ["seen"]


@pytest.mark.parametrize("end", ["by its result", "by its timeout"])
def test_a_probe_from_before_the_circuit_opened_again_keeps_its_place_to_its_end(now, end):
    breaker = half_open(now, probes=3, successes=3, probe_timeout=60)
    failing, *late = [breaker.allow() for _ in range(3)]
    breaker.record(failing, OSError())
    now.advance(breaker.remaining())
    breaker.allow()
    assert (breaker.state, breaker.remaining()) == (HALF_OPEN, None)
    assert str(refused(breaker)) == "the circuit is half-open, and lets no further probe through"
    if end == "by its result":
        breaker.record(late[0], OSError())
    else:
        now.advance(60)
    assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0.0), "its result does not count"
    breaker.allow()
    breaker.reset()
    assert breaker.state is CLOSED


def test_late_probes_keep_all_places_of_a_circuit_that_opened_again(now):
    breaker = half_open(now, probes=2)
    late = [breaker.allow() for _ in range(2)]
    breaker.open(5)
    now.advance(5)
    error = refused(breaker)
    assert (error.state, error.seconds, breaker.remaining()) == (HALF_OPEN, None, None)
    breaker.release(late[0])
    breaker.record(breaker.allow())
    assert breaker.state is CLOSED


def test_one_probe_decides_whatever_a_rate_needs(now):
    breaker = CircuitBreaker(Counting(), failure_rate=0.5, minimum_calls=10, clock=now)
    fail(breaker, 10)
    for seconds in (1, 2, 3):
        assert breaker.remaining() == seconds
        now.advance(seconds)
        fail(breaker)
    now.advance(4)
    succeed(breaker)
    assert breaker.state is CLOSED


def test_may_probe_decides_on_each_probe_and_on_nothing_else(now):
    answers = []
    breaker = CircuitBreaker(
        ConstantBackOff(10), failures=1, probes=2, successes=2, may_probe=answers.pop, clock=now
    )
    succeed(breaker)
    fail(breaker)
    assert refused(breaker).seconds == 10, "it was not asked"
    now.advance(10)
    answers += [True, False, True, False]
    for _ in range(2):
        error = refused(breaker)
        assert (error.state, error.seconds, breaker.remaining()) == (HALF_OPEN, None, 0.0)
        assert str(error) == "the circuit is half-open, and lets no further probe through"
        breaker.release(breaker.allow())
    answers += [True, True]
    tickets = [breaker.allow(), breaker.allow()]
    refused(breaker)
    assert answers == [], "it is asked only where there is a place"
    for ticket in tickets:
        breaker.record(ticket)
    assert breaker.state is CLOSED


@pytest.mark.parametrize(
    ("may_probe", "kind", "text"),
    [
        (lambda: 1, TypeError, "what may_probe returns must be a bool, not 1"),
        (lambda: 1 / 0, ZeroDivisionError, "division by zero"),
        (AsyncMock(), TypeError, "may_probe must be a plain function, not a coroutine function"),
    ],
)
def test_an_error_of_may_probe_is_raised_and_takes_no_place(now, may_probe, kind, text):
    wrong = [may_probe]
    breaker = half_open(now, may_probe=lambda: wrong.pop()() if wrong else True)
    with pytest.raises(kind, match=text):
        breaker.allow()
    assert (breaker.state, breaker.remaining()) == (HALF_OPEN, 0.0)
    succeed(breaker)
    assert breaker.state is CLOSED


def test_a_timeout_inside_the_block_is_a_failure_and_one_outside_is_not(clock):
    breaker = CircuitBreaker(failures=1)

    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), breaker.guard():
                await asyncio.sleep(2)
        assert breaker.state is CLOSED
        with pytest.raises(TimeoutError):
            async with breaker.guard(), asyncio.timeout(1):
                await asyncio.sleep(2)
        assert breaker.state is OPEN

    in_loop(main())


def test_many_failures_at_once_open_it_once(now):
    policy, changes = Blocking(10), []
    breaker = CircuitBreaker(
        policy, failures=3, on_change=lambda *change: changes.append(change[:2]), clock=now
    )
    tickets = [breaker.allow() for _ in range(8)]
    first = [in_thread(breaker.record, ticket, OSError()) for ticket in tickets[:3]]
    policy.entered.wait()
    assert (breaker.state, breaker.remaining(), refused(breaker).seconds) == (OPEN, 0.0, 0.0)
    for ticket in tickets[3:]:
        in_thread(breaker.record, ticket, OSError()).result(PATIENCE)
    assert changes == []
    policy.release.set()
    for one in first:
        one.result(PATIENCE)
    assert (policy.asked, changes, breaker.remaining()) == (1, [(CLOSED, OPEN)], 10)


class Overtaken(SetClock):
    """A clock; while the breaker asks it for the time, another call changes the circuit."""

    def __init__(self):
        super().__init__()
        self.coming = []

    def monotonic(self):
        if self.coming:
            in_thread(self.coming.pop()).result(PATIENCE)
        return super().monotonic()


def test_a_call_that_another_one_overtakes_gets_no_second_place():
    now, tickets = Overtaken(), []
    breaker = half_open(now)
    now.coming.append(lambda: tickets.append(breaker.allow()))
    refused(breaker)
    breaker.record(*tickets)
    assert breaker.state is CLOSED


def test_a_reset_while_the_policy_is_asked_takes_effect_at_once(now):
    policy = Blocking(10, 20)
    breaker = CircuitBreaker(policy, failures=1, clock=now)
    failing = in_thread(fail, breaker)
    policy.entered.wait()
    breaker.reset()
    succeed(breaker)
    assert breaker.state is CLOSED
    again = in_thread(fail, breaker)
    again.result(PATIENCE)  # it does not wait for the policy, which another thread asks
    assert (breaker.state, breaker.remaining()) == (OPEN, 0.0)
    policy.release.set()
    failing.result(PATIENCE)
    assert breaker.remaining() == 20, "the thread that asked saw that it was to ask again"
    assert policy.asked == 2


def test_a_retry_goes_on_while_may_probe_refuses(clock):
    answers = [True, False, False]
    breaker = CircuitBreaker(ConstantBackOff(10), failures=1, may_probe=answers.pop)
    fail(breaker)
    started = clock.monotonic()
    assert retry_call(clock.monotonic, ConstantBackOff(3), breaker=breaker) - started == 16.0
