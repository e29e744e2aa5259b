"""``Exit``: an ``__exit__`` that does its work though a signal handler raises as it is entered."""

from __future__ import annotations

from functools import partial
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Exit:
    """``__exit__`` of a class, by its ``_leave()``; each ``with`` statement gets an object for it.

    If ``_leave()`` cannot run, the statement drops that object, which nobody else has. Then the
    weak reference to it, the *guard*, calls ``_leave_statement(guard)``. It does so only if
    ``__enter__`` has taken the guard out of ``_cells``, and as long as the block keeps it.
    """

    def __get__(self, block: Any, owner: Any) -> Callable[..., None]:  # noqa: ANN401 - any class
        if block is None:  # ExitStack asks the class
            return owner._leave  # type: ignore[no-any-return]
        leave = partial(block._leave)  # CPython drops a bound method before it enters the function
        block._cells["guard"] = ref(leave, block._leave_statement)
        return leave
