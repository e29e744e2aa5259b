"""The tree of tokens: what is cancelled together, with which cause, and which callbacks run.

Invariants:
    1. A child, a waiter or a callback registers first, then it looks whether the token is
       cancelled. A cancel marks the token first, then it looks who has registered. Both use the
       same dict, which the interpreter locks, or the claim of the set: one sees the other.
    2. When a cancel returns to any caller, every descendant is marked. All its steps may be
       repeated, by several callers at once, and one cancel may interrupt another.
    3. A callback runs once: only who deletes its handle from ``callbacks`` calls it, or prevents
       it.
    4. A deadline has one timer while there are callbacks, and none otherwise.
    5. A child holds its parents; they hold it weakly. A registered callback keeps its token alive
       while something can cancel it: the roots of the tree pin its handle, the timer has the token.
"""

from __future__ import annotations

from _thread import get_ident
from contextvars import copy_context
from weakref import ref

from .. import _process
from .._errors import Cancelled, DeadlineExceeded
from .._unraisable import report
from ..waiting import FREED, NO_DEADLINE, WaitSet, acquire, claim_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..clock import Clock, TimerHandle

    Cause = tuple[BaseException | str | None]

_running: set[tuple[int, int, int]] = set()
"""Which callbacks run where: the identity of their dict, the thread, the process generation."""


class State:
    """What changes in a token.

    Attributes:
        armed: Whether the end of a ``with`` block cancels the token.
        cause: In a tuple; None: it is not cancelled. The first one stays.
        waiters: The threads, coroutines and scopes that a cancel wakes.
        children: Weak references to them, oldest first.
        callbacks: Handles of callbacks that were neither called nor removed, oldest first.
        pins: Of a root: handles of descendants, which it keeps alive.
        timers: With a deadline: by process generation, the one that calls the callbacks then.
    """

    __slots__ = ("armed", "callbacks", "cause", "children", "pins", "timers", "waiters")

    def __init__(self, parents: tuple[Node, ...], deadline: float) -> None:
        self.armed = True
        self.cause: Cause | None = None
        self.waiters = WaitSet()
        self.children: dict[ref[Node], None] = {}
        self.callbacks: dict[CallbackHandle, None] = {}
        if not parents:
            self.pins: dict[CallbackHandle, None] = {}
        if deadline != NO_DEADLINE:
            self.timers: dict[int, TimerHandle] = {}


class Node:
    """What the tree knows of a token."""

    __slots__ = ("__weakref__", "_clock", "_deadline", "_marked", "_parents", "_state")

    _clock: Clock
    _deadline: float
    _marked: bool
    _parents: tuple[Node, ...]
    _state: State

    if TYPE_CHECKING:

        @property
        def cancelled(self) -> bool: ...

    def _begin(self, clock: Clock, parents: tuple[Node, ...], deadline: float) -> None:
        _set_clock(self, clock)
        _set_parents(self, parents)
        _set_deadline(self, deadline)
        _set_state(self, State(parents, deadline))
        _set_marked(self, False)
        for parent in parents:
            # A link is compared as the child: by identity, as no child is of a user's subclass.
            children = parent._state.children
            children[ref(self, children.pop)] = None
            if parent.cancelled:  # by invariant 1
                self._mark(parent._cause())

    def _cause(self) -> Cause:
        """Return the cause of a token that is cancelled."""
        cause = self._state.cause
        assert cause is not None  # noqa: S101 - for type checkers: it is stored before the mark
        return cause

    def _mark(self, cause: Cause) -> bool:
        """Mark only this token as cancelled; True if no other cause was stored before."""
        state = self._state
        claim = claim_of(state)
        acquire(claim)
        try:
            won = state.cause is None
            if won:
                state.cause = cause
        finally:
            claim += FREED
        _set_marked(self, True)
        return won

    def _cancel(self, cause: Cause) -> bool:
        """Mark this token and its descendants, then wake all waiters, then run all callbacks."""
        won = not self.cancelled and self._mark(cause)
        tree, seen = [self], {id(self)}
        for token in tree:
            for link in [*token._state.children]:
                child = link()
                if child is not None and id(child) not in seen:
                    if not child.cancelled:
                        child._mark(token._cause())
                    seen.add(id(child))
                    tree.append(child)
        for token in tree:
            token._state.waiters.close()
        _run_callbacks([token._state.callbacks for token in tree])
        return won

    def _error(self) -> Cancelled:
        """Return what ``raise_if_cancelled()`` raises if the token is cancelled."""
        (cause,) = self._cause()
        if isinstance(cause, DeadlineExceeded):
            return DeadlineExceeded(cause)
        error = Cancelled(cause)
        if isinstance(cause, BaseException):
            error.__cause__ = cause
        return error

    def _wait_set(self) -> WaitSet:
        return self._state.waiters

    def _have_waiters(self, waiters: WaitSet) -> None:
        """Wake those of ``waiters`` from now on; for a new token, for which nobody waits yet."""
        self._state.waiters = waiters


