"""The tree of tokens: what is cancelled together, with which cause, and which callbacks run.

Invariants:
    * The first cause stays: it is the one that ``setdefault`` stored.
    * Mark first, wake later: when ``cancel_tree()`` returns to any caller, every descendant is
      marked. All its steps may be repeated, by several callers at once.
    * A callback runs once: a caller that stores its mark in the handle's claim runs the callback,
      or has removed it. It stays registered until it has run, so that another cancel finds it.
    * No lock: each step is a single operation of a dict, so a cancel may interrupt another one, in
      a signal handler or a finalizer.

References: a child holds its parents; a parent holds its children weakly. A registered callback
keeps its token alive for as long as something can cancel it: the roots of the tree pin its handle,
and if there is a deadline, the clock's timer, one for all its callbacks, keeps the token.
"""

from __future__ import annotations

import weakref
from _thread import get_ident
from contextvars import copy_context

from .. import _process
from .._unraisable import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypedDict

    from ..clock import Clock, TimerHandle
    from ..waiting import WaitSet

    Cause = tuple[BaseException | str | None]

    class Cells(TypedDict, total=False):
        """The parts of a token that are set once, each by an atomic ``setdefault`` on first use.

        Attributes:
            cause: Why it is cancelled; once this is set, it is cancelled.
            waiters: Threads, coroutines and scopes that a cancel wakes.
            children: Tokens that are cancelled with it.
            callbacks: Registered callbacks, oldest first, until they have run.
            running_callbacks: Idents of the threads that are running its callbacks.
            pins: Callbacks of descendants, which a root keeps alive.
            timers: The one that calls the callbacks at the deadline, while there are any; by
                process generation, since the scheduler of a forked child starts empty.
        """

        cause: Cause
        waiters: WaitSet
        children: Children
        callbacks: dict[CallbackHandle, None]
        running_callbacks: dict[int, None]
        pins: dict[CallbackHandle, None]
        timers: dict[int, TimerHandle]

    class Node(Protocol):
        """A token, as the tree sees it."""

        @property
        def cancelled(self) -> bool: ...
        @property
        def _parents(self) -> tuple[Node, ...]: ...
        @property
        def _deadline(self) -> float | None: ...
        @property
        def _clock(self) -> Clock: ...
        @property
        def _cells(self) -> Cells: ...
        def _mark(self, cause: Cause) -> bool: ...


class Children:
    """Weak links to the children of one token, oldest first; a dead one is removed at once."""

    __slots__ = ("forget", "links")

    def __init__(self) -> None:
        self.links: dict[weakref.ref[Node], None] = {}
        self.forget: Callable[[weakref.ref[Node]], object] = self.links.pop


def add_child(parent: Node, child: Node) -> None:
    """Link ``child`` so that it is cancelled with ``parent``."""
    children = parent._cells.get("children") or parent._cells.setdefault("children", Children())
    children.links[weakref.ref(child, children.forget)] = None


def cancel_tree(token: Node) -> None:
    """Mark every descendant of a marked token, then wake all waiters, then run all callbacks."""
    tree = _mark_descendants(token)
    for each in tree:
        waiters = each._cells.get("waiters")
        if waiters is not None:
            waiters.close()
    interrupt: BaseException | None = None
    for each in tree:
        interrupt = _run_callbacks(each) or interrupt
    if interrupt is not None:
        raise interrupt


def _mark_descendants(token: Node) -> list[Node]:
    """Mark all descendants with the token's cause; return the token and them, each once."""
    cause = token._cells["cause"]
    tree = {token: None}
    todo = [token]
    for each in todo:
        children = each._cells.get("children")
        for link in list(children.links) if children is not None else ():
            child = link()
            if child is not None and child not in tree:
                if not child.cancelled:
                    child._mark(cause)
                tree[child] = None
                todo.append(child)
    return todo


def _run_callbacks(token: Node) -> BaseException | None:
    """Run the token's callbacks, unless this very thread is running them already."""
    callbacks = token._cells.get("callbacks")
    if not callbacks:
        return None
    running = token._cells.setdefault("running_callbacks", {})
    ident = get_ident()
    if ident in running:
        return None
    interrupt: BaseException | None = None
    running[ident] = None
    try:
        for handle in list(callbacks):
            interrupt = handle._run() or interrupt
    finally:
        running.pop(ident, None)
    return interrupt


