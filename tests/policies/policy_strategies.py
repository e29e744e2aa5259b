"""Policies to test: every class and wrapper with random valid parameters, and some samples."""

from __future__ import annotations

import random

from hypothesis import strategies as st

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
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
    with_token,
)
from tests.helpers import ManualClock

LARGEST = 1.7976931348623157e308
LAST_DRAW = 1.0 - 2.0**-53
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


class Draws(random.Random):
    """Draws what it was told: a number again and again, or the numbers of a seed."""

    def __init__(self, kind):
        self.kind = kind
        super().__init__(1)

    def random(self):
        return super().random() if self.kind == "random" else self.kind

    def __repr__(self):
        return f"Draws({self.kind!r})"


generators = st.sampled_from([0.0, LAST_DRAW, 0.5, "random"]).map(Draws)


def _feedback(make, own):
    def build(own_options, options, generator, clock):
        return make(**own_options, **options, rng=generator, clock=clock)

    common = st.fixed_dictionaries(
        {},
        optional={
            "consider_actual_delay": st.booleans(),
            "max_actual_duration": st.one_of(st.just(0.0), st.floats(0, 100)),
            "max_attempts": st.integers(0, 12),
            "jitter_factor": fractions,
            "min_delay": seconds,
            "max_delay": limits,
        },
    )
    return lambda generator, clock: st.builds(
        build, st.fixed_dictionaries(own), common, st.just(generator), st.just(clock)
    )


def _exponential(generator, clock):
    def build(initial, headroom, factor, multiplier, limit, look_ahead):
        greatest = min(initial * headroom, LARGEST)
        return ExponentialBackOff(
            initial, factor, multiplier, greatest, limit, look_ahead, generator, clock
        )

    return st.builds(
        build,
        seconds.filter(bool),
        st.one_of(st.floats(1, 1000), st.floats(1, LARGEST)),
        fractions,
        factors.map(lambda factor: max(factor, 1.0)),
        limits,
        st.booleans(),
    )


def _jitter(make):
    def build(base, headroom, generator):
        cap = None if headroom is None else min(base * headroom, LARGEST)
        return make(base, cap, rng=generator)

    headroom = st.one_of(st.none(), st.floats(1, 1000))
    return lambda generator, clock: st.builds(build, seconds, headroom, st.just(generator))


def _truncated(generator, clock):
    return st.builds(TruncatedExponentialBackOff, seconds, seconds, st.just(generator))


SIMPLE = {
    ConstantBackOff: lambda generator, clock: st.builds(ConstantBackOff, seconds),
    ZeroBackOff: lambda generator, clock: st.builds(ZeroBackOff),
    StopBackOff: lambda generator, clock: st.builds(StopBackOff),
    ExponentialBackOff: _exponential,
    TruncatedExponentialBackOff: _truncated,
    FullJitterBackOff: _jitter(FullJitterBackOff),
    EqualJitterBackOff: _jitter(EqualJitterBackOff),
    DecorrelatedJitterBackOff: _jitter(DecorrelatedJitterBackOff),
}
FIXED = {
    ConstantFeedbackBackOff: _feedback(
        ConstantFeedbackBackOff, {"delay": seconds, "delay_on_success": seconds}
    ),
    ExponentialFeedbackBackOff: _feedback(
        ExponentialFeedbackBackOff,
        {"initial_delay": seconds, "exponent_base": factors, "delay_on_success": seconds},
    ),
    FibonacciBackOff: _feedback(
        FibonacciBackOff,
        {"initial_delay1": seconds, "initial_delay2": seconds, "delay_on_success": seconds},
    ),
}
_rises = {"delay_increment_on_failure": differences}, {"delay_multiple_on_failure": factors}
_falls = {"delay_increment_on_success": differences}, {"delay_multiple_on_success": factors}
ADAPTIVE = {
    make: _feedback(make, {"initial_delay": seconds, **_rises[rises], **_falls[falls]})
    for make, rises, falls in [
        (LILDBackOff, 0, 0),
        (LIMDBackOff, 0, 1),
        (MILDBackOff, 1, 0),
        (MIMDBackOff, 1, 1),
    ]
}
FEEDBACK = FIXED | ADAPTIVE
CLASSES = SIMPLE | FEEDBACK


