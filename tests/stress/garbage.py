"""A collection of garbage at any place where Python 3.11 begins one; a finalizer lets others in.

Later versions begin one only where they run signal handlers, too.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from tests.effort import has_lock

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 512
"""Without the interpreter's lock: of so many objects a thread asks whether to collect garbage."""

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
    try:
        spare = _make_collection_due(threshold, finalizer)
        call()
        del spare
    finally:
        gc.set_threshold(*before)
    gc.collect()


def _make_collection_due(threshold: int, finalizer: Callable[[], object]) -> list[Any]:
    """Have garbage collected once about so many objects are made; return what keeps it so."""
    gc.set_threshold(0)
    spare: list[Any] = []
    if has_lock():
        Garbage(finalizer)
        spare += [({}, []) for _ in range(200)]  # one kept for reuse begins no collection
        gc.set_threshold(len(spare) * 3 + threshold, 10, 10)
    else:
        gc.set_threshold(1, 0)  # 0: however few they are beside all objects
        begun = gc.get_stats()
        while gc.get_stats() == begun:  # until a batch ends, so that the next begins here
            spare.append([])
        Garbage(finalizer)
        spare += [[] for _ in range(BATCH - threshold - 2)]
    return spare
