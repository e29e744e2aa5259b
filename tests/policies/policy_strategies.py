"""Policies to test: every class and wrapper with random valid parameters, and some samples.

The classes, and the options of each, come from ``POLICIES``: a new policy whose parameters have
names of ``OF_PARAMETERS`` is drawn as well.

The strategies give recipes: functions that make a policy of a generator and a clock. So each is
built once, and not, with all it is made of, for each example.
"""

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
    TruncatedExponentialBackOff,
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
from tests.policies.policy_doubles import LAST_DRAW, Seeded, StubRandom

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
limits = st.one_of(st.none(), seconds)
caps = st.one_of(st.none(), st.just(inf), seconds)
multiples = st.one_of(st.none(), st.just(inf), st.floats(1, 1000), st.floats(1, LARGEST))
counts = st.integers(0, 12)
generators = st.sampled_from(
    [(StubRandom, 0.0), (StubRandom, LAST_DRAW), (StubRandom, 0.5), (Seeded, 1)]
).map(lambda drawn: drawn[0](drawn[1]))

OF_PARAMETERS = {
    "initial_interval": seconds.filter(bool),
    "randomization_factor": fractions,
    "multiplier": factors.map(lambda factor: max(factor, 1.0)),
    "max_interval": multiples,
    "max_elapsed_time": limits,
    "look_ahead": st.booleans(),
    "maximum_backoff": caps,
    "cap": multiples,
    "exponent_base": factors,
    "delay_multiple_on_failure": factors,
    "delay_multiple_on_success": factors,
    "delay_increment_on_failure": differences,
    "delay_increment_on_success": differences,
    "consider_actual_delay": st.booleans(),
    "max_actual_duration": st.one_of(st.just(0.0), st.floats(0, 100)),
    "max_attempts": counts,
    "jitter_factor": fractions,
    "max_delay": caps,
    **dict.fromkeys(
        [
            *("interval", "base", "max_jitter", "initial_backoff", "min_delay"),
            *("delay", "delay_on_success", "initial_delay", "initial_delay1", "initial_delay2"),
        ],
        seconds,
    ),
}
"""What is drawn for a parameter; a cap that must be at least another one is a multiple of it."""

CAPS = {"max_interval": "initial_interval", "cap": "base"}


def _call(make, options, generator, clock, *arguments):
    """Call ``make`` with options, and with the generator and the clock if it takes them."""
    taken = signature(make).parameters
    given = {"rng": generator, "clock": clock}
    given = {name: one for name, one in given.items() if name in taken}
    return make(*arguments, **options, **given)


def _recipes(entry):
    """Return recipes of an entry of ``POLICIES``; options by keyword only may be left out."""
    own = [one for one in signature(entry).parameters.values() if one.name not in ("rng", "clock")]
    drawn = {one.name: OF_PARAMETERS[one.name] for one in own}
    optional = {one.name: drawn.pop(one.name) for one in own if one.kind is one.KEYWORD_ONLY}

    def recipe(options):
        for most, first in CAPS.items():
            if options.get(most) not in (None, inf):
                options = options | {most: min(options[first] * options[most], LARGEST)}
        return lambda generator, clock: _call(entry, options, generator, clock)

    return st.fixed_dictionaries(drawn, optional=optional).map(recipe)


ENTRIES = [entry for entry in POLICIES.values() if not entry.preset]
CLASSES = {entry.make: _recipes(entry) for entry in ENTRIES}
FEEDBACK = [entry.make for entry in ENTRIES if entry.feedback]
FIXED = [cls for cls in FEEDBACK if "delay_on_success" in signature(cls).parameters]
"""Those whose delay does not follow from the delay before."""


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
    return {one.name: GIVEN[one.name] for one in parameters if one.default is one.empty}


def samples():
    """Return each policy that has a name, one of each kind without a cap, and some others."""
    token = CancellationToken()
    return [
        ExponentialBackOff(look_ahead=False, multiplier=1),
        ExponentialBackOff(multiplier=1.0000001, max_interval=None, max_elapsed_time=None),
        TruncatedExponentialBackOff(None),
        FullJitterBackOff(1, inf),
        EqualJitterBackOff(1, None),
        DecorrelatedJitterBackOff(1, None),
        ConstantFeedbackBackOff(2, consider_actual_delay=True, jitter_factor=0.5),
        ExponentialFeedbackBackOff(1, 0.5, max_delay=60, consider_actual_delay=True),
        FibonacciBackOff(1, 1, consider_actual_delay=True),
        LILDBackOff(1, -2, -1, min_delay=3, jitter_factor=0.1),
        LIMDBackOff(1, LARGEST, 0.5),
        MILDBackOff(1, 0.5, -1, jitter_factor=0.5),
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
