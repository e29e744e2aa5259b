"""Retries that do not wait, for tests that need no clock."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..retries._skipping import skippers

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["no_wait"]


@contextmanager
def no_wait() -> Iterator[None]:
    """Skip every wait of the retries that begin while the block runs, in all threads and loops.

    What is skipped counts as waited: policies are asked as ever, hooks see the same delays, and
    ``timeout``, deadlines of tokens and limits of elapsed time end a run after as many attempts as
    if it had waited. A coroutine gives way to its loop instead of waiting. A ``timer=`` is not
    started.

    Tickers, and the attempts of ``hedge_call_async``, which run while others wait, keep to their
    times: use a ``VirtualClock`` for these. Blocks may be nested.
    """
    key = object()
    skippers[key] = None
    try:
        yield
    finally:
        del skippers[key]
