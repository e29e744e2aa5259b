"""Where the explorer of schedules may switch threads inside a function."""

from __future__ import annotations

import dis
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import backoff_ticker

if TYPE_CHECKING:
    from types import CodeType

    Grain = Literal["line", "call", "opcode"]

TOUCHING = (
    "BINARY_OP",
    "BINARY_SLICE",
    "BINARY_SUBSCR",
    "CALL",
    "COMPARE_OP",
    "CONTAINS_OP",
    "DELETE_ATTR",
    "DELETE_SUBSCR",
    "FOR_ITER",
    "GET_ITER",
    "LIST_EXTEND",
    "LOAD_ATTR",
    "POP_JUMP_BACKWARD_IF_FALSE",
    "POP_JUMP_BACKWARD_IF_TRUE",
    "POP_JUMP_FORWARD_IF_FALSE",
    "POP_JUMP_FORWARD_IF_TRUE",
    "STORE_ATTR",
    "STORE_SLICE",
    "STORE_SUBSCR",
    "TO_BOOL",
    "UNARY_NOT",
    "UNPACK_SEQUENCE",
)
"""Instructions that may read or change an object that other threads know."""

YIELDING = ("CALL", "RESUME")
"""Instructions after which CPython may give its lock away."""

ASIDE = {
    "__init__",
    "_announce",
    "_errors",
    "_process",
    "_protocol",
    "_sentinels",
    "_unraisable",
    "_validation",
}
"""Rooms in which nothing is shared."""

PACKAGE_FILES = frozenset(
    str(path)
    for path in Path(backoff_ticker.__file__).parent.rglob("*.py")
    if path.stem not in ASIDE
)


def switch_points(code: CodeType, grain: Grain) -> frozenset[int]:
    """Return the lines, or the offsets of the instructions, before which a switch is possible."""
    instructions = list(dis.get_instructions(code))
    if grain == "call":
        after = {then.offset for one, then in pairwise(instructions) if _is(one, YIELDING)}
        loops = {each.argval for each in instructions if each.opname.startswith("JUMP_BACKWARD")}
        return frozenset(after | loops)
    touching = [each for each in instructions if _is(each, TOUCHING)]
    if grain == "opcode":
        return frozenset(each.offset for each in touching)
    return frozenset(each.positions.lineno for each in touching if each.positions)  # type: ignore[misc]


def _is(instruction: dis.Instruction, names: tuple[str, ...]) -> bool:
    return instruction.opname.startswith(names)
