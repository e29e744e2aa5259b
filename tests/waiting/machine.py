"""A machine that runs small programs of several threads, one step at a time, from any state.

Its states are tuples, so they can be compared, kept and gone on from: ``states`` visits all of
them. The objects that threads share are real ones at first; the machine keeps what is in them as
tuples.
"""

from __future__ import annotations

import inspect
import operator
from collections import deque
from functools import cache
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.waiting.programs import Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.waiting.programs import Step

    Call = tuple[FunctionType, tuple[Any, ...]]

UNSET = type("Unset", (), {})()
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}

program = cache(Program)


def park(bell: Any) -> None:
    """Stands for a wait: goes on as soon as ``bell.permit`` is set, and takes it."""


def give_way() -> None:
    """Stands for a call of something written in C that changes nothing."""


def take_out(values: dict[object, object], value: object) -> bool:  # type: ignore[empty-body]
    """Stands for a loop over a copy of a dict, with a pop of an entry that has ``value``."""


class Ref:
    """A shared object: where its content is, its class, and its attributes in order."""

    def __init__(self, number: int, kind: type) -> None:
        self.number = number
        self.kind = kind
        slots = [each.__dict__.get("__slots__", ()) for each in kind.__mro__]
        names = [name for each in slots for name in each if name != "__weakref__"]
        self.fields = {name: index for index, name in enumerate(names)}

    def __repr__(self) -> str:
        return f"<{self.number}>"


class Method(NamedTuple):
    function: Any
    owner: Ref


class Super(NamedTuple):
    after: type
    owner: Ref


class Handled(NamedTuple):
    """On the stack: the exception that is being handled."""

    error: type[BaseException]


class Frame(NamedTuple):
    program: Program
    at: int
    variables: tuple[Any, ...]
    stack: tuple[Any, ...]
    called_as: str  # "function", "constructor", or "handler", of which nothing is returned


class Thread(NamedTuple):
    """What a thread is about to do.

    Attributes:
        frames: The functions it is in; none once it has ended.
        outcome: What its body has returned, or the class of what it raised.
        handlers, interrupts, forks: How many may still come to it, at places where CPython lets
            them come.
    """

    frames: tuple[Frame, ...]
    outcome: Any
    handlers: int
    interrupts: int
    forks: int


def is_shared(kind: type) -> bool:
    """Whether threads may change objects of a class that was not made to hold others."""
    ours = kind.__module__.startswith(("tests.", "backoff_ticker."))
    return ours and (kind is Shared or hasattr(kind, "__slots__"))


class Heap:
    """What stands for the shared objects; their contents are in the states."""

    def __init__(self) -> None:
        self.contents: list[Any] = []
        self._known: dict[int, tuple[Ref, object]] = {}
        self._made: dict[tuple[int, type], Ref] = {}

    def take_in(self, value: Any) -> Any:
        """Return what stands for a value, and note what is in it."""
        if type(value) is tuple:
            return tuple(map(self.take_in, value))
        if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, deque):
            return Method(getattr(deque, value.__name__), self.take_in(value.__self__))
        if not isinstance(value, (dict, deque, list)) and not is_shared(type(value)):
            return value
        if id(value) not in self._known:
            ref = Ref(len(self.contents), type(value))
            self._known[id(value)] = ref, value
            self.contents.append(None)
            if isinstance(value, dict):
                content: Any = frozenset((key, self.take_in(each)) for key, each in value.items())
            elif isinstance(value, (deque, list)):
                content = tuple(map(self.take_in, value))
            else:
                if isinstance(value, Shared):
                    ref.fields = {name: index for index, name in enumerate(vars(value))}
                content = tuple(self.take_in(getattr(value, name, UNSET)) for name in ref.fields)
            self.contents[ref.number] = content
        return self._known[id(value)][0]

    def make(self, kind: type, contents: list[Any]) -> Ref:
        """Return what stands for a new object."""
        ref = self._made.setdefault((len(contents), kind), Ref(len(contents), kind))
        contents.append(frozenset() if kind is dict else (UNSET,) * len(ref.fields))
        return ref

    def give_out(self, value: Any, contents: tuple[Any, ...], made: dict[Ref, Any]) -> Any:
        """Return a value as a check of the outcome likes it: objects with attributes, and so on."""
        if type(value) is tuple:
            return tuple(self.give_out(each, contents, made) for each in value)
        if not isinstance(value, Ref):
            return value
        if value not in made:
            content = contents[value.number]
            if value.fields:
                made[value] = thing = Shared()
                for name, index in value.fields.items():
                    setattr(thing, name, self.give_out(content[index], contents, made))
            elif issubclass(value.kind, dict):
                made[value] = thing = {}
                thing |= {key: self.give_out(each, contents, made) for key, each in content}
            else:
                made[value] = thing = []
                thing += (self.give_out(each, contents, made) for each in content)
        return made[value]


