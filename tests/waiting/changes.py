"""Reads the byte code of functions, and tells where a change breaks the rule of ``_claim``."""

from __future__ import annotations

import dis
import importlib
import inspect
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.stress.places import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType

QUIET = (
    *("CACHE", "COPY", "EXTENDED_ARG", "IS_OP", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD"),
    *("LOAD_COMMON_CONSTANT", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_GLOBAL"),
    *("LOAD_SMALL_INT", "NOP", "NOT_TAKEN", "POP_EXCEPT", "POP_TOP", "PUSH_EXC_INFO"),
    *("PUSH_NULL", "STORE_FAST", "SWAP"),
)
"""How the names of instructions begin that a change may have, and that never raise."""

ALLOWED = (
    *("BINARY_OP", "BINARY_SUBSCR", "CHECK_EXC_MATCH", "COMPARE_OP", "CONTAINS_OP"),
    *("DELETE_SUBSCR", "JUMP_IF_", "LOAD_ATTR", "POP_JUMP_FORWARD", "POP_JUMP_IF"),
    *("RERAISE", "STORE_ATTR", "STORE_SUBSCR", "TO_BOOL"),
    *("UNARY_NEGATIVE", "UNARY_NOT", "UNPACK_SEQUENCE"),
)
"""The same for instructions that may raise. Whatever is not in the two lists is refused."""

NUMBERS = ("wanted", "_units")
"""Variables and attributes that are numbers: those of a budget."""

ENDS = ("RAISE_VARARGS", "RERAISE", "RETURN_CONST", "RETURN_VALUE")


def package_readings() -> Iterator[Reading]:
    """Read each function of the package that takes or releases claims."""
    importlib.import_module("backoff_ticker.schedules._keys")  # for the slots of its classes
    for name, code in package_codes():
        names = {"FREE", "FREED", "acquire"}
        if names & {*code.co_names}:
            steps = {(each.opname, each.argval) for each in dis.get_instructions(code)}
            if steps & {("LOAD_GLOBAL", name) for name in names}:
                yield Reading(code, vars(importlib.import_module(name)))


def package_codes() -> Iterator[tuple[str, CodeType]]:
    """Return the functions of the package, each with the name of its module."""
    for path in sorted(Path(PACKAGE).rglob("*.py")):
        module = compile(path.read_text("utf-8"), str(path), "exec")
        name = ".".join(path.relative_to(Path(PACKAGE).parent).with_suffix("").parts)
        for code in codes_in(module):
            yield name, code


def faults_of_second_readings() -> Iterator[str]:
    """Return where a change reads twice what its folder stores without the claim."""
    readings = {(each.names["__name__"], each.code): each for each in package_readings()}
    stored: dict[str, set[str]] = {}
    for name, code in package_codes():
        reading = readings.get((name, code)) or Reading(code, {})
        stored.setdefault(name.rpartition(".")[0], set()).update(reading.stored_outside())
    for (name, _), reading in readings.items():
        yield from reading.read_twice(stored[name.rpartition(".")[0]])


def instructions_of(code: CodeType) -> Iterator[dis.Instruction]:
    """Return the instructions of a function, as they run.

    CPython 3.12 has ``except`` clauses at the end of a function, and jumps back from them, where it
    looks for signals. Such a clause is for what another thread has done since the step before. So
    that place is never reached: there is no 3.12 without the lock; with it nobody comes between.
    """
    before = ""
    for each in dis.get_instructions(code):
        if before == "POP_EXCEPT" and each.opname == "JUMP_BACKWARD":
            yield each._replace(opname="JUMP_BACKWARD_NO_INTERRUPT")
        else:
            yield each
        if each.opname != "EXTENDED_ARG":
            before = each.opname


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def subclasses(cls: type) -> Iterator[type]:
    yield cls
    for each in type.__subclasses__(cls):
        yield from subclasses(each)


def is_plain(attribute: object) -> bool:
    """Whether what a class says about an attribute lets it be loaded and stored without a call.

    A property of a function in C runs no Python, and CPython looks for signals after calls only.
    """
    if isinstance(attribute, property):
        functions = {attribute.fget, attribute.fset} - {None}
        return all(inspect.ismethoddescriptor(f) or inspect.isbuiltin(f) for f in functions)
    return inspect.ismemberdescriptor(attribute) or not (
        callable(attribute) or hasattr(type(attribute), "__get__")
    )


class Reading:
    """One function as its byte code tells it.

    Attributes:
        faults: Where it breaks the rule, each as a text.
        changes: How often it takes a claim.
    """

    def __init__(self, code: CodeType, names: Mapping[str, Any]) -> None:
        self.code = code
        self.names = names
        self.hands_over = code.co_qualname == "acquire"  # which always returns with the claim
        self.faults: list[str] = []
        self.changes = 0
        self.steps: list[dis.Instruction] = []
        self.at: dict[int, int] = {}  # the index of the step at an offset
        for each in instructions_of(code):
            self.at[each.offset] = len(self.steps)
            if each.opname != "EXTENDED_ARG":
                self.steps.append(each)
        table = dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
        self.handlers = [
            next((row.target for row in table if row.start <= each.offset < row.end), None)
            for each in self.steps
        ]
        self._mark()
        self._walk()

    # What others may change without the claim

    def stored_outside(self) -> Iterator[str]:
        """Return the attributes that the function stores while it holds no claim.

        Not those of an object that it makes: in ``__init__()``, nobody else has it yet.
        """
        if self.code.co_name != "__init__":
            for index, step in enumerate(self.steps):
                if step.opname == "STORE_ATTR" and index not in self.inside:
                    yield step.argval

    def read_twice(self, shared: set[str]) -> Iterator[str]:
        """Return where a change reads one of ``shared`` a second time, as it may differ by then."""
        for start in self.takes:
            seen: set[tuple[int, frozenset[str]]] = set()
            todo: list[tuple[int, frozenset[str]]] = [(start, frozenset())]
            while todo:
                here = todo.pop()
                if here in seen:
                    continue
                seen.add(here)
                index, known = here
                step = self.steps[index]
                if index in self.inside and step.argval in shared:
                    name = f"{self._loaded(index - 1)}.{step.argval}"
                    if step.opname.startswith("LOAD_ATTR"):
                        if name in known:
                            yield self._told(index, f"reads {name} a second time")
                        known |= {name}
                    elif step.opname == "STORE_ATTR":
                        known -= {name}
                todo += [
                    (then, known) for then in self.follow.get(index, ()) if then in self.inside
                ]

    # What the steps mean

    def _mark(self) -> None:
        """Find the steps that take a claim, and those that release one; note for which local."""
        self.takes: dict[int, str] = {}
        self.releases: dict[int, str] = {}
        kinds = {"FREE": ("DELETE_SUBSCR", self.takes), "FREED": ("BINARY_OP", self.releases)}
        for index, step in enumerate(self.steps):
            if step.opname == "LOAD_GLOBAL" and step.argval in kinds:
                opname, kind = kinds[step.argval]
                if self.steps[index + 1].opname != opname:
                    text = f"uses {step.argval} for something else than to take or release"
                    self._fault(index, text)
                kind[index + 1] = self._local(index - 1)
            elif step.opname == "LOAD_GLOBAL" and step.argval == "acquire":
                call = index + 2 + (self.steps[index + 2].opname == "PRECALL")  # CPython 3.11
                if self.steps[call].opname == "CALL":
                    self.takes[call] = self._local(index + 1)
                else:
                    self._fault(index, "uses acquire for something else than a call with a local")
        self.changes = len(self.takes)

    def _local(self, index: int) -> str:
        name = self._loaded(index)
        if not name:
            self._fault(index, "takes or releases a claim that is not in a local variable")
        return name

    def _loaded(self, index: int) -> str:
        """Return the name of the local that a step has loaded last, if any."""
        step = self.steps[index]
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        return names[-1] if "LOAD_FAST" in step.opname else ""

    def _told(self, index: int, text: str) -> str:
        step = self.steps[index]
        line = step.positions.lineno if step.positions else None
        return f"{self.code.co_qualname}, line {line}, {step.opname}: {text}"

    def _fault(self, index: int, text: str) -> None:
        told = self._told(index, text)
        if told not in self.faults:
            self.faults.append(told)

    # The paths

    def _walk(self) -> None:
        """Follow each path of control, with the name of the local whose claim is held, or None."""
        self.inside: set[int] = set()  # the steps with a claim
        self.follow: dict[int, set[int]] = {}  # which steps may come after one
        seen: set[tuple[int, str | None]] = set()
        todo: list[tuple[int, str | None]] = [(0, None)]
        while todo:
            here = todo.pop()
            if here not in seen:
                seen.add(here)
                if here[1] is not None:
                    self.inside.add(here[0])
                after = [*self._from(*here)]
                self.follow.setdefault(here[0], set()).update(index for index, _ in after)
                todo += after

    def _from(self, index: int, held: str | None) -> Iterator[tuple[int, str | None]]:
        step = self.steps[index]
        name = step.opname
        after = held
        if index in self.takes:
            if held is not None:
                self._fault(index, "takes a claim inside another")
            after = self.takes[index]
        elif index in self.releases:
            if held != self.releases[index]:
                self._fault(index, "releases a claim that it does not hold")
            held = after = None
        elif held is not None:
            self._check(index, held)
        if name.startswith("RETURN_") and name in ENDS and (held is not None) != self.hands_over:
            self._fault(index, f"returns with{'' if held else 'out'} the claim")
        if step.opcode in dis.hasjrel:
            yield self.at[step.argval], after
        if not name.startswith(("JUMP_FORWARD", "JUMP_BACKWARD")) and name not in ENDS:
            yield index + 1, after
        if not name.startswith((*QUIET, "RETURN_")):
            target = self.handlers[index]
            if target is not None:
                yield self.at[target], held
            elif held is not None:
                self._fault(index, "may raise, and then nothing releases the claim")

    def _check(self, index: int, held: str) -> None:
        step = self.steps[index]
        name = step.opname
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if name.startswith("STORE_FAST") and held in names[: 1 if "LOAD" in name else 2]:
            self._fault(index, "changes the variable of the claim")
        if not name.startswith((*QUIET, *ALLOWED, "RETURN_")):
            self._fault(index, "may be or begin a call")
        elif name.startswith(("LOAD_ATTR", "STORE_ATTR")) and not self._is_plain(index):
            self._fault(index, f"{step.argval} is no slot")
        elif name == "BINARY_OP" and not self._counts(index):
            self._fault(index, "adds something that may be no number")

    def _counts(self, index: int) -> bool:
        """Whether an operator takes an item, or adds or subtracts what is certainly a number.

        With anything else it may be a call, or make a container, as ``+=`` of a deque does.
        """
        step, before = self.steps[index], self.steps[index - 1]
        is_number = type(before.argval) is int and before.opname.startswith("LOAD_")
        is_number |= self._loaded(index - 1) in NUMBERS or before.argval in NUMBERS
        return step.argrepr == "[]" or (step.argrepr.rstrip("=") in {"+", "-"} and is_number)

    def _is_plain(self, index: int) -> bool:
        """Whether an attribute is a slot, or an entry of a ``__dict__`` that hides nothing."""
        step, before = self.steps[index], self.steps[index - 1]
        if before.opname == "LOAD_GLOBAL":
            return is_plain(inspect.getattr_static(self.names[before.argval], step.argval))
        is_own = self._loaded(index - 1 - (before.opname == "COPY")) == "self"
        owner = self.names.get(self.code.co_qualname.partition(".")[0]) if is_own else None
        package = self.names["__name__"].partition(".")[0]
        classes = classes_of(package) if owner is None else subclasses(owner)
        marker = object()
        found = [inspect.getattr_static(each, step.argval, marker) for each in classes]
        known = [is_plain(each) for each in found if each is not marker]
        if owner is None:
            return any(known)
        return all(known) and (bool(known) or owner.__dictoffset__ != 0)


def classes_of(package: str) -> Iterator[type]:
    for each in list(subclasses(object)):
        if str(each.__module__).partition(".")[0] == package:
            yield each
