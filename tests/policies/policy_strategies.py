"""Policies to test: every class and wrapper with random valid parameters, and some samples.

The strategies give recipes: functions that make a policy of a generator and a clock. So each is
built once, and not, with all it is made of, for each example.
"""

from __future__ import annotations

from inspect import signature
from itertools import accumulate
from math import inf

import pytest
from hypothesis import given, note, strategies as st

from backoff_ticker import (
    POLICIES,
    CancellationToken,
    ConstantBackOff,
    ConstantFeedbackBackOff,
    DecorrelatedJitterBackOff,
    EqualJitterBackOff,
    ExponentialBackOff,
    ExponentialFeedbackBackOff,
    FibonacciBackOff,
    FullJitterBackOff,
    LILDBackOff,
    LIMDBackOff,
    MILDBackOff,
    MIMDBackOff,
    StopBackOff,
    TruncatedExponentialBackOff,
    ZeroBackOff,
    chain,
    named_policy,
    with_added_jitter,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from tests.helpers import SetClock
from tests.policies.random_doubles import LAST_DRAW, Seeded, StubRandom

LARGEST = 1.7976931348623157e308
MANY = 10**9

seconds = st.one_of(
    st.sampled_from([0.0, 5e-324, 0.1, 0.5, 1.0, 2.0, 3.0, 60.0, LARGEST / 2, LARGEST]),
    st.floats(0, 100),
    st.floats(0, LARGEST),
)
differences = st.one_of(seconds, seconds.map(lambda value: -value))
fractions = st.one_of(
    st.sampled_from([0.0, 0.1, 0.5, 0.999, LAST_DRAW, 5e-324]), st.floats(0, 1, exclude_max=True)
)
factors = st.one_of(
    st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), st.floats(0, 4), st.floats(0, LARGEST)
)
multipliers = factors.map(lambda factor: max(factor, 1.0))
limits = st.one_of(st.none(), seconds)
caps = st.one_of(st.none(), st.just(inf), seconds)
counts = st.integers(0, 12)
generators = st.sampled_from(
    [(StubRandom, 0.0), (StubRandom, LAST_DRAW), (StubRandom, 0.5), (Seeded, 1)]
).map(lambda drawn: drawn[0](drawn[1]))


def _call(make, options, generator, clock, *arguments):
    """Call ``make`` with options, and with the generator and the clock if it takes them."""
    taken = signature(make).parameters
    given = {"rng": generator, "clock": clock}
    given = {name: one for name, one in given.items() if name in taken or "options" in taken}
    return make(*arguments, **options, **given)


def _of(cls, fit=lambda options: options, optional=None, /, **drawn):
    """Return recipes of a class with drawn options, to which ``fit`` may do something."""

    def recipe(options):
        return lambda generator, clock: _call(cls, fit(options), generator, clock)

    return st.fixed_dictionaries(drawn, optional=optional or {}).map(recipe)


def _headroom(first, cap):
    """Return what makes a cap, drawn as a multiple of another option, a number of seconds."""

    def fit(options):
        most = options[cap]
        is_none = most is None or most == inf
        return options | {cap: most if is_none else min(options[first] * most, LARGEST)}

    return fit


_feedback_options = {
    "consider_actual_delay": st.booleans(),
    "max_actual_duration": st.one_of(st.just(0.0), st.floats(0, 100)),
    "max_attempts": counts,
    "jitter_factor": fractions,
    "min_delay": seconds,
    "max_delay": caps,
}
_multiples = st.one_of(st.none(), st.just(inf), st.floats(1, 1000))
SIMPLE = {
    ConstantBackOff: _of(ConstantBackOff, interval=seconds),
    ZeroBackOff: _of(ZeroBackOff),
    StopBackOff: _of(StopBackOff),
    ExponentialBackOff: _of(
        ExponentialBackOff,
        _headroom("initial_interval", "max_interval"),
        initial_interval=seconds.filter(bool),
        max_interval=st.one_of(_multiples, st.floats(1, LARGEST)),
        randomization_factor=fractions,
        multiplier=multipliers,
        max_elapsed_time=limits,
        look_ahead=st.booleans(),
    ),
    TruncatedExponentialBackOff: _of(
        TruncatedExponentialBackOff,
        maximum_backoff=caps,
        max_jitter=seconds,
        initial_backoff=seconds,
        multiplier=multipliers,
    ),
    **{
        cls: _of(
            cls, _headroom("base", "cap"), base=seconds, cap=_multiples, multiplier=multipliers
        )
        for cls in (FullJitterBackOff, EqualJitterBackOff, DecorrelatedJitterBackOff)
    },
}