class Shared:
    """An object of a model with any attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Raised(Exception):
    """A step of a program has raised ``error``."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error


OPERANDS = {
    **dict.fromkeys(["attribute", "store_attribute", "bool", "in"], 1),
    **dict.fromkeys(["item", "delete_item", "store_item", "binary"], 2),
}
"""How deep on the stack a step finds the object that it reads or changes."""


class Machine:
    """Runs one thread from one stop to the next.

    A thread stops before each step that reads or changes a shared object, and, as long as a
    handler, an interrupt or a fork may come to it, at each place. What it does in between
    concerns nobody else.

    Args:
        constant: Names of attributes that never change, so reading them is no stop.
        stubs: What stands for functions that have nothing to do with the model.
    """

    def __init__(self, heap: Heap, constant: set[str], stubs: dict[Any, Any]) -> None:
        self.heap = heap
        self.constant = constant
        self.stubs = stubs
        self._known: dict[Any, tuple[Thread, tuple[Any, ...]]] = {}

    def start(
        self, body: FunctionType, arguments: tuple[Any, ...], contents: list[Any], *budgets: int
    ) -> Thread:
        return self._go_on(Thread((self.frame(body, arguments),), None, *budgets), contents)

    def frame(
        self, function: FunctionType, arguments: tuple[Any, ...], called_as: str = "function"
    ) -> Frame:
        found = program(function)
        given = [*arguments, *(function.__defaults__ or ())[len(arguments) - found.count :]]
        unset = [UNSET] * (len(found.variables) - len(given))
        return Frame(found, 0, (*given, *unset), (), called_as)

    # What can happen next

    def is_at_place(self, thread: Thread) -> bool:
        frame = thread.frames[-1]
        return frame.program.steps[frame.at].kind == "place"

    def can_go_on(self, thread: Thread, contents: tuple[Any, ...]) -> bool:
        if not thread.frames:
            return False
        frame = thread.frames[-1]
        if frame.program.steps[frame.at].kind == "call" and frame.stack[-2:-1] == (park,):
            ref = frame.stack[-1]
            return contents[ref.number][ref.fields["permit"]] is True
        return True

    def go_on(self, thread: Thread, contents: tuple[Any, ...]) -> tuple[Thread, tuple[Any, ...]]:
        """Let a thread do its next step, and all that concerns nobody else."""
        found = self._known.get((thread, contents))
        if found is None:
            changed = [*contents]
            found = self._go_on(thread, changed, first=True), tuple(changed)
            self._known[thread, contents] = found
        return found

    def interrupted(self, thread: Thread, handler: Call, contents: tuple[Any, ...]) -> Thread:
        """Return a thread to which a handler has come; that runs before anything else."""
        frame = self.frame(*handler, called_as="handler")
        fewer = thread._replace(handlers=thread.handlers - 1, frames=(*thread.frames, frame))
        return self._go_on(fewer, [*contents])

    def raised(
        self, thread: Thread, error: type[BaseException], contents: tuple[Any, ...]
    ) -> Thread:
        """Return a thread in which an exception comes out of the place where it is."""
        fewer = thread._replace(interrupts=thread.interrupts - 1)
        return self._go_on(self._unwind(fewer, error, back=0), [*contents])

    # How it happens

    def _go_on(self, thread: Thread, contents: list[Any], *, first: bool = False) -> Thread:
        budget = thread.handlers or thread.interrupts or thread.forks
        while thread.frames:
            frame = thread.frames[-1]
            run = Run(self, frame, contents)
            try:
                while True:
                    step = frame.program.steps[run.at]
                    is_stop = bool(budget) if step.kind == "place" else run.touches(step)
                    if is_stop and not first:
                        return thread._replace(frames=(*thread.frames[:-1], run.frame()))
                    first = False
                    run.at += 1
                    if step.kind in {"call", "call_kw"}:
                        called = run.call(step)
                        if called is not None:
                            frames = (*thread.frames[:-1], run.frame(), called)
                            break
                    elif step.kind == "return":
                        return_to = thread.frames[:-1]
                        value = run.stack.pop()
                        if not return_to:
                            thread = thread._replace(outcome=value)
                        elif frame.called_as != "handler":
                            caller = return_to[-1]
                            # A place after a call is one only if that was a call of C.
                            skip = caller.program.steps[caller.at].kind == "place"
                            made = frame.called_as == "constructor"
                            stack = (*caller.stack, frame.variables[0] if made else value)
                            caller = caller._replace(at=caller.at + skip, stack=stack)
                            return_to = (*return_to[:-1], caller)
                        frames = return_to
                        break
                    elif step.kind == "attribute":
                        called = run.attribute(step.value)
                        if called is not None:
                            frames = (*thread.frames[:-1], run.frame(), called)
                            break
                    else:
                        DO[step.kind](run, step.value)
            except Raised as raised:
                thread = thread._replace(frames=(*thread.frames[:-1], run.frame()))
                thread = self._unwind(thread, raised.error, back=1)
            else:
                thread = thread._replace(frames=frames)
        return thread

    def _unwind(self, thread: Thread, error: type[BaseException], back: int) -> Thread:
        """Return a thread after an exception out of a step, which is so many steps back."""
        frames = [*thread.frames]
        while frames:
            frame = frames.pop()
            handler = frame.program.steps[frame.at - back].handler
            if handler is not None:
                to, depth, keeps = handler
                stack = (*frame.stack[:depth], *((frame.at,) if keeps else ()), error)
                return thread._replace(frames=(*frames, frame._replace(at=to, stack=stack)))
            back = (
                0 if frame.called_as == "handler" else 1
            )  # what it has interrupted, or what has called it
        return thread._replace(frames=(), outcome=error)


