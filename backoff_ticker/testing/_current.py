"""Which clock ``clock=None`` means in a thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..clock import current_clocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..clock import Clock


@contextmanager
def as_current(clock: Clock) -> Iterator[None]:
    """Have ``clock`` be the current one in this thread."""
    ident = threading.get_ident()
    before = current_clocks.get(ident)
    current_clocks[ident] = clock
    try:
        yield
    finally:
        if before is None:
            current_clocks.pop(ident, None)
        else:
            current_clocks[ident] = before
