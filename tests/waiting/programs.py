"""Functions as programs of few simple steps, the same for every version of CPython."""

from __future__ import annotations

import builtins
import dis
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.waiting.changes import instructions_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

SKIPPED = {
    *("CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "MAKE_CELL", "NOP", "NOT_TAKEN", "PRECALL"),
    "PUSH_NULL",
}
PLAIN = {
    "CHECK_EXC_MATCH": "match",
    "DELETE_SUBSCR": "delete_item",
    "POP_EXCEPT": "pop",
    "POP_TOP": "pop",
    "PUSH_EXC_INFO": "handle",
    "RERAISE": "reraise",
    "RETURN_VALUE": "return",
    "STORE_SUBSCR": "store_item",
    "BINARY_SUBSCR": "item",
    "TO_BOOL": "bool",
    "UNARY_NOT": "not",
}
WITH_ARGUMENT = {
    "BUILD_MAP": "map",
    "BUILD_TUPLE": "tuple",
    "CALL": "call",
    "CALL_KW": "call_kw",
    "CONTAINS_OP": "in",
    "COPY": "copy",
    "IS_OP": "is",
    "RAISE_VARARGS": "raise",
    "SWAP": "swap",
    "UNPACK_SEQUENCE": "unpack",
}
WITH_VALUE = {
    "COMPARE_OP": "compare",
    "JUMP_BACKWARD_NO_INTERRUPT": "jump",
    "JUMP_FORWARD": "jump",
    "LOAD_ATTR": "attribute",
    "LOAD_COMMON_CONSTANT": "constant",
    "LOAD_CONST": "constant",
    "LOAD_METHOD": "attribute",
    "LOAD_SMALL_INT": "constant",
    "LOAD_SUPER_ATTR": "super_attribute",
    "STORE_ATTR": "store_attribute",
}


class Step(NamedTuple):
    """One simple step.

    Attributes:
        handler: Where an exception goes: the step, the depth of the stack, and whether the place
            of the exception is kept on it; None: out of the function.
    """

    kind: str
    value: Any
    line: int | None
    handler: tuple[int, int, bool] | None


class Program:
    """A function of Python, step by step.

    A step of the kind "place" stands where CPython may run a signal handler or collect garbage: as
    a function is entered, before a jump back, and after a call of something written in C. (The
    machine skips it after a call of a function in Python.)
    """

    def __init__(self, function: FunctionType) -> None:
        code = function.__code__
        self.function = function
        self.variables = [*code.co_varnames]
        self.count = code.co_argcount + code.co_kwonlyargcount
        self.names: dict[str, Any] = {**vars(builtins), **function.__globals__}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.names[name] = cell.cell_contents
        rows: list[tuple[str, Any, dis.Instruction]] = []
        at: dict[int, int] = {}
        for instruction in instructions_of(code):
            at[instruction.offset] = len(rows)
            rows += ((kind, value, instruction) for kind, value in self._simple(instruction))
        table = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
        self.steps: list[Step] = []
        for kind, value, instruction in rows:
            found = (row for row in table if row.start <= instruction.offset < row.end)
            handler = next(((at[row.target], row.depth, row.lasti) for row in found), None)
            line = instruction.positions and instruction.positions.lineno
            to = at[value] if kind.startswith("jump") else value
            self.steps.append(Step(kind, to, line, handler))

    def _simple(self, instruction: dis.Instruction) -> Iterator[tuple[str, Any]]:
        name, value = instruction.opname, instruction.argval
        locals_ = iter(value if isinstance(value, tuple) else (value,))
        if "BACKWARD" in name and not name.endswith("NO_INTERRUPT"):
            yield "place", None
            if name == "JUMP_BACKWARD":
                yield "jump", value
        if name in SKIPPED or name == "JUMP_BACKWARD":
            return
        if name == "RESUME":
            yield "place", None
        elif name.startswith(("LOAD_FAST", "STORE_FAST")):
            for each in name.replace("_BORROW", "").replace("_CHECK", "").split("_FAST")[:-1]:
                yield each.strip("_").lower(), self.variables.index(next(locals_))
        elif name in {"LOAD_GLOBAL", "LOAD_DEREF"}:
            yield "constant", self.names[value]
        elif name == "RETURN_CONST":
            yield "constant", value
            yield "return", None
        elif name == "BINARY_OP":
            operator = instruction.argrepr.rstrip("=")
            yield ("item", None) if operator == "[]" else ("binary", operator)
        elif name.startswith("POP_JUMP"):
            condition = name.partition("_IF_")[2].lower()
            if condition in {"true", "false"} and sys.version_info < (3, 13):
                yield "bool", None
            yield f"jump_if_{condition}", value
        elif name.startswith("JUMP_IF"):
            yield "copy", 1
            yield "bool", None
            yield f"jump_if_{name.split('_')[2].lower()}", value
            yield "pop", None
        elif name == "KW_NAMES":
            yield "constant", self.function.__code__.co_consts[instruction.arg or 0]
            self._names_given = True
        elif name == "CALL" and self.__dict__.pop("_names_given", False):
            yield "call_kw", instruction.arg
            yield "place", None
        elif name in PLAIN:
            yield PLAIN[name], None
        elif name in WITH_ARGUMENT:
            yield WITH_ARGUMENT[name], instruction.arg
            if name.startswith("CALL"):
                yield "place", None
        else:
            yield WITH_VALUE.get(name, "unknown"), value  # of no use to what the models run
