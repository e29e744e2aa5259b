"""Where threads can be switched: in watched code, before what may touch what others know.

That is before a line, unless all that it does is to its own local variables; and in the middle of
one before a store, if the line has read what others may have changed (``self.count += 1``), and
before each call or ``with`` but the first (``with first, second:``).
"""

from __future__ import annotations

import dis
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    Visit = Callable[[CodeType, int], None]
    Patch = tuple[Any, str, Any]

_TOUCHING = (
    *("BEFORE_WITH", "BINARY_OP", "BINARY_SL", "BINARY_SUBSCR", "CALL", "COMPARE", "CONTAINS"),
    *(
        "DELETE_A",
        "DELETE_D",
        "DELETE_G",
        "DELETE_S",
        "FOR_ITER",
        "LIST_EXTEND",
        "LOAD_ATTR",
        "LOAD_METHOD",
    ),
    *("LOAD_DEREF", "POP_JUMP", "SEND", "STORE_ATTR", "STORE_DEREF", "STORE_G", "STORE_S"),
    *("TO_BOOL", "UNARY_NOT", "UNPACK", "YIELD"),
)
"""How the names of instructions begin that may touch an object that other threads know."""

_STORING = ("DELETE_A", "DELETE_S", "STORE_ATTR", "STORE_DEREF", "STORE_G", "STORE_S")
_READING = ("BINARY_SL", "BINARY_SUBSCR", "CALL", "LOAD_ATTR", "LOAD_METHOD")
_CALLING = ("BEFORE_WITH", "CALL")


def points_of(code: CodeType) -> dict[int, int]:
    """Return the line of each place, by the offset of the instruction after it.

    For a place in the middle of a line it is less than 0.
    """
    points: dict[int, int] = {}
    line, first, read, calls, touched = -1, 0, set[str](), 0, False
    for each in dis.get_instructions(code):
        position = each.positions.lineno if each.positions else None
        if position is not None and position != line:
            line, first, read, calls, touched = position, each.offset, set(), 0, False
        if each.opname in {"LOAD_GLOBAL", "LOAD_DEREF"}:
            read.add(str(each.argval))
        if not each.opname.startswith(_TOUCHING):
            continue
        if not touched:
            points[first] = line
            touched = True
        if each.opname.startswith(_CALLING):
            calls += 1
        stores = each.opname.startswith(_STORING) and ("" in read or each.argval in read)
        if stores or (calls > 1 and each.opname.startswith(_CALLING)):
            points.setdefault(each.offset, -line)
        if each.opname.startswith(_READING):
            read.add("")  # no variable, but an object
    return points


class Points:
    """The places of all watched code.

    Attributes:
        visit: Called in whatever thread comes to a place, with the code and the offset.
    """

    def __init__(self, watched: Callable[[str], bool], visit: Visit) -> None:
        self.visit: Visit = visit
        self._watched = watched
        self._points: dict[CodeType, dict[int, int]] = {}

    def of(self, code: CodeType) -> dict[int, int]:
        """Return the places in some code, as ``points_of()`` does."""
        found = self._points.get(code)
        if found is None:
            found = points_of(code) if self._watched(code.co_filename) else {}
            self._points[code] = found
        return found

    @contextmanager
    def reported(self) -> Iterator[list[Patch]]:
        """Have ``visit`` called inside the block; yields what has to be patched for it."""
        if sys.version_info < (3, 12):
            yield [(threading, "_trace_hook", self._enter)]
        else:
            with self._monitored():
                yield []

    if sys.version_info >= (3, 12):

        @contextmanager
        def _monitored(self) -> Iterator[None]:
            monitoring = sys.monitoring
            events = monitoring.events
            tool = next(each for each in (4, 3, 0, 2, 5, 1) if not monitoring.get_tool(each))
            watched: list[CodeType] = []

            def begin(code: CodeType, _: int) -> object:
                if self.of(code):
                    watched.append(code)
                    monitoring.set_local_events(tool, code, events.INSTRUCTION)
                return monitoring.DISABLE

            def step(code: CodeType, offset: int) -> object:
                if offset not in self._points[code]:
                    return monitoring.DISABLE
                self.visit(code, offset)
                return None

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

    # CPython 3.11

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401, ARG002
        if not self.of(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401, ARG002
        if event == "opcode" and frame.f_lasti in self._points[frame.f_code]:
            self.visit(frame.f_code, frame.f_lasti)
        return self._step