def _watch_deadline(token: Node) -> None:
    """Have a timer at the deadline: one for all callbacks of a token. It keeps the token alive.

    Callbacks are registered before this, and removed before ``_unwatch_deadline()``, so of two
    threads that do both at the same time the later one sees what the other has done.
    """
    if token._deadline is None:
        return
    timers = token._cells.get("timers") or token._cells.setdefault("timers", {})
    if _process.generation not in timers:
        timer = token._clock.call_at(token._deadline, lambda: _expire(token))
        if timers.setdefault(_process.generation, timer) is not timer:
            timer.cancel()
    if not token._cells.get("callbacks"):  # a cancel has called them meanwhile
        _unwatch_deadline(token)


def _unwatch_deadline(token: Node) -> None:
    """Cancel the timer at the deadline if there is no callback any more."""
    timers = token._cells.get("timers")
    if timers and not token._cells.get("callbacks"):
        timer = timers.pop(_process.generation, None)
        if timer is not None:
            timer.cancel()
        if token._cells.get("callbacks"):
            _watch_deadline(token)


def _expire(token: Node) -> None:
    if token.cancelled:  # reading it notes that the deadline has passed
        cancel_tree(token)


class CallbackHandle:
    """What ``CancellationToken.on_cancel()`` returns; its ``remove()`` prevents the callback.

    Example:
        >>> from backoff_ticker import CancellationToken
        >>> token = CancellationToken()
        >>> handle = token.on_cancel(lambda: print("cancelled"))
        >>> handle.remove()
        True
        >>> token.cancel()
        True
    """

    __slots__ = ("_callback", "_claim", "_context", "_pins", "_token")

    def __init__(self, token: Node, callback: Callable[[], object]) -> None:
        self._token = token
        self._callback = callback
        self._context = copy_context()
        self._claim: dict[int, object] = {}
        self._pins: list[dict[CallbackHandle, None]] = []

    def remove(self) -> bool:
        """Remove the callback; True only if this prevented its call.

        False if it was called, is running or was removed before.

        Thread safety: any thread, signal handler or finalizer.
        """
        mark = object()
        removed = self._claim.setdefault(0, mark) is mark
        if removed:
            self._forget()
        return removed

    def _run(self) -> BaseException | None:
        """Run the callback, unless it ran or was removed; return an interrupt that cut it short."""
        mark = object()
        begun = False
        try:
            if self._claim.setdefault(0, mark) is mark:
                # ATOMIC: the callback is the next call after this store. So an interrupt comes
                # either before the store, and the claim is released, or inside the callback.
                begun = True
                self._context.run(self._callback)
        except Exception as error:  # noqa: BLE001 - no callback stops the others
            report(error, "Exception in a callback of a cancellation token", self._callback)
        except BaseException as interrupt:  # noqa: BLE001 - raised once everything is done
            if not begun and self._claim and self._claim[0] is mark:
                self._claim = {}  # interrupted before the call: the next cancel makes it
                return interrupt
            self._forget()
            return interrupt
        self._forget()
        return None

    def _pin(self) -> None:
        """Make the roots of the tree keep the token alive."""
        ancestors = dict.fromkeys(self._token._parents)
        todo = list(ancestors)
        for token in todo:
            if not token._parents:
                pins = token._cells.setdefault("pins", {})
                self._pins.append(pins)
                pins[self] = None
            for parent in token._parents:
                if parent not in ancestors:
                    ancestors[parent] = None
                    todo.append(parent)

    def _register(self) -> None:
        """Have the callback called when the token is cancelled, by its deadline too.

        Raises:
            RuntimeError: The scheduler thread cannot be started.
        """
        try:
            if not self._token.cancelled:
                self._pin()
            # A cancel that comes after the caller's check finds the callback.
            self._token._cells.setdefault("callbacks", {})[self] = None
            if not self._token.cancelled:
                _watch_deadline(self._token)
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        self._token._cells.get("callbacks", {}).pop(self, None)
        for pins in self._pins:
            pins.pop(self, None)
        _unwatch_deadline(self._token)

    def __repr__(self) -> str:
        return f"<CallbackHandle of {self._callback!r}>"
