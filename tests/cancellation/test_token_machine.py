"""A tree of tokens against a plain model: random children, unions, cancels, callbacks, drops."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from backoff_ticker import CancellationToken, DeadlineExceeded, any_of
from backoff_ticker.testing import VirtualClock
from tests.helpers import collect_garbage

PICK = st.integers(0, 10**6)


@dataclass(eq=False)
class Node:
    """What the model knows of one token."""

    name: int
    parents: list[Node]
    deadline: float | None
    link: weakref.ref[CancellationToken]
    cause: Any = None
    cancelled: bool = False
    pending: list[int] = field(default_factory=list)

    def ancestors(self):
        found = set()
        todo = [self]
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += node.parents
        return found


class TokenTree(RuleBasedStateMachine):
    """Holds some tokens and handles; the model tells who is cancelled, called back and alive."""

    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.nodes = []
        self.held = {}
        self.handles = {}
        self.runs = []
        self.expected = []
        self.owners = []
        self.note(CancellationToken(clock=self.clock), [])

    def teardown(self):
        self.clock.close()

    def note(self, token, parents):
        node = Node(len(self.nodes), parents, token.deadline, weakref.ref(token))
        self.nodes.append(node)
        self.held[node] = token
        for parent in parents:
            if parent.cancelled:
                node.cancelled, node.cause = True, parent.cause
                return
        self.expire(node)

    def expire(self, node):
        due = node.deadline is not None and node.deadline <= self.clock.monotonic()
        if due and not node.cancelled:
            node.cancelled, node.cause = True, DeadlineExceeded
            return True
        return False

    def pick(self, number):
        return list(self.held.items())[number % len(self.held)]

    def alive(self):
        """Whatever the test, the clock's timers and the pins of living roots keep alive."""
        found = set()
        for node in [*self.held, *(node for node, _ in self.handles.values())]:
            found |= node.ancestors()
        pinned = [node for node in self.nodes if node.pending and not node.cancelled]
        for node in pinned:
            if node.deadline is not None:
                found |= node.ancestors()
        while True:
            more = set(found)
            for node in pinned:
                if any(not root.parents for root in node.ancestors() & found):
                    more |= node.ancestors()
            if more == found:
                return found
            found = more

    def fire(self, nodes):
        for node in nodes:
            self.expected += node.pending
            node.pending = []

    @rule()
    def root(self):
        self.note(CancellationToken(clock=self.clock), [])

    @precondition(lambda self: self.held)
    @rule(number=PICK, timeout=st.none() | st.integers(0, 5))
    def child(self, number, timeout):
        node, token = self.pick(number)
        made = token.child(timeout=timeout)
        limits = [node.deadline, None if timeout is None else self.clock.monotonic() + timeout]
        assert made.deadline == min((at for at in limits if at is not None), default=None)
        self.note(made, [node])

    @precondition(lambda self: self.held)
    @rule(numbers=st.lists(PICK, min_size=1, max_size=4))
    def any_of(self, numbers):
        picked = [self.pick(number) for number in numbers]
        made = any_of(*(token for _, token in picked))
        limits = [node.deadline for node, _ in picked if node.deadline is not None]
        assert made.deadline == min(limits, default=None)
        self.note(made, [node for node, _ in picked])

    @precondition(lambda self: self.held)
    @rule(number=PICK, cause=st.sampled_from(["one", "two", None]))
    def cancel(self, number, cause):
        node, token = self.pick(number)
        living = self.alive()
        assert token.cancel(cause) is not node.cancelled
        if node.cancelled:
            return
        below = [other for other in self.nodes if other in living and node in other.ancestors()]
        for other in below:
            if not other.cancelled:
                other.cancelled, other.cause = True, cause
        self.fire(below)

    @precondition(lambda self: self.held)
    @rule(number=PICK, keep=st.booleans())
    def on_cancel(self, number, keep):
        self.call_back(*self.pick(number), keep=keep)

    @precondition(lambda self: self.held)
    @rule(number=PICK, timeout=st.none() | st.integers(1, 5))
    def on_cancel_of_a_dropped_child(self, number, timeout):
        self.child(number, timeout)
        node = self.nodes[-1]
        self.call_back(node, self.held[node], keep=False)
        del self.held[node]
        self.collect()

    def call_back(self, node, token, *, keep):
        name = len(self.owners)
        self.owners.append(node)
        handle = token.on_cancel(lambda: self.runs.append(name))
        if keep:
            self.handles[name] = node, handle
        node.pending.append(name)
        if node.cancelled:
            self.fire([node])

    @precondition(lambda self: self.handles)
    @rule(number=PICK)
    def remove(self, number):
        name = list(self.handles)[number % len(self.handles)]
        node, handle = self.handles.pop(name)
        assert handle.remove() is (name in node.pending)
        assert handle.remove() is False
        if name in node.pending:
            node.pending.remove(name)

    @precondition(lambda self: self.handles)
    @rule(number=PICK)
    def drop_handle(self, number):
        del self.handles[list(self.handles)[number % len(self.handles)]]
        self.collect()

    @precondition(lambda self: self.held)
    @rule(number=PICK)
    def drop(self, number):
        del self.held[self.pick(number)[0]]
        self.collect()

    @rule(seconds=st.integers(1, 3))
    def advance(self, seconds):
        living = self.alive()
        self.clock.advance(seconds)
        self.fire([node for node in self.nodes if self.expire(node) and node in living])

    def found(self):
        """Return the names of the tokens that exist."""
        return {node.name for node in self.nodes if node.link() is not None}

    @rule()
    def collect(self):
        living = {node.name for node in self.alive()}
        if self.found() != living:
            collect_garbage()
        assert self.found() == living
        timed = [node for node in self.nodes if node.deadline is not None]
        assert len(self.clock.pending()) == sum(bool(node.pending) for node in timed)

    @invariant()
    def agree(self):
        for node, token in self.held.items():
            assert token.cancelled is node.cancelled
            expires = node.cause is DeadlineExceeded
            cause = type(token.cause) if expires else token.cause
            assert cause == node.cause
        assert sorted(self.runs) == sorted(self.expected)
        for owner in self.nodes:
            mine = [name for name in self.runs if self.owners[name] is owner]
            assert mine == sorted(mine)


TokenTree.TestCase.settings = settings(
    stateful_step_count=40,
    derandomize=True,
    phases=[Phase.generate],  # shrinking takes longer than a test may
    suppress_health_check=[HealthCheck.too_slow],
)
TestTokenTree = TokenTree.TestCase
