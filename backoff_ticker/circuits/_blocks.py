"""Which ``with`` block of a circuit breaker is left here: a context variable of the breaker knows.

The variable has the innermost block that is open in a context (that of a thread or a task). The
token with which it was set puts back the block around that one, and only in the context in which it
was set: so a task, which begins with a copy, leaves no block of the task that has started it.

A block may be left where it was not entered, as a fixture or a generator may be closed in another
task. Then it may be any open block of the breaker. If they all have the same ticket, it is that of
the block. If not, the block counts for nothing, and the newest is forgotten: so no call of the past
counts as one of the present.
"""

from __future__ import annotations

from ._states import CircuitTicket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token
    from typing import Any


class Block:
    """A ``with`` block that is open."""

    __slots__ = ("ticket", "token")

    ticket: CircuitTicket
    token: Token[Any] | None  # absent: it was not entered; None: it was left


def left_elsewhere(breaker: object, blocks: dict[Block, None]) -> Block:
    """Return a block for one that is left where it was not entered, of all that are open."""
    candidates = [*blocks]
    if not candidates:
        raise RuntimeError(f"{breaker!r} was left, but not entered") from None
    block = candidates[-1]
    if len({each.ticket for each in candidates}) > 1:
        forget_newest(blocks)
        block = Block()
        block.ticket = CircuitTicket()
    elif blocks.pop(block, blocks) is blocks:
        forget_newest(blocks)  # another thread was faster
    block.token = None
    return block


def forget_newest(blocks: dict[Block, None]) -> None:
    """Forget the newest block, as the one that is left was forgotten for another one."""
    try:
        blocks.popitem()
    except KeyError:
        pass  # after an interrupt
