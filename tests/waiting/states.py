"""Visits every state that a few threads can reach, whatever comes between their steps.

A model says what they do, and to whom a signal handler, an interrupt or a fork may come. At each
place where CPython lets them come they do, and they do not: both are gone on from. What is wrong in
any state is told with the steps that lead there.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from backoff_ticker.waiting import FREE
from tests.waiting.machine import Heap, Machine, Thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FunctionType

MOST = 1_000_000
"""States after which a model is too large."""


class Gone(NamedTuple):
    """The outcome of a thread that does not exist in a forked child."""

    in_a_change: bool


class Interrupt(BaseException):
    """What an interrupt raises."""


class Fault(AssertionError):
    """A state that must not be; the message tells the way there."""


@dataclass
class Role:
    """One thread of a model.

    Attributes:
        body: A function that gets the shared objects of the model; what it returns, or the class
            of what it raises, is the thread's outcome.
        more: Further arguments.
        handler: The same for a signal handler, or a finalizer, that may come to it once.
        interrupts, forks: Whether an exception may come out of a place where it is; whether it may
            find itself, at such a place, in a forked child.
    """

    body: FunctionType
    more: tuple[Any, ...] = ()
    handler: FunctionType | None = None
    interrupts: bool = False
    forks: bool = False


@dataclass
class Model:
    """What a few threads do at once.

    Attributes:
        shared: Makes the objects that they share.
        roles: The threads.
        judge: Gets the outcomes of all threads, then the shared objects as they are in the end.
        constant: Names of attributes that never change.
        stubs: Functions that have nothing to do with the model, and what stands for them.
        frees: Whether all claims are free in a forked child.
    """

    shared: Callable[[], tuple[Any, ...]]
    roles: list[Role]
    judge: Callable[..., object]
    constant: set[str] = field(default_factory=lambda: {"claim"})
    stubs: dict[Any, Any] = field(default_factory=dict)
    frees: bool = True


State = tuple[tuple[Thread, ...], tuple[Any, ...]]


def visit(model: Model) -> int:
    """Visit all states of a model; return how many there are.

    Raises:
        Fault: One of them is wrong, or leads to no end.
    """
    return Search(model).visit()


class Search:
    """The states of a model that were found, in the order of their distance from the first."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.heap = Heap()
        self.shared = self.heap.take_in(model.shared())
        self.machine = Machine(self.heap, model.constant, model.stubs)
        contents = tuple(self.heap.contents)
        self.free = frozenset({(FREE, True)})
        self.claims = [number for number, each in enumerate(contents) if each == self.free]
        threads = tuple(
            self.machine.start(
                *(role.body, (*self.shared, *role.more), [*contents]),
                *(role.handler is not None, role.interrupts, role.forks),
            )
            for role in model.roles
        )
        self.states: list[State] = [(threads, contents)]
        self.numbers: dict[State, int] = {self.states[0]: 0}
        self.before: list[tuple[int, int, str]] = [(0, 0, "")]
        self.into: list[list[int]] = [[]]

    def visit(self) -> int:
        ends = []
        for number, (threads, contents) in enumerate(self.states):  # which grows meanwhile
            if not any(thread.frames for thread in threads):
                self._judge(number)
                ends.append(number)
            for index, what, state in self._following(threads, contents):
                known = self.numbers.setdefault(state, len(self.states))
                if known == len(self.states):
                    self.states.append(state)
                    self.before.append((number, index, what))
                    self.into.append([])
                self.into[known].append(number)
            if number > MOST:
                raise Fault(f"more than {MOST} states")
        live = {*ends}
        while ends:
            for number in self.into[ends.pop()]:
                if number not in live:
                    live.add(number)
                    ends.append(number)
        for number in range(len(self.states)):
            if number not in live:
                raise Fault(f"somebody waits forever\n{self._story(number)}")
        return len(self.states)

    def _following(
        self, threads: tuple[Thread, ...], contents: tuple[Any, ...]
    ) -> Iterator[tuple[int, str, State]]:
        """Yield each state that may come next: which thread leads there, and how."""
        machine = self.machine
        for index, thread in enumerate(threads):
            if not machine.can_go_on(thread, contents):
                continue
            front, back = threads[:index], threads[index + 1 :]
            after, then = machine.go_on(thread, contents)
            yield index, "", ((*front, after, *back), then)
            if not machine.is_at_place(thread):
                continue
            role = self.model.roles[index]
            if thread.handlers:
                assert role.handler is not None
                call = role.handler, (*self.shared, *role.more)
                after = machine.interrupted(thread, call, contents)
                yield index, "a handler begins", ((*front, after, *back), contents)
            if thread.interrupts:
                after = machine.raised(thread, Interrupt, contents)
                yield index, "is interrupted", ((*front, after, *back), contents)
            if thread.forks:
                yield index, "is in a forked child", self._forked(threads, contents, index)

    def _forked(self, threads: tuple[Thread, ...], contents: tuple[Any, ...], index: int) -> State:
        in_a_change = any(contents[number] != self.free for number in self.claims)
        child = [
            thread._replace(forks=0)
            if number == index
            else Thread((), thread.outcome if not thread.frames else Gone(in_a_change), 0, 0, 0)
            for number, thread in enumerate(threads)
        ]
        kept = [*contents]
        for number in self.claims if self.model.frees else ():
            kept[number] = self.free
        return tuple(child), tuple(kept)

    def _judge(self, number: int) -> None:
        threads, contents = self.states[number]
        made: dict[Any, Any] = {}
        shared = self.heap.give_out(self.shared, contents, made)
        outcomes = [self.heap.give_out(each.outcome, contents, made) for each in threads]
        try:
            assert all(contents[claim] == self.free for claim in self.claims), "a claim is held"
            self.model.judge(outcomes, *shared)
        except AssertionError as error:
            raise Fault(f"{error}\n{self._story(number)}") from None

    def _story(self, number: int) -> str:
        """Return the steps that lead to a state: a line each."""
        rows: list[str] = []
        while number:
            number, index, what = self.before[number]
            frame = self.states[number][0][index].frames[-1]
            code = frame.program.function.__code__
            line = frame.program.steps[frame.at].line or code.co_firstlineno
            source = what or linecache.getline(code.co_filename, line).strip()
            rows.append(f"    {index} {f'{Path(code.co_filename).name}:{line}':24} {source}")
        return "\n".join(rows[::-1])
