"""Forks and pickling: which process this is, and objects that belong to their process.

Threads do not survive a fork, but what they left in memory does. Code that notes "a thread will
do this" therefore notes the generation too, and ignores the note once the generation has changed.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ClassVar, NoReturn, Self

generation: int = 0
"""Incremented in each forked child. Read it as ``_process.generation``, since it changes."""


def after_fork(callback: Callable[[], object]) -> None:
    """Call ``callback()`` in every child that this process forks, where the system can fork."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=callback)


def _increment_generation() -> None:
    global generation  # noqa: PLW0603 - a counter of the process
    generation += 1


after_fork(_increment_generation)


class ProcessBound:
    """An object that others wait for: a copy is the object itself, and it cannot be pickled."""

    __slots__ = ()

    _kind: ClassVar[str]
    """Names the object in error messages, with an article."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self._kind} belongs to its process and cannot be pickled")
