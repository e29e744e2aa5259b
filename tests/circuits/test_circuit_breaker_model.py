"""CircuitBreaker: it does what a model does, and counts what a list of all results says."""

import pytest
from hypothesis import example, given, strategies as st

from backoff_ticker import CircuitBreaker, CircuitOpen, CircuitState, ConstantBackOff
from tests.helpers import SetClock


def record(breaker, *, failed):
    breaker.record(breaker.allow(), OSError() if failed else None)


@given(
    st.integers(1, 40),
    st.integers(1, 100),
    st.integers(1, 40),
    st.lists(st.booleans(), max_size=120),
)
def test_a_window_of_calls_is_the_end_of_the_list(size, percent, minimum, results):
    minimum = min(minimum, size)
    breaker = CircuitBreaker(
        failure_rate=percent / 100, window_calls=size, minimum_calls=minimum, clock=SetClock()
    )
    for number, failed in enumerate(results, 1):
        record(breaker, failed=failed)
        window = results[max(0, number - size) : number]
        if failed and len(window) >= minimum and sum(window) * 100 >= percent * len(window):
            assert breaker.state is CircuitState.OPEN
            return
        shown = f"closed, {sum(window)} of the last {len(window)} calls failed"
        assert repr(breaker) == f"<CircuitBreaker {shown}>"


@given(st.floats(0.001, 1000), st.lists(st.tuples(st.floats(0, 0.5), st.booleans()), max_size=120))
def test_a_window_of_seconds_covers_nine_to_ten_tenths(seconds, calls):
    now = SetClock(0.0)
    breaker = CircuitBreaker(failure_rate=1, window=seconds, minimum_calls=1000, clock=now)
    ended = []
    for step, failed in calls:
        now.advance(step * seconds)
        ended.append((now.now, failed))
        record(breaker, failed=failed)
        _, _, failures, _, all_calls, *_ = repr(breaker).split()
        for found, only_failures in (failures, True), (all_calls, False):
            certain, possible = (
                sum(
                    failed or not only_failures
                    for when, failed in ended
                    if now.now - when <= share * seconds
                )
                for share in (0.9 - 1e-6, 1 + 1e-6)
            )
            assert certain <= int(found) <= possible


def test_a_slower_thread_with_an_earlier_time_counts_where_the_others_are():
    now = SetClock()
    breaker = CircuitBreaker(failure_rate=0.5, window=10, clock=now)
    now.now = 5.5
    record(breaker, failed=True)
    now.now = 4.5
    record(breaker, failed=False)
    now.now = 14.5
    record(breaker, failed=False)
    assert repr(breaker) == "<CircuitBreaker closed, 1 of 3 calls failed in 10.0 s>"
    now.now = 15.0
    record(breaker, failed=False)
    assert repr(breaker) == "<CircuitBreaker closed, 0 of 2 calls failed in 10.0 s>"


@given(st.floats(0, 1e9), st.floats(0, 1e9, exclude_min=True))
@example(7.705, 25.132)
def test_who_waits_as_long_as_it_says_finds_it_half_open(time, until):
    now = SetClock()
    now.now = 0.0
    breaker = CircuitBreaker(clock=now)
    breaker.open(until)
    now.now = time
    left = breaker.remaining()
    assert left is not None
    now.now += left
    assert breaker.state is CircuitState.HALF_OPEN


class Model:
    """What a breaker has to do, said with sets and lists instead of states."""

    def __init__(self, most, probes, successes, delay, patience):
        self.most, self.probes, self.successes = most, probes, successes
        self.delay, self.patience = delay, patience
        self.close()

    def close(self):
        self.state, self.failures = CircuitState.CLOSED, 0
        self.valid, self.late = {}, {}

    def open(self, now, seconds=None):
        if self.state is CircuitState.HALF_OPEN:
            self.late |= self.valid  # they still run
        self.state, self.until = CircuitState.OPEN, now + (seconds or self.delay)
        self.valid = {}

    def look(self, now):
        """Return the state that a call would meet, and the seconds until one is let through."""
        if self.state is CircuitState.OPEN and now < self.until:
            return self.state, self.until - now
        if self.state is CircuitState.CLOSED:
            return self.state, 0.0
        is_full = sum(now < end for end in (self.valid | self.late).values()) == self.probes
        return CircuitState.HALF_OPEN, None if is_full else 0.0

    def allow(self, call, now):
        state, left = self.look(now)
        if left != 0.0:
            return False
        if state is CircuitState.HALF_OPEN:
            if self.state is CircuitState.OPEN:
                self.state, self.succeeded = state, 0
            self.valid = {one: end for one, end in self.valid.items() if now < end}
        self.valid[call] = now + self.patience
        return True

    def record(self, call, result, now):
        self.late.pop(call, None)
        if self.valid.pop(call, None) is None or result is None:
            return
        if self.state is CircuitState.CLOSED:
            self.failures = self.failures + 1 if result else 0
            if self.failures == self.most:
                self.open(now)
        elif result:
            self.open(now)
        else:
            self.succeeded += 1
            if self.succeeded == self.successes:
                self.close()


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.lists(
        st.one_of(
            st.sampled_from(["allow", "allow", "allow", "open", "reset"]),
            st.integers(0, 512).map(lambda units: units / 64),  # whole nanoseconds, exact as floats
            st.tuples(st.integers(0, 5), st.sampled_from([True, True, False, None])),
        ),
        max_size=200,
    ),
)
def test_it_does_what_the_model_does(most, probes, successes, actions):
    model = Model(most, probes, successes, delay=5.0, patience=7.0)
    now = SetClock()
    breaker = CircuitBreaker(
        ConstantBackOff(model.delay),
        failures=most,
        probes=probes,
        successes=successes,
        probe_timeout=model.patience,
        clock=now,
    )
    running = {}
    for number, action in enumerate(actions):
        if action == "allow":
            try:
                running[number] = breaker.allow()
            except CircuitOpen:
                assert not model.allow(number, now.now)
            else:
                assert model.allow(number, now.now)
        elif action == "open":
            breaker.open(3)
            model.open(now.now, 3)
        elif action == "reset":
            breaker.reset()
            model.close()
        elif isinstance(action, float):
            now.advance(action)
        elif running:
            index, result = action
            call = list(running)[index % len(running)]
            if result is None:
                breaker.release(running.pop(call))
            else:
                breaker.record(running.pop(call), OSError() if result else None)
            model.record(call, result, now.now)
        state, left = model.look(now.now)
        assert breaker.state is state
        assert breaker.remaining() == pytest.approx(left)
