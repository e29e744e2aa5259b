"""A collection of garbage at any place where Python 3.11 begins one; a finalizer lets others in.

Later versions begin one only where they run signal handlers, too.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

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
