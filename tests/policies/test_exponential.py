"""Exponential back-off: what its vectors do not show; clocks and generators, also of others."""

import copy
import pickle
import random
import time

import pytest

from backoff_ticker import ExponentialBackOff, Ticker, with_max_retries
from tests.helpers import SetClock, readable_id
from tests.policies.policy_doubles import InDict, StubRandom, ask
from tests.stress.tools import run_silently


def test_parameters_go_in_the_published_order():
    rng = StubRandom(0.0)
    policy = ExponentialBackOff(1, 0.25, 2, 8, 100, False, rng)
    assert ask(policy, 5) == [0.75, 1.5, 3.0, 6.0, 6.0]
    assert policy.max_elapsed_time == 100.0
    assert policy.look_ahead is False
    assert rng.draws == 5


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("look_ahead", 1, "be a bool, not "),
        *(("rng", value, "be a random.Random or None, not ") for value in (42, random)),
        ("clock", 5, "have a method monotonic(), not be "),
    ],
    ids=readable_id,
)
def test_what_is_of_another_type_is_refused(name, value, expected):
    ExponentialBackOff(rng=random.SystemRandom(), clock=time)  # anything that has the methods
    with pytest.raises(TypeError) as caught:
        ExponentialBackOff(**{name: value})
    assert str(caught.value) == f"{name} must {expected}{value!r}"


def wrapped(policy):
    return with_max_retries(InDict(with_max_retries(InDict(policy), 99)), 50)


@pytest.mark.parametrize("wrap", [lambda policy: policy, wrapped])
@pytest.mark.parametrize("has_own", [False, True])
def test_a_ticker_lends_its_clock_at_any_depth_unless_the_policy_has_one(wrap, has_own):
    clock, own = SetClock(), SetClock()
    policy = ExponentialBackOff(2, 0, 1, 2, max_elapsed_time=5, clock=own if has_own else None)
    ticker = Ticker(wrap(policy), clock=clock)
    clock.advance(100)
    ticker.reset()
    for _ in range(2):
        clock.advance(2)
        assert ticker.receive_nowait().delay == 2.0
    assert ticker.closed is not has_own
    if has_own:
        own.advance(4)
        clock.advance(2)
        ticker.receive_nowait()
        assert ticker.closed


@pytest.mark.parametrize(
    "twin_of", [copy.copy, copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))]
)
def test_unseeded_copies_do_not_draw_in_step(twin_of):
    """Also when one policy is sent to the workers of a process pool."""
    policy = ExponentialBackOff()
    first, second = twin_of(policy), twin_of(policy)
    assert len({tuple(ask(one, 20)) for one in (policy, first, second)}) == 3


def test_a_seed_of_the_global_generator_fixes_nothing():
    state = random.getstate()
    try:
        random.seed(1)
        first = ask(ExponentialBackOff(), 20)
        random.seed(1)
        assert ask(ExponentialBackOff(), 20) != first
    finally:
        random.setstate(state)


def test_forked_children_draw_different_numbers_and_the_generator_of_a_user_is_left_alone():
    run_silently(
        """
import json, random
read, write = os.pipe()
unseeded = ExponentialBackOff(1, 0.5, 1, 1)
seeded = ExponentialBackOff(1, 0.5, 1, 1, rng=random.Random(7))
unseeded.next_backoff(), seeded.next_backoff()
def draw():
    drawn = [[policy.next_backoff() for _ in range(5)] for policy in (unseeded, seeded)]
    os.write(write, json.dumps(drawn).encode() + b"\\n")
for _ in range(2):
    assert collect(fork(draw)) == 0
draw()
of_unseeded, of_seeded = zip(*map(json.loads, os.read(read, 4096).splitlines()))
assert len({number for drawn in of_unseeded for number in drawn}) == 15
assert of_seeded[0] == of_seeded[1] == of_seeded[2]
"""
    )
