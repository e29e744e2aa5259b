"""A limit of elapsed time, a greatest delay, policies one after the other."""

from __future__ import annotations

import copy
import math
from datetime import timedelta

import pytest

from backoff_ticker import (
    STOP,
    BackOff,
    CancellationToken,
    ConstantBackOff,
    ExponentialBackOff,
    LIMDBackOff,
    StopBackOff,
    SystemClock,
    Ticker,
    ZeroBackOff,
    chain,
    delays,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from backoff_ticker.policies._running import is_feedback
from backoff_ticker.policies._token_backoff import token_policies
from tests.policies.policy_doubles import Feedback, Recording, ask
from tests.policies.policy_strategies import LARGEST

LIMITS = [lambda p: with_max_interval(p, 3), lambda p: with_max_elapsed_time(p, 3)]


def constant(seconds, count):
    return with_max_retries(ConstantBackOff(seconds), count)


# Elapsed time


def test_it_stops_where_a_delay_would_end_after_the_limit_and_equality_passes(clock):
    policy = with_max_elapsed_time(ConstantBackOff(2), 3, clock=clock)
    clock.advance(1)
    assert policy.next_backoff() == 2.0
    clock.advance(0.001)
    assert ask(policy, 2) == [STOP, STOP]
    assert policy.elapsed_time == pytest.approx(1.001)


def test_the_policy_inside_is_asked_although_time_is_up(clock):
    inner = Recording([5.0, 1.0])
    policy = with_max_elapsed_time(inner, 3, clock=clock)
    assert ask(policy, 2) == [STOP, 1.0]
    assert inner.calls == ["next", "next"]


def test_reset_begins_the_time_anew_and_the_policy_inside_too(clock):
    inner = Recording()
    policy = with_max_elapsed_time(inner, 3, clock=clock)
    clock.advance(10)
    assert policy.next_backoff() is STOP
    policy.reset()
    assert policy.elapsed_time == 0.0
    assert inner.calls == ["next", "reset"]
    assert policy.next_backoff() == 2.0


@pytest.mark.parametrize("limit", [None, 0, 0.0, timedelta(0)])
def test_none_and_zero_are_no_limit(clock, limit):
    policy = with_max_elapsed_time(ConstantBackOff(2), limit, clock=clock)
    clock.advance(1e12)
    assert policy.next_backoff() == 2.0
    assert policy.max_elapsed_time is None


def test_a_failure_is_limited_and_a_success_is_not(clock):
    policy = with_max_elapsed_time(Feedback(), 3, clock=clock)
    assert policy.failure(7.0) is STOP
    assert policy.success(8.0) == 0.5
    assert policy.backoff.calls == [("failure", 7.0), ("success", 8.0)]


def test_a_ticker_lends_its_clock_but_a_given_one_stays(clock):
    with Ticker(with_max_elapsed_time(ConstantBackOff(1), 5), clock=clock) as ticker:
        assert ticker.backoff._clock is clock
    own = SystemClock()
    with Ticker(with_max_elapsed_time(ConstantBackOff(1), 5, clock=own), clock=clock) as ticker:
        assert ticker.backoff._clock is own


def test_a_ticker_ends_when_the_time_is_up(clock):
    ticker = Ticker(with_max_elapsed_time(ConstantBackOff(2), 5), clock=clock)
    numbers = [ticker.receive_nowait().number]
    for _ in range(2):
        clock.advance(2)
        numbers.append(ticker.receive_nowait().number)
    assert ticker.closed
    assert numbers == [1, 2, 3]


@pytest.mark.parametrize(
    "policy",
    [
        lambda clock: with_max_elapsed_time(ConstantBackOff(0.1), 0.3, clock=clock),
        lambda clock: ExponentialBackOff(0.1, 0, 1, 0.1, 0.3, clock=clock),
    ],
)
def test_equality_passes_although_floats_are_rounded(clock, policy):
    run = policy(clock)
    clock.now = 0.0
    run.reset()
    answers = []
    while (delay := run.next_backoff()) is not STOP:
        answers.append(delay)
        clock.advance(delay)
    assert answers == [0.1, 0.1, 0.1]


def test_no_delay_is_longer_than_the_limit_itself(clock):
    policy = with_max_elapsed_time(ConstantBackOff(0.3000000000000001), 0.3, clock=clock)
    assert policy.next_backoff() is STOP
    assert policy.bounds(1) is None


# A greatest delay


def test_every_delay_is_at_most_the_limit_jitter_included():
    policy = with_max_interval(ExponentialBackOff(1, 0.5, 2, 100, None), 3)
    drawn = ask(policy, 200)
    assert max(drawn) == 3.0
    assert min(drawn) < 3.0


def test_a_success_is_limited_too():
    policy = with_max_interval(Feedback(), 0.25)
    assert (policy.failure(), policy.success()) == (0.25, 0.25)


def test_stop_stays_stop():
    assert with_max_interval(StopBackOff(), 3).next_backoff() is STOP


@pytest.mark.parametrize("wrap", LIMITS)
@pytest.mark.parametrize("bad", [math.nan, -1.0, "1", None, True], ids=repr)
def test_a_bad_answer_inside_is_told_and_not_compared(wrap, bad):
    with pytest.raises((TypeError, ValueError), match=r"what <.*Recording object.*> returns must"):
        wrap(Recording([bad])).next_backoff()


@pytest.mark.parametrize("wrap", LIMITS)
def test_a_timedelta_inside_is_understood(wrap):
    assert wrap(Recording([timedelta(seconds=2)])).next_backoff() in (2.0, timedelta(seconds=2))


def test_repr_shows_how_it_was_made():
    policy = with_max_interval(with_max_elapsed_time(ZeroBackOff(), 5), timedelta(seconds=2))
    assert repr(policy) == "with_max_interval(with_max_elapsed_time(ZeroBackOff(), 5.0), 2.0)"


# A chain


def test_one_after_the_other():
    policy = chain(constant(1, 2), constant(2, 1), StopBackOff(), constant(3, 2))
    assert ask(policy, 7) == [1.0, 1.0, 2.0, 3.0, 3.0, STOP, STOP]
    assert list(delays(policy)) == [1.0, 1.0, 2.0, 3.0, 3.0]


def test_what_has_stopped_is_not_asked_again_before_reset():
    first, second = Recording([STOP, 1.0]), Recording([2.0])
    policy = chain(first, second)
    assert ask(policy, 3) == [2.0, 2.0, 2.0]
    assert (first.calls, policy.position) == (["next"], 1)
    policy.reset()
    assert policy.position == 0
    assert (first.calls, second.calls) == (["next", "reset"], ["next"] * 3 + ["reset"])
    assert policy.next_backoff() == 1.0


def test_a_chain_needs_policies():
    with pytest.raises(TypeError, match="at least one policy"):
        chain()
    with pytest.raises(TypeError, match=r"argument 2 of chain\(\) must be a BackOff.*, not 3"):
        chain(ZeroBackOff(), 3)


def test_a_chain_is_a_policy_and_takes_feedback_if_a_part_does():
    assert isinstance(chain(ZeroBackOff()), BackOff)
    assert is_feedback(chain(ZeroBackOff())) is False
    assert is_feedback(chain(ZeroBackOff(), Feedback())) is True
    assert is_feedback(with_max_retries(chain(ZeroBackOff(), Feedback()), 2)) is True


def test_the_part_whose_turn_it_is_hears_the_feedback():
    inner = Feedback()
    policy = chain(constant(1, 1), inner)
    assert policy.failure(1.0) == 1.0
    assert policy.success(2.0) == 1.0  # begins the first part anew
    assert inner.calls == []
    assert policy.failure(3.0) == 5.0
    assert policy.success(4.0) == 0.5
    assert inner.calls == [("failure", 3.0), ("success", 4.0)]


def test_a_copy_of_a_chain_keeps_its_own_place():
    policy = chain(constant(1, 1), constant(2, 1))
    policy.next_backoff()
    policy.next_backoff()
    twin = copy.copy(policy)
    policy.next_backoff()
    assert (twin.position, policy.position) == (1, 2)


def test_a_copy_of_a_chain_does_not_use_up_the_parts_of_the_original():
    policy = chain(constant(1, 1), ConstantBackOff(9))
    assert ask(copy.copy(policy), 2) == [1.0, 9.0]
    assert ask(policy, 2) == [1.0, 9.0]


def test_a_ticker_copies_every_part():
    part = constant(0, 2)
    policy = chain(part, part)
    assert len(list(Ticker(policy))) == 3  # the same part twice: it has stopped
    assert len(list(Ticker(chain(constant(0, 2), constant(0, 2))))) == 5
    assert (part.retries, policy.position) == (0, 0)


def test_a_token_in_a_part_is_known_and_ends_a_ticker():
    token = CancellationToken()
    policy = chain(constant(0, 1), with_token(ConstantBackOff(300), token))
    assert [inner.token for inner in token_policies(policy)] == [token]
    ticker = Ticker(policy)
    ticker.receive()
    ticker.receive()
    token.cancel()
    assert list(ticker) == []
    assert token_policies(chain(ZeroBackOff(), Recording())) is None


def test_repr_of_a_chain():
    assert (
        repr(chain(ZeroBackOff(), ConstantBackOff(1)))
        == "chain(ZeroBackOff(), ConstantBackOff(1.0))"
    )


# Bounds


GROWING = ExponentialBackOff(1, 0, 2, 1000, None)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (with_max_retries(GROWING, 2), [(1, 1), (2, 2), None, None]),
        (with_max_retries(StopBackOff(), 2), [None, None]),
        (with_token(GROWING, CancellationToken()), [(1, 1), (2, 2), (4, 4)]),
        (with_max_interval(GROWING, 3), [(1, 1), (2, 2), (3, 3), (3, 3)]),
        (with_max_elapsed_time(GROWING, 3), [(1, 1), (2, 2), None, None]),
        (with_max_elapsed_time(ExponentialBackOff(2, 0.5, 1, 2, None), 2), [(1, 2), (1, 2)]),
        (with_max_elapsed_time(GROWING, None), [(1, 1), (2, 2), (4, 4)]),
        (chain(constant(9, 2), GROWING), [(9, 9), (9, 9), (1, 1), (2, 2)]),
        (chain(constant(9, 1), constant(8, 1)), [(9, 9), (8, 8), None]),
        (chain(chain(constant(9, 1), constant(8, 1)), GROWING), [(9, 9), (8, 8), (1, 1), (2, 2)]),
        (chain(StopBackOff(), GROWING), [(1, 1), (2, 2)]),
        # The first part may stop at any time: the second may be at any of its calls by then.
        (
            chain(with_max_elapsed_time(constant(9, 2), 99), GROWING),
            [(1, 9), (1, 9), (1, 4), (2, 8)],
        ),
        (chain(with_token(constant(9, 1), CancellationToken()), GROWING), [(1, 9), (1, 2), (2, 4)]),
        (with_max_retries(Recording(), 1), [(0, LARGEST), None]),
        (chain(Recording(), GROWING), [(0, LARGEST), (0, LARGEST)]),
        (with_max_retries(type("Own", (ConstantBackOff,), {})(1), 1), [(0, LARGEST), None]),
        (ExponentialBackOff(2, 0.5, 2, 8, 3), [(1, 3), (2, 3), None]),
        (ExponentialBackOff(2, 0.5, 2, 8, 3, look_ahead=False), [(1, 3), (2, 6), (4, 12)]),
        (LIMDBackOff(2, 4, 0.2, max_attempts=3), [(2, 2), (6, 6), None]),
        (
            chain(LIMDBackOff(2, 4, 0.2, max_attempts=3), constant(1, 1)),
            [(2, 2), (6, 6), (1, 1), None],
        ),
    ],
    ids=repr,
)
def test_bounds(policy, expected):
    assert [policy.bounds(n) for n in range(1, len(expected) + 1)] == expected


def test_bounds_of_far_calls():
    assert chain(constant(9, 10**12), GROWING).bounds(10**12) == (9, 9)
    assert chain(constant(9, 10**12), GROWING).bounds(10**12 + 2) == (2, 2)
    assert with_max_retries(GROWING, 10**9).bounds(10**9) == (1000, 1000)
    assert with_max_retries(GROWING, 10**9).bounds(10**9 + 1) is None
