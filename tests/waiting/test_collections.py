"""Garbage is collected at any place where Python 3.11 does so, and a finalizer lets others in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from backoff_ticker.waiting import AtomicState, Waiter, WaitSet
from tests.stress.garbage import THRESHOLDS, interrupt_by_a_collection


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_nobody_who_registers_during_a_collection_is_lost(threshold: int) -> None:
    source = WaitSet()
    first, second, meanwhile = Waiter(), Waiter(), Waiter()
    source.add(first)
    interrupt_by_a_collection(threshold, lambda: source.add(meanwhile), lambda: source.add(second))
    assert set(source.waiters) == {first, second, meanwhile}


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_no_rule_that_is_deferred_during_a_collection_is_lost(threshold: int) -> None:
    state = AtomicState(SimpleNamespace(claim={}))
    ours: Any = "ours"
    theirs: Any = "theirs"
    interrupt_by_a_collection(threshold, lambda: state.defer(theirs), lambda: state.defer(ours))
    assert set(state.deferred) == {ours, theirs}
