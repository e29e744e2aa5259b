"""Garbage is collected at any place where Python 3.11 does so, and a finalizer lets others in."""

from __future__ import annotations

import pytest

from backoff_ticker.waiting import Waiter, WaitSet
from tests.helpers import waiters_of
from tests.stress.garbage import THRESHOLDS, interrupt_by_a_collection


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_nobody_who_registers_during_a_collection_is_lost(threshold: int) -> None:
    source = WaitSet()
    first, second, meanwhile = (Waiter(None, (source,)) for _ in range(3))
    first.register()
    interrupt_by_a_collection(threshold, meanwhile.register, second.register)
    assert set(waiters_of(source)) == {first, second, meanwhile}