def _feedback(cls, **own):
    return _of(cls, lambda options: options, _feedback_options, **own)


FIXED = {
    cls: _feedback(cls, delay_on_success=seconds, **own)
    for cls, own in [
        (ConstantFeedbackBackOff, {"delay": seconds}),
        (ExponentialFeedbackBackOff, {"initial_delay": seconds, "exponent_base": factors}),
        (FibonacciBackOff, {"initial_delay1": seconds, "initial_delay2": seconds}),
    ]
}
_rises = {"delay_increment_on_failure": differences}, {"delay_multiple_on_failure": factors}
_falls = {"delay_increment_on_success": differences}, {"delay_multiple_on_success": factors}
ADAPTIVE = {
    cls: _feedback(cls, initial_delay=seconds, **_rises[rises], **_falls[falls])
    for cls, rises, falls in [
        (LILDBackOff, 0, 0),
        (LIMDBackOff, 0, 1),
        (MILDBackOff, 1, 0),
        (MIMDBackOff, 1, 1),
    ]
}
FEEDBACK = FIXED | ADAPTIVE
CLASSES = SIMPLE | FEEDBACK


def _wrapped(inner):
    """Return recipes of wrappers around what ``inner`` makes, with its generator and clock."""

    def around(wrap, **drawn):
        def recipe(drawn):
            made, options = drawn
            return lambda *given: _call(wrap, options, *given, made(*given))

        return st.tuples(inner, st.fixed_dictionaries(drawn)).map(recipe)

    def chained(parts):
        return lambda *given: chain(*(made(*given) for made in parts))

    return st.one_of(
        around(with_max_retries, max_retries=counts),
        around(with_max_interval, max_interval=caps),
        around(with_max_elapsed_time, max_elapsed_time=limits),
        around(with_jitter, jitter=st.one_of(st.sampled_from(["full", "equal"]), fractions)),
        around(with_added_jitter, max_jitter=seconds),
        around(with_token, token=st.builds(CancellationToken)),
        st.lists(inner, min_size=1, max_size=3).map(chained),
    )


EVERY = CLASSES | {"any": st.recursive(st.one_of(*CLASSES.values()), _wrapped, max_leaves=4)}
"""The recipes of each class, and of any inside wrappers, to any depth."""

outcomes = st.lists(st.booleans(), max_size=30)
steps_of_time = st.binary(max_size=25).map(lambda drawn: [max(byte - 55, 0) / 8 for byte in drawn])
"""Up to 25 steps of 0 to 25 seconds, in eighths: a string of bytes costs but one draw."""

moments = steps_of_time.map(lambda steps: list(accumulate(steps, initial=0.0)))
"""The times of calls, counted from the first."""


def for_each_kind(kinds, **drawn):
    """Run a test with each kind of ``EVERY`` that is named, and ``data`` to draw one from."""

    def decorate(test):
        with_examples = given(data=st.data(), **drawn)(test)
        return pytest.mark.parametrize("kind", kinds)(with_examples)

    return decorate


def drawn_policy(data, kind, generator=None):
    """Return a policy of a kind of ``EVERY``, its clock and its generator."""
    clock = SetClock(1000.0, epoch=5000.0)
    generator = generator or data.draw(generators)
    policy = data.draw(EVERY[kind])(generator, clock)
    note(policy)
    return policy, clock, generator


