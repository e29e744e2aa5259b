"""Which process this is: a number that grows by one in every forked child.

Threads do not survive a fork, but what they left in memory does. Whoever stores "a thread will
see to this" stores the generation with it, and distrusts it when the number has moved on.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["after_fork", "generation"]

generation: int = 0


def after_fork(callback: Callable[[], object]) -> None:
    """Have ``callback()`` run in every child that this process forks."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=callback)


def _grow() -> None:
    global generation  # noqa: PLW0603 - the one counter this room exists for
    generation += 1


after_fork(_grow)
