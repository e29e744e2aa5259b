"""The rule of a circuit breaker: thresholds, and states that follow one another."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from backoff_ticker import CircuitState
from backoff_ticker.circuits._states import (
    Circuit,
    CircuitTicket,
    Closed,
    HalfOpen,
    Open,
    Rules,
)
from backoff_ticker.circuits._thresholds import InARow, LastCalls, LastSeconds

RESULTS = st.lists(st.booleans(), max_size=120)


# Thresholds


@given(st.integers(1, 10), RESULTS)
def test_failures_in_a_row_are_those_at_the_end(most: int, results: list[bool]) -> None:
    threshold, history = InARow(most), 0
    for number, failed in enumerate(results, 1):
        history = threshold.recorded(history, failed, 0.0)
        in_a_row = next(
            (n for n, each in enumerate(reversed(results[:number])) if not each), number
        )
        assert history == in_a_row
        assert threshold.is_reached(history) is (in_a_row >= most)


@given(st.integers(1, 40), st.integers(1, 100), st.integers(1, 40), RESULTS)
def test_a_window_of_calls_is_the_end_of_the_list(
    size: int, percent: int, minimum: int, results: list[bool]
) -> None:
    threshold = LastCalls(percent / 100, size, minimum)
    history = threshold.empty
    for number, failed in enumerate(results, 1):
        history = threshold.recorded(history, failed, 0.0)
        window = results[max(0, number - size) : number]
        assert history[1:] == (len(window), sum(window))
        assert history[0] == sum(each << n for n, each in enumerate(reversed(window)))
        reached = len(window) >= minimum and sum(window) * 100 >= percent * len(window)
        assert threshold.is_reached(history) is reached


@given(
    st.floats(0.001, 1000),
    st.lists(st.tuples(st.floats(0, 0.5), st.booleans()), max_size=120),
)
def test_a_window_of_seconds_covers_nine_to_ten_tenths(
    seconds: float, calls: list[tuple[float, bool]]
) -> None:
    threshold = LastSeconds(0.5, seconds, 1)
    history, now = threshold.empty, 5.0
    ended: list[tuple[float, bool]] = []
    for step, failed in calls:
        now += step * seconds
        ended.append((now, failed))
        history = threshold.recorded(history, failed, now)
        assert len(history) <= 10
        for part in (0, 1):  # how many calls, how many failures
            found = sum(each[1 + part] for each in history)
            certain, possible = (
                sum(each or not part for when, each in ended if now - when <= share * seconds)
                for share in (0.9 - 1e-6, 1 + 1e-6)
            )
            assert certain <= found <= possible


def test_a_slower_thread_with_an_earlier_time_counts_where_the_others_are() -> None:
    threshold = LastSeconds(0.5, 10.0, 1)
    history = threshold.recorded(threshold.empty, True, 5.5)
    history = threshold.recorded(history, False, 4.5)
    assert history == ((5.0, 2, 1),)


# States


class Model:
    """What a breaker has to do, said with sets and lists instead of states."""

    def __init__(self, most: int, probes: int, successes: int, delay: float, patience: float):
        self.most, self.probes, self.successes = most, probes, successes
        self.delay, self.patience = delay, patience
        self.close()

    def close(self) -> None:
        self.state, self.failures = CircuitState.CLOSED, 0
        self.valid: dict[Any, float] = {}

    def open(self, now: float) -> None:
        self.state, self.until = CircuitState.OPEN, now + self.delay
        self.valid = {}

    def allow(self, call: int, now: float) -> bool:
        if self.state is CircuitState.OPEN and now >= self.until:
            self.state, self.succeeded = CircuitState.HALF_OPEN, 0
        if self.state is CircuitState.HALF_OPEN:
            held = {each: end for each, end in self.valid.items() if now < end}
            if len(held) == self.probes:
                return False
            self.valid = held
        allowed = self.state is not CircuitState.OPEN
        if allowed:
            self.valid[call] = now + self.patience
        return allowed

    def record(self, call: int, result: bool | None, now: float) -> None:
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
            st.just("allow"),
            st.floats(0, 8),
            st.tuples(st.integers(0, 5), st.sampled_from([True, True, False, None])),
        ),
        max_size=200,
    ),
)
def test_it_does_what_the_model_does(
    most: int, probes: int, successes: int, actions: list[Any]
) -> None:
    model = Model(most, probes, successes, delay=5.0, patience=7.0)
    rules = Rules(InARow(most), probes, successes)
    circuit: Circuit = Closed(0)
    running: dict[int, CircuitTicket] = {}
    now, number = 100.0, 0
    for action in actions:
        if action == "allow":
            number += 1
            ticket: CircuitTicket | None = circuit.ticket
            if ticket is None:
                ticket = CircuitTicket()
                ticket.expires = now + 7.0
                after = circuit.admitted(rules, ticket, now)
                assert (after is None) is (circuit.seconds_left(rules, now) != 0.0)
                circuit, ticket = (circuit, None) if after is None else (after, ticket)
            assert (ticket is not None) is model.allow(number, now)
            if ticket is not None:
                running[number] = ticket
        elif isinstance(action, float):
            now += action
        elif running:
            index, result = action
            call = list(running)[index % len(running)]
            ticket = running.pop(call)
            circuit = circuit.ended(rules, ticket, result, now)
            model.record(call, result, now)
        if circuit.since is not None:
            assert circuit.seconds_left(rules, now) == 0.0
            assert circuit.admitted(rules, CircuitTicket(), now) is None
            circuit = Open(circuit.since + 5.0)
        assert circuit.state is model.state
        if isinstance(circuit, HalfOpen):
            assert {id(each) for each in circuit.running} == {
                id(running[call]) for call in model.valid
            }


def test_no_state_changes_itself() -> None:
    rules, ticket = Rules(InARow(2), 2, 2), CircuitTicket()
    states: list[Circuit] = [
        Closed(1, ticket),
        Open(since=5.0, is_first=True),
        Open(8.0, since=5.0),
        Open(5.0),
        Open(inf),
        HalfOpen((ticket,), 1),
    ]

    def shown(state: Any) -> Any:
        return {name: getattr(state, name) for name in type(state).__slots__}

    for state in states:
        before = shown(state)
        for failed in (True, False, None):
            state.ended(rules, ticket, failed, 9.0)
            assert state.ended(rules, CircuitTicket(), failed, 9.0) is state
        state.admitted(rules, CircuitTicket(), 9.0)
        assert shown(state) == before


def test_a_success_that_changes_nothing_makes_no_state() -> None:
    for threshold in (InARow(3), LastCalls(0.5, 4, 4)):
        rules, ticket = Rules(threshold, 1, 1), CircuitTicket()
        circuit: Circuit = Closed(threshold.empty, ticket)
        for _ in range(10):
            circuit = circuit.ended(rules, ticket, failed=False, now=0.0)
        assert circuit.ended(rules, ticket, failed=False, now=0.0) is circuit


@pytest.mark.parametrize("now", [0.0, 1e-9, 1e15])
def test_any_time_will_do(now: float) -> None:
    threshold = LastSeconds(1.0, 0.001, 2)
    history = threshold.recorded(threshold.recorded((), True, now), True, now)
    assert threshold.is_reached(history)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
@example(7.705, 25.132)
def test_who_waits_as_long_as_it_says_finds_it_half_open(now: float, until: float) -> None:
    rules = Rules(InARow(1), 1, 1)
    left = Open(until).seconds_left(rules, now)
    assert left is not None
    assert Open(until).state_at(now + left) is CircuitState.HALF_OPEN
