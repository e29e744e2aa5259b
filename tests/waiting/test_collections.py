"""Garbage is collected at any place where Python 3.11 does so, and a finalizer lets others in."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker.waiting import AtomicState, Waiter, WaitSet

if TYPE_CHECKING:
    from collections.abc import Callable

THRESHOLDS = range(40)
"""How many objects are made before the collection: one of them hits each place."""


class Garbage:
    def __init__(self, finalizer: Callable[[], object]) -> None:
        self._cycle = self
        self._finalizer = finalizer

    def __del__(self) -> None:
        self._finalizer()


def interrupt_by_a_collection(
    threshold: int, finalizer: Callable[[], object], call: Callable[[], object]
) -> None:
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(0)
    Garbage(finalizer)
    spare: list[Any] = [({}, []) for _ in range(200)]  # one kept for reuse begins no collection
    gc.set_threshold(len(spare) * 3 + threshold, 10, 10)
    try:
        call()
    finally:
        gc.set_threshold(*before)
    gc.collect()


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