class Run:
    """A function while it goes on: its next step, its variables, its stack."""

    def __init__(self, machine: Machine, frame: Frame, contents: list[Any]) -> None:
        self.machine = machine
        self.heap = machine.heap
        self.was = frame
        self.at = frame.at
        self.variables = [*frame.variables]
        self.stack = [*frame.stack]
        self.contents = contents

    def frame(self) -> Frame:
        variables, stack = tuple(self.variables), tuple(self.stack)
        return self.was._replace(at=self.at, variables=variables, stack=stack)

    def touches(self, step: Step) -> bool:
        """Whether a step reads or changes what is shared, or waits."""
        if step.kind == "call":
            function = self.stack[-1 - step.value]
            return self.machine.stubs.get(function, function) in {park, take_out} or (
                isinstance(function, Method) and not isinstance(function.function, FunctionType)
            )
        depth = OPERANDS.get(step.kind)
        if depth is None or not isinstance(self.stack[-depth], Ref):
            return False
        if step.kind == "attribute":
            fields = self.stack[-1].fields
            return step.value not in self.machine.constant and (step.value in fields or not fields)
        return step.kind != "bool" or not self.stack[-1].fields

    # Calls

    def call(self, step: Step) -> Frame | None:
        """Call what is on the stack; return its frame if it is a function of Python."""
        names = self.stack.pop() if step.kind == "call_kw" else ()
        arguments = [self.stack.pop() for _ in range(step.value)][::-1]
        function = self.stack.pop()
        if isinstance(function, Method):
            arguments.insert(0, function.owner)
            function = function.function
        function = self.machine.stubs.get(function, function)
        if function is super:
            function = Super(self.was.program.names["__class__"], self.variables[0])
            self.stack.append(function)
        elif isinstance(function, type) and issubclass(function, BaseException):
            self.stack.append(function)
        elif function is give_way:
            self.stack.append(None)
        elif isinstance(function, type) and (function is object or issubclass(function, deque)):
            self.stack.append(self.heap.make(function, self.contents))
        elif function is id:
            self.stack.append(arguments[0])
        elif isinstance(function, type) and is_shared(function):
            ref = self.heap.make(function, self.contents)
            return self.machine.frame(function.__init__, (ref, *arguments), "constructor")
        elif function is park:
            self._store(arguments[0], "permit", False)
            self.stack.append(None)
        elif function is take_out:
            self.stack.append(self._take_out(*arguments))
        elif isinstance(function, FunctionType):
            positional = len(arguments) - len(names)
            program_ = program(function)
            values = dict(zip(program_.variables, arguments[:positional], strict=False))
            values |= dict(zip(names, arguments[positional:], strict=True))
            wanted = program_.variables[len(values) : program_.count]
            defaults = (function.__defaults__ or ())[-len(wanted) :] if wanted else ()
            values |= dict(zip(wanted, defaults, strict=True))
            given = tuple(values[name] for name in program_.variables[: program_.count])
            return self.machine.frame(function, given)
        else:
            self.stack.append(self._call_c(function.__name__, *arguments))
        return None

    def _call_c(self, name: str, owner: Ref, *arguments: Any) -> Any:
        content = self.contents[owner.number]
        if name == "append":
            content = (*content, *arguments)
        elif name == "appendleft":
            content = (*arguments, *content)
        elif name == "popleft":
            if not content:
                raise Raised(IndexError)
            arguments, content = content[:1], content[1:]
        elif name == "count":
            return content.count(*arguments)
        elif name == "get":
            return dict(content).get(*arguments)
        else:
            raise NotImplementedError(name)
        self.contents[owner.number] = content
        return arguments[0] if name == "popleft" else None

    def _take_out(self, values: Ref, value: Any) -> bool:
        content = self.contents[values.number]
        found = [entry for entry in content if entry[1] == value]
        self.contents[values.number] = content - {*found[:1]}
        return bool(found)

    def attribute(self, name: str) -> Frame | None:
        owner = self.stack.pop()
        if isinstance(owner, Super):
            mro = owner.owner.kind.__mro__
            after = mro[mro.index(owner.after) + 1 :]
            found = next(vars(each)[name] for each in after if name in vars(each))
            self.stack.append(Method(found, owner.owner))
            return None
        if not isinstance(owner, Ref):
            assert isinstance(owner, (ModuleType, type)), f"{owner!r}.{name}"
            self.stack.append(getattr(owner, name))
            return None
        index = owner.fields.get(name)
        if index is not None:
            self.stack.append(self.contents[owner.number][index])
            return None
        found = inspect.getattr_static(owner.kind, name)
        if isinstance(found, property):
            if isinstance(found.fget, FunctionType):
                return self.machine.frame(found.fget, (owner,))
            found = self._call_c(found.fget.__name__, owner)  # type: ignore[union-attr]
        elif isinstance(found, (FunctionType, MethodDescriptorType, BuiltinFunctionType)):
            found = Method(found, owner)
        self.stack.append(found)
        return None

    def do_super_attribute(self, name: str) -> None:
        owner, after, _ = (self.stack.pop() for _ in range(3))
        self.stack.append(Super(after, owner))
        self.attribute(name)

    # Steps

    def do_load(self, index: int) -> None:
        self.stack.append(self.variables[index])

    def do_store(self, index: int) -> None:
        self.variables[index] = self.stack.pop()

    def do_constant(self, value: Any) -> None:
        self.stack.append(value)

    def do_place(self, _: None) -> None:
        pass

    def do_store_attribute(self, name: str) -> None:
        owner, value = self.stack.pop(), self.stack.pop()
        if name in owner.fields:
            self._store(owner, name, value)
        else:
            found = inspect.getattr_static(owner.kind, name)
            self._call_c(found.fset.__name__, owner, value)

    def _store(self, owner: Ref, name: str, value: Any) -> None:
        content = [*self.contents[owner.number]]
        content[owner.fields[name]] = value
        self.contents[owner.number] = tuple(content)

    def do_item(self, _: None) -> None:
        key, owner = self.stack.pop(), self.stack.pop()
        content = self.contents[owner.number] if isinstance(owner, Ref) else owner
        try:
            found = dict(content)[key] if isinstance(content, frozenset) else content[key]
        except (IndexError, KeyError) as error:
            raise Raised(type(error)) from None
        self.stack.append(found)

    def do_store_item(self, _: None) -> None:
        key, owner, value = (self.stack.pop() for _ in range(3))
        content = {**dict(self.contents[owner.number]), key: value}
        self.contents[owner.number] = frozenset(content.items())

    def do_delete_item(self, _: None) -> None:
        key, owner = self.stack.pop(), self.stack.pop()
        content = self.contents[owner.number]
        if isinstance(content, frozenset):
            kept: Any = frozenset(each for each in content if each[0] != key)
        else:
            kept = (*content[:key], *content[key + 1 :])
        if len(kept) == len(content):
            raise Raised(KeyError)
        self.contents[owner.number] = kept

    def _truth(self, value: Any) -> bool:
        if isinstance(value, Ref) and not value.fields:
            return bool(self.contents[value.number])
        return bool(value)

    def do_bool(self, _: None) -> None:
        self.stack.append(self._truth(self.stack.pop()))

    def do_not(self, _: None) -> None:
        self.stack.append(not self._truth(self.stack.pop()))

    def do_is(self, inverted: int) -> None:
        self.stack.append((self.stack.pop() is self.stack.pop()) != bool(inverted))

    def do_in(self, inverted: int) -> None:
        owner, key = self.stack.pop(), self.stack.pop()
        content = self.contents[owner.number]
        found = key in (dict(content) if isinstance(content, frozenset) else content)
        self.stack.append(found != bool(inverted))

    def do_binary(self, name: str) -> None:
        right, left = self.stack.pop(), self.stack.pop()
        if isinstance(left, Ref):  # deque += list
            self.contents[left.number] += self.contents[right.number]
            self.stack.append(left)
        else:
            self.stack.append(OPERATORS[name](left, right))

    do_compare = do_binary

    def do_tuple(self, count: int) -> None:
        self.stack.append(tuple([self.stack.pop() for _ in range(count)][::-1]))

    def do_map(self, _: None) -> None:
        self.stack.append(self.heap.make(dict, self.contents))

    def do_unpack(self, _: int) -> None:
        self.stack += reversed(self.stack.pop())

    def do_pop(self, _: None) -> None:
        self.stack.pop()

    def do_copy(self, depth: int) -> None:
        self.stack.append(self.stack[-depth])

    def do_swap(self, depth: int) -> None:
        self.stack[-1], self.stack[-depth] = self.stack[-depth], self.stack[-1]

    # Jumps

    def do_jump(self, to: int) -> None:
        self.at = to

    def do_jump_if_true(self, to: int) -> None:
        self.at = to if self.stack.pop() else self.at

    def do_jump_if_false(self, to: int) -> None:
        self.at = self.at if self.stack.pop() else to

    def do_jump_if_none(self, to: int) -> None:
        self.at = to if self.stack.pop() is None else self.at

    def do_jump_if_not_none(self, to: int) -> None:
        self.at = self.at if self.stack.pop() is None else to

    # Exceptions, of which only the class is known

    def do_raise(self, count: int) -> None:
        if count:
            raise Raised(self.stack.pop())
        handled = [each for each in self.stack if isinstance(each, Handled)]
        raise Raised(handled[-1].error)

    def do_reraise(self, _: None) -> None:
        raise Raised(self.stack.pop())

    def do_handle(self, _: None) -> None:
        error = self.stack.pop()
        self.stack += (Handled(error), error)

    def do_match(self, _: None) -> None:
        self.stack.append(issubclass(self.stack[-2], self.stack.pop()))


DO = {name.removeprefix("do_"): each for name, each in vars(Run).items() if name[:3] == "do_"}
