"""The tree of tokens: what is cancelled together, with which cause, and which callbacks run.

Each token has a dict of *cells*, made with the first that needs them, by one ``setdefault``:

* ``cause``: a tuple of it; the first one stays
* ``waiters``: the ``WaitSet`` of the threads, coroutines and scopes that a cancel wakes
* ``children``: weak references to them, oldest first; ``forget``: what removes a dead one
* ``callbacks``: handles of callbacks that were neither called nor removed, oldest first
* ``timers``: by process generation, the one that calls them at the deadline
* ``pins``: handles of descendants, which a root keeps alive
* ``armed``: whether the end of a ``with`` block cancels the token

Invariants:
    * A child, a waiter or a callback registers first, then it looks whether the token is cancelled.
      A cancel marks the token first, then it looks who has registered. So one sees the other.
    * When a cancel returns to any caller, every descendant is marked. All its steps may be
      repeated, by several callers at once, and one cancel may interrupt another.
    * A callback runs once: only who deletes its handle from ``callbacks`` calls it, or prevents it.
    * A deadline has one timer while there are callbacks, and none otherwise.

References: a child holds its parents; they hold it weakly. A registered callback keeps its token
alive while something can cancel it: the roots of the tree pin its handle, the timer has the token.
"""

from __future__ import annotations

from _thread import get_ident
from contextvars import copy_context
from weakref import ref

from .. import _process
from .._errors import Cancelled, DeadlineExceeded
from .._unraisable import report
from ..waiting import FREED, NO_DEADLINE, WaitSet, acquire, claim_of, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..clock import Clock

    Cause = tuple[BaseException | str | None]

_running: set[tuple[int, int, int]] = set()
"""Which callbacks run where: the identity of their dict, the thread, the process generation."""


class Node:
    """What the tree knows of a token."""

    __slots__ = ("__weakref__", "_cells", "_clock", "_deadline", "_marked", "_parents")

    _clock: Clock
    _parents: tuple[Node, ...]
    _deadline: float
    _cells: dict[str, Any]
    _marked: bool

    if TYPE_CHECKING:

        @property
        def cancelled(self) -> bool: ...

    def _begin(self, clock: Clock, parents: tuple[Node, ...], deadline: float) -> None:
        _set_clock(self, clock)
        _set_parents(self, parents)
        _set_deadline(self, deadline)
        _set_cells(self, {})
        _set_marked(self, False)
        for parent in parents:
            # A link is compared as the child: by identity, as no child is of a user's subclass.
            children = parent._cells.setdefault("children", {})
            children[ref(self, parent._cells.setdefault("forget", children.pop))] = None
            if parent.cancelled:  # after that: see the invariants
                self._mark(parent._cells["cause"])

    def _mark(self, cause: Cause) -> bool:
        """Mark only this token as cancelled; True if no other cause was stored before."""
        won = self._cells.setdefault("cause", cause) is cause
        _set_marked(self, True)
        return won

    def _cancel(self, cause: Cause) -> bool:
        """Mark this token and its descendants, then wake all waiters, then run all callbacks."""
        won = not self.cancelled and self._mark(cause)
        tree: dict[int, dict[str, Any]] = {}
        todo = [self]
        for each in todo:
            if id(each) in tree:
                continue
            # On some processors a load may overtake a store. A copy waits for each ``setdefault``
            # that has begun: so who registers after it finds the token marked: see the invariants.
            tree[id(each)] = cells = each._cells.copy()
            for link in [*cells["children"]] if "children" in cells else ():
                child = link()
                if child is not None:
                    if not child.cancelled:
                        child._mark(cells["cause"])
                    todo.append(child)
        for cells in tree.values():
            if "waiters" in cells:
                cells["waiters"].close()
        _run_callbacks([cells["callbacks"] for cells in tree.values() if "callbacks" in cells])
        return won

    def _error(self) -> Cancelled:
        """Return what ``raise_if_cancelled()`` raises if the token is cancelled."""
        (cause,) = self._cells["cause"]
        if isinstance(cause, DeadlineExceeded):
            return DeadlineExceeded(cause)
        error = Cancelled(cause)
        if isinstance(cause, BaseException):
            error.__cause__ = cause
        return error

    def _wait_set(self) -> WaitSet:
        found: WaitSet | None = self._cells.get("waiters")
        return found or self._cells.setdefault("waiters", WaitSet())


Node.cancelled = Node._marked  # type: ignore[assignment, misc]  # a name of the same slot

# A token refuses to set ``cancelled``, by a ``__setattr__`` that is slow for the other slots, too.
_set_cells, _set_clock, _set_deadline, _set_marked, _set_parents = (
    Node.__dict__[name].__set__ for name in Node.__slots__[1:]
)


def _run_callbacks(tree: list[dict[CallbackHandle, None]]) -> None:
    """Run the callbacks of tokens, except of those whose callbacks this thread is running.

    Of interrupts that they raise, the last one is raised when all have run.
    """
    interrupt: BaseException | None = None
    for callbacks in tree:
        here = id(callbacks), get_ident(), _process.generation
        if here not in _running:
            try:
                _running.add(here)
                for handle in [*callbacks]:
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
    callbacks = token._cells["callbacks"]
    timers = token._cells.setdefault("timers", {})
    generation = _process.generation  # the scheduler of a forked child starts empty
    unused = None
    claim = claim_of(timers)
    acquire(claim)
    try:
        if not callbacks and generation in timers:
            unused = timers[generation]
            del timers[generation]
    finally:
        claim += FREED
    if unused is not None:
        unused.cancel()
    if callbacks and generation not in timers:
        made = token._clock.call_at(token._deadline, lambda: token._cancel((DeadlineExceeded(),)))
        if timers.setdefault(generation, made) is not made:
            made.cancel()
        _set_timer(token)  # the callbacks may be gone meanwhile


class CallbackHandle:
    """What ``CancellationToken.on_cancel()`` returns; its ``remove()`` prevents the callback.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> handle = CancellationToken().on_cancel(print)
        >>> handle.remove()
        True
    """

    __slots__ = ("_callback", "_callbacks", "_context", "_pins", "_token")

    def __init__(self, token: Node, callback: Callable[[], object]) -> None:
        self._token = token
        self._callback = callback
        self._callbacks: dict[CallbackHandle, None] = token._cells.setdefault("callbacks", {})
        self._context = copy_context()
        self._pins: list[dict[CallbackHandle, None]] = []

    def remove(self) -> bool:
        """Prevent the call, from anywhere; False if it has begun, or was prevented before."""
        removed = self._callbacks.pop(self, self) is None
        complete(self._forget)  # also if it was not this call: that one may have been interrupted
        return removed

    def _run(self) -> None:
        """Run the callback, unless it ran or was removed."""
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
            complete(self._forget)

    def _register(self) -> None:
        """Have the callback run when the token is cancelled, by its deadline too."""
        seen = set()
        todo = [*self._token._parents]
        for each in todo:
            if id(each) not in seen:
                seen.add(id(each))
                todo += each._parents
                if not each._parents:
                    pins = each._cells.setdefault("pins", {})
                    self._pins.append(pins)
                    pins[self] = None
        self._callbacks[self] = None
        if self._token.cancelled:
            self._run()
        elif self._token._deadline != NO_DEADLINE:
            _set_timer(self._token)

    def _forget(self) -> None:
        """Keep the token alive no longer. May be repeated."""
        for pins in self._pins:
            pins.pop(self, None)
        if not self._callbacks and self._token._deadline != NO_DEADLINE:
            _set_timer(self._token)

    def __repr__(self) -> str:
        return f"<CallbackHandle of {self._callback!r}>"
