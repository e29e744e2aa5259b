"""A signal handler that raises as a wait goes round again: what is to be undone is undone.

CPython runs handlers where a loop jumps back. From 3.12 to 3.14 the compiler leaves that place out
of the ``try`` around some loops; it depends on the shape of the loop.
"""

from __future__ import annotations

import dis
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import AsyncTicker, Channel
from backoff_ticker.channels._select import _wait_async, block_on
from backoff_ticker.waiting import park_coroutine, park_thread

if TYPE_CHECKING:
    from collections.abc import Callable

WAITS = [
    park_thread,
    park_coroutine,
    Channel.send,
    Channel.send_async,
    Channel.receive,
    Channel.receive_async,
    block_on,
    _wait_async,
]


def unprotected_jumps(function: Callable[..., Any]) -> list[int]:
    """Return the offsets of jumps back at which an exception goes past all handlers."""
    code: Any = function.__code__
    protected = [
        range(entry.start, entry.end)
        for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
    ]
    return [
        each.offset
        for before, each in pairwise(dis.get_instructions(code))
        if each.opname.startswith("JUMP_BACKWARD")
        and "NO_INTERRUPT" not in each.opname
        # 3.12: where an await ends, or an except clause, not the loop
        and before.opname not in {"CLEANUP_THROW", "POP_EXCEPT"}
        and not any(each.offset in offsets for offsets in protected)
    ]


@pytest.mark.parametrize("function", WAITS, ids=lambda function: function.__qualname__)
def test_a_wait_that_goes_round_again_is_inside_of_its_try(function: Callable[..., Any]) -> None:
    assert unprotected_jumps(function) == []


def test_the_wait_of_a_ticker_is_inside_of_its_try() -> None:
    """Its outer loop needs no protection: nothing is registered where it jumps back."""
    assert len(unprotected_jumps(AsyncTicker.receive)) <= 1