def any_policy(generator, clock):
    """Return a strategy of policies inside wrappers, to any depth, that share both."""
    simple = st.one_of([made(generator, clock) for made in CLASSES.values()])

    def wrapped(inner):
        return st.one_of(
            st.builds(with_max_retries, inner, st.integers(0, 12)),
            st.builds(with_max_interval, inner, seconds),
            st.builds(with_max_elapsed_time, inner, limits, st.just(clock)),
            st.builds(lambda policy: with_token(policy, CancellationToken()), inner),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: chain(*parts)),
        )

    return st.recursive(simple, wrapped, max_leaves=4)


EVERY = [*CLASSES, "any"]
steps_of_time = st.lists(st.integers(0, 200).map(lambda eighths: eighths / 8), max_size=25)


def drawn_policy(data, kind, generator=None):
    """Return a policy of a class, or of any with wrappers, its clock and its generator."""
    clock = ManualClock(1000.0, epoch=5000.0)
    generator = generator or data.draw(generators)
    made = any_policy if kind == "any" else CLASSES[kind]
    return data.draw(made(generator, clock)), clock, generator


def run(policy, clock, times):
    """Return what the policy says at each of these times since now."""
    start, said = clock.now, []
    for passed in times:
        clock.now = start + passed
        said.append(policy.next_backoff())
    return said


def cumulated(times):
    return [sum(times[:count]) for count in range(len(times) + 1)]


def samples():
    """Return a policy of each kind that has no cap, and some that have one."""
    token = CancellationToken()
    return [
        ConstantBackOff(2),
        ZeroBackOff(),
        StopBackOff(),
        ExponentialBackOff(max_elapsed_time=None),
        ExponentialBackOff(look_ahead=False, multiplier=1),
        ExponentialBackOff(multiplier=1.0000001, max_interval=LARGEST, max_elapsed_time=None),
        TruncatedExponentialBackOff(LARGEST),
        FullJitterBackOff(1, None),
        EqualJitterBackOff(1, None),
        DecorrelatedJitterBackOff(1, None),
        DecorrelatedJitterBackOff(1, 8),
        ConstantFeedbackBackOff(2, jitter_factor=0.5),
        ConstantFeedbackBackOff(2, consider_actual_delay=True, jitter_factor=0.5),
        ExponentialFeedbackBackOff(1, 1.5, jitter_factor=0.5),
        ExponentialFeedbackBackOff(1, 0.5, max_delay=60, consider_actual_delay=True),
        FibonacciBackOff(1, 1),
        FibonacciBackOff(1, 1, consider_actual_delay=True),
        LILDBackOff(1, 2, -1),
        LILDBackOff(1, -2, -1, min_delay=3, jitter_factor=0.1),
        LIMDBackOff(1, LARGEST, 0.5),
        LIMDBackOff(1, 2, 0.5, consider_actual_delay=True),
        MILDBackOff(1, 1.5, -1),
        MILDBackOff(1, 0.5, -1, jitter_factor=0.5),
        MIMDBackOff(1, 1.5, 0.5, jitter_factor=0.5),
        MIMDBackOff(1, 1.0000001, 0.5, max_attempts=2 * MANY),
        with_max_retries(FullJitterBackOff(1, None), 2 * MANY),
        with_max_interval(FibonacciBackOff(1, 1), 5),
        with_max_elapsed_time(LILDBackOff(1, 2, -1), 100),
        with_token(MIMDBackOff(1, 2, 0.5), token),
        chain(with_max_retries(ConstantBackOff(1), MANY), FullJitterBackOff(1, None)),
        chain(with_token(LIMDBackOff(1, 2, 0.5), token), FibonacciBackOff(1, 2)),
        *(named_policy(entry.name) for entry in POLICIES.values() if entry.preset),
    ]