Node.cancelled = Node._marked  # type: ignore[assignment, misc]  # a name of the same slot

# A token refuses to set ``cancelled``, by a ``__setattr__`` that is slow for the other slots, too.
_set_clock, _set_deadline, _set_marked, _set_parents, _set_state = (
    Node.__dict__[name].__set__ for name in Node.__slots__[1:]
)


def _run_callbacks(tree: list[dict[CallbackHandle, None]]) -> None:
    """Run the callbacks of tokens, except of those whose callbacks this thread is running.

    Of interrupts that they raise, the last one is raised when all have run.
    """
    interrupt: BaseException | None = None
    for callbacks in tree:
        handles = [*callbacks]  # by invariant 1; to look whether there are any takes no lock
        here = id(callbacks), get_ident(), _process.generation
        if handles and here not in _running:
            try:
                _running.add(here)
                for handle in handles:
                    try:
                        handle._run()
                    except BaseException as error:
                        interrupt = error
            finally:
                _running.discard(here)
    if interrupt is not None:
        try:
            raise interrupt
        finally:
            del interrupt  # it refers to this frame


def _set_timer(token: Node) -> None:
    """Have one timer at the deadline, which keeps the token alive, while there are callbacks."""
    callbacks, timers = token._state.callbacks, token._state.timers
    generation = _process.generation  # the scheduler of a forked child starts empty
    unused = None
    claim = claim_of(timers)
    acquire(claim)
    try:  # so no callback that comes now relies on a timer that is to go
        if not callbacks and generation in timers:
            unused = timers[generation]
            del timers[generation]
    finally:
        claim += FREED
    if unused is not None:
        unused.cancel()
    if callbacks and generation not in timers:
        timer = token._clock.call_at(token._deadline, lambda: token._cancel((DeadlineExceeded(),)))
        if timers.setdefault(generation, timer) is not timer:
            timer.cancel()
        _set_timer(token)  # the callbacks may be gone meanwhile


class CallbackHandle:
    """What ``CancellationToken.on_cancel()`` returns; its ``remove()`` prevents the callback.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> handle = CancellationToken().on_cancel(print)
        >>> handle.remove()
        True
    """

    __slots__ = ("_callback", "_callbacks", "_context", "_roots", "_token")

    def __init__(self, token: Node, callback: Callable[[], object]) -> None:
        self._token = token
        self._callback = callback
        self._callbacks = token._state.callbacks
        self._context = copy_context()
        self._roots: list[Node] = []

    def remove(self) -> bool:
        """Prevent the call, from anywhere; False if it has begun, or was prevented before."""
        removed = self._callbacks.pop(self, self) is None
        self._forget()  # also if it was not this call: that one may have been interrupted
        return removed

    def _run(self) -> None:
        """Run the callback, unless it ran or was removed: by invariant 3."""
        try:
            del self._callbacks[self]
        except KeyError:
            return
        # ATOMIC: the callback is the next call. So an interrupt comes before it is taken, and the
        # next cancel runs it, or inside of it; one in between would lose it.
        try:
            self._context.run(self._callback)
        except Exception as error:  # no callback stops the others
            report(error, "Exception in a callback of a cancellation token", self._callback)
        finally:
            self._forget()

    def _register(self) -> None:
        """Have the callback run when the token is cancelled, also by its deadline."""
        seen = set()
        todo = [*self._token._parents]
        for token in todo:
            if id(token) not in seen:
                seen.add(id(token))
                todo += token._parents
                if not token._parents:
                    self._roots.append(token)
                    token._state.pins[self] = None
        self._callbacks[self] = None
        if self._token.cancelled:  # by invariant 1
            self._run()
        elif self._token._deadline != NO_DEADLINE:
            _set_timer(self._token)

    def _forget(self) -> None:
        """Stop keeping the token alive. May be repeated."""
        for root in self._roots:
            root._state.pins.pop(self, None)
        if not self._callbacks and self._token._deadline != NO_DEADLINE:
            _set_timer(self._token)

    def __repr__(self) -> str:
        return f"<CallbackHandle of {self._callback!r}>"
