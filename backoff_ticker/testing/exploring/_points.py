"""Where threads can be switched: in watched code, before what may touch what others know.

That is before a line, unless all that it does is to its own local variables; and in the middle of
one before a store, if the line has read what others may have changed (``self.count += 1``), and
before each call or ``with`` but the first (``with first, second:``). A loop or comprehension
without any inside has one before each turn but the first.
"""

from __future__ import annotations

import ast
import dis
import linecache
import sys
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

_TOUCHING = (
    *("BEFORE_WITH", "BINARY_OP", "BINARY_SL", "BINARY_SUBSCR", "CALL", "COMPARE", "CONTAINS"),
    *("CONVERT", "DELETE_A", "DELETE_D", "DELETE_G", "DELETE_S", "DICT_", "FOR_ITER", "FORMAT"),
    *("LIST_EXTEND", "LOAD_ATTR", "LOAD_DEREF", "LOAD_METHOD", "MATCH", "POP_JUMP", "SEND"),
    *("SET_UPDATE", "STORE_ATTR", "STORE_DEREF", "STORE_G", "STORE_S", "TO_BOOL", "UNARY_NOT"),
    *("UNPACK", "YIELD"),
)
"""How the names of instructions begin that may touch an object that other threads know."""

_STORING = ("DELETE_A", "DELETE_S", "STORE_ATTR", "STORE_DEREF", "STORE_G", "STORE_S")
_READING = ("BINARY_SL", "BINARY_SUBSCR", "CALL", "LOAD_ATTR", "LOAD_METHOD")
_CALLING = ("BEFORE_WITH", "CALL")


@cache
def _global_names(file: str) -> frozenset[str]:
    """Return the global variables that functions of the file set."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # not Python's, as that of a template
        return frozenset()
    found = (statement for statement in ast.walk(tree) if isinstance(statement, ast.Global))
    return frozenset(name for statement in found for name in statement.names)


@cache
def points_of(code: CodeType, changing: frozenset[str]) -> dict[int, int]:
    """Return the line of each place, by the offset of the instruction after it.

    For a place in the middle of a line it is less than 0. ``changing`` are the global variables
    that functions of its file set; equal code of another file has places of its own.
    """
    points: dict[int, int] = {}
    line, first, read, calls, touched = -1, 0, set[str](), 0, False
    # Intrinsics call nothing; one ends a coroutine that an error leaves, after its last line.
    instructions = (step for step in dis.get_instructions(code) if "INTRINSIC" not in step.opname)
    for instruction in instructions:
        name, offset, value = instruction.opname, instruction.offset, instruction.argval
        if name == "RESUME" and not instruction.arg:
            line = -1  # what comes before is never reported
            continue
        position = instruction.positions.lineno if instruction.positions else None
        if position is not None and position != line:
            line, first, read, calls, touched = position, offset, set(), 0, False
        if name in {"LOAD_GLOBAL", "LOAD_DEREF"}:
            read.add(str(value))
        if name == "JUMP_BACKWARD" and max(points, default=-1) < value:
            points[offset] = -line
        changes = name == "LOAD_GLOBAL" and value in changing
        if not changes and not name.startswith(_TOUCHING):
            continue
        if not touched:
            points[first], touched = line, True
        calls += name.startswith(_CALLING)
        stores = name.startswith(_STORING) and ("" in read or value in read)
        if stores or (calls > 1 and name.startswith(_CALLING)):
            points.setdefault(offset, -line)
        if name.startswith(_READING) or instruction.argrepr == "[]":  # an operator since 3.14
            read.add("")  # no variable, but an object
    return points


class Points:
    """The places of all watched code."""

    def __init__(self, watched: Callable[[str], bool], visit: Callable[[str, int], object]) -> None:
        self.watched: Callable[[str], bool] = watched
        self._visit = visit
        self._points: dict[int, tuple[dict[int, int], CodeType]] = {}  # by the id of the code
        own = sys.version_info < (3, 12)
        self.patches: list[Any] = [(threading, "_trace_hook", lambda _: self._enter)] if own else []

    def _of(self, code: CodeType) -> dict[int, int]:
        if id(code) not in self._points:
            file = code.co_filename
            points = points_of(code, _global_names(file)) if self.watched(file) else {}
            self._points[id(code)] = points, code
        return self._points[id(code)][0]

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Have ``visit`` called inside the block, in whatever thread comes to a place."""
        if sys.version_info < (3, 12):
            yield  # threads that begin with the patches trace themselves
            return
        monitoring = sys.monitoring
        events = monitoring.events
        names = {number: monitoring.get_tool(number) for number in (4, 3, 0, 2, 5, 1)}
        tool = next((number for number, name in names.items() if not name), None)
        if tool is None:
            raise RuntimeError(f"no tool of sys.monitoring is free: {[*names.values()]}")
        watched: list[CodeType] = []

        def begin(code: CodeType, _: int) -> object:
            if self._of(code):
                watched.append(code)
                monitoring.set_local_events(tool, code, events.INSTRUCTION)
            return monitoring.DISABLE

        def step(code: CodeType, offset: int) -> object:
            line = self._points[id(code)][0].get(offset)
            return monitoring.DISABLE if line is None else self._visit(code.co_filename, line)

        monitoring.use_tool_id(tool, "backoff_ticker.testing.explore")
        try:
            monitoring.register_callback(tool, events.PY_START, begin)
            monitoring.register_callback(tool, events.INSTRUCTION, step)
            monitoring.restart_events()
            monitoring.set_events(tool, events.PY_START)
            yield
        finally:
            monitoring.set_events(tool, 0)
            for code in watched:
                monitoring.set_local_events(tool, code, 0)
            for event in (events.PY_START, events.INSTRUCTION):
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)
            # In CPython 3.13 and later, sys.settrace() no longer sees the instructions of code
            # in which another tool did: until this.
            monitoring.restart_events()

    def _enter(self, frame: FrameType, *_: object) -> Any:
        if not self._of(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, _: object) -> Any:
        line = self._points[id(frame.f_code)][0].get(frame.f_lasti)
        if event == "opcode" and line is not None:
            self._visit(frame.f_code.co_filename, line)
        return self._step