def run(policy, clock, times):
    """Return what the policy says at each of these times since now."""
    start, said = clock.monotonic(), []
    for passed in times:
        clock.now = start + passed
        said.append(policy.next_backoff())
    return said


MAKERS = {
    "constant": lambda **options: ConstantFeedbackBackOff(2, 1, **options),
    "exponential": lambda **options: ExponentialFeedbackBackOff(2, 2, 1, **options),
    "fibonacci": lambda **options: FibonacciBackOff(2, 3, 1, **options),
    "lild": lambda **options: LILDBackOff(2, 4, -5, **options),
    "limd": lambda **options: LIMDBackOff(2, 4, 0.2, **options),
    "mild": lambda **options: MILDBackOff(2, 2, -2, **options),
    "mimd": lambda **options: MIMDBackOff(2, 2, 0.5, **options),
}
"""Each feedback policy with some values, and a first delay of 2 s."""


GIVEN = {
    "interval": 1,
    "base": 1,
    "cap": 20,
    "delay": 1,
    "initial_delay": 1,
    "initial_delay1": 1,
    "initial_delay2": 1,
    "delay_increment_on_failure": 1,
    "delay_increment_on_success": -1,
    "delay_multiple_on_failure": 2,
    "delay_multiple_on_success": 0.5,
}


def needed(name):
    """Return a value for each parameter that the policy of that name must be given."""
    parameters = signature(POLICIES[name]).parameters.values()
    return {each.name: GIVEN[each.name] for each in parameters if each.default is each.empty}


def samples():
    """Return each policy that has a name, one of each kind without a cap, and some others."""
    token = CancellationToken()
    return [
        ExponentialBackOff(max_elapsed_time=None),
        ExponentialBackOff(look_ahead=False, multiplier=1),
        ExponentialBackOff(multiplier=1.0000001, max_interval=None, max_elapsed_time=None),
        TruncatedExponentialBackOff(None),
        FullJitterBackOff(1, inf),
        EqualJitterBackOff(1, None),
        DecorrelatedJitterBackOff(1, None),
        DecorrelatedJitterBackOff(1, 8),
        ConstantFeedbackBackOff(2, jitter_factor=0.5),
        ConstantFeedbackBackOff(2, consider_actual_delay=True, jitter_factor=0.5),
        ExponentialFeedbackBackOff(1, 1.5, jitter_factor=0.5),
        ExponentialFeedbackBackOff(1, 0.5, max_delay=60, consider_actual_delay=True),
        FibonacciBackOff(1, 1),
        FibonacciBackOff(1, 1, consider_actual_delay=True),
        LILDBackOff(1, -2, -1, min_delay=3, jitter_factor=0.1),
        LIMDBackOff(1, LARGEST, 0.5),
        LIMDBackOff(1, 2, 0.5, consider_actual_delay=True),
        MILDBackOff(1, 0.5, -1, jitter_factor=0.5),
        MIMDBackOff(1, 1.5, 0.5, jitter_factor=0.5),
        MIMDBackOff(1, 1.0000001, 0.5, max_attempts=2 * MANY),
        with_max_retries(FullJitterBackOff(1, None), 2 * MANY),
        with_max_interval(FibonacciBackOff(1, 1), 5),
        with_jitter(FibonacciBackOff(1, 1), "equal"),
        with_added_jitter(LILDBackOff(1, 2, -1), 5),
        with_max_elapsed_time(LILDBackOff(1, 2, -1), 100),
        with_token(MIMDBackOff(1, 2, 0.5), token),
        chain(with_max_retries(ConstantBackOff(1), MANY), FullJitterBackOff(1, None)),
        chain(with_token(LIMDBackOff(1, 2, 0.5), token), FibonacciBackOff(1, 2)),
        *(named_policy(name, **needed(name)) for name in POLICIES),
    ]
