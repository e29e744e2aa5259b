"""The tree of tokens: what is cancelled together, with which cause, and which callbacks run.

Each token has a dict of *cells*, made with the first that needs them, by one ``setdefault``:

* ``cause``: a tuple of it; the one that was stored first stays
* ``waiters``: the ``WaitSet`` of the threads, coroutines and scopes that a cancel wakes
* ``children``: weak references to the tokens that are cancelled with it, oldest first
* ``forget``: what removes such a reference as the child dies
* ``callbacks``: handles of callbacks that were neither called nor removed, oldest first
* ``timers``: by process generation, the one that calls them at the deadline
* ``pins``: handles of descendants, which a root keeps alive
* ``armed``: whether the end of a ``with token:`` block cancels it

Invariants:
    * A child, a waiter or a callback registers first, then it looks whether the token is cancelled.
      A cancel marks the token first, then it looks who has registered. So one sees the other.
    * When ``cancel_tree()`` returns to any caller, every descendant is marked. All its steps may be
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
from .._sentinels import EMPTY
from .._unraisable import report
from ..waiting import FREE, acquire, claim_of, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..clock import Clock

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
        def _cells(self) -> dict[str, Any]: ...
        def _mark(self, cause: tuple[BaseException | str | None]) -> bool: ...


_running: dict[tuple[int, int, int], None] = {}
"""Which callbacks run where: the identity of their dict, the thread, the process generation."""


def add_child(parent: Node, child: Node) -> None:
    """Link ``child`` so that it is cancelled with ``parent``."""
    # A link is compared as the child: by identity, since no child is of a subclass of the user's.
    children = parent._cells.setdefault("children", {})
    children[ref(child, parent._cells.setdefault("forget", children.pop))] = None


def cancel_tree(token: Node) -> None:
    """Mark all descendants of a cancelled token, then wake all waiters, then run all callbacks."""
    if not token.cancelled:  # it notes that the deadline has passed
        return
    tree = _mark_descendants(token)
    for cells in tree:
        if "waiters" in cells:
            cells["waiters"].close()
    interrupt: BaseException | None = None
    for cells in tree:
        if "callbacks" in cells:
            interrupt = _run_callbacks(cells["callbacks"]) or interrupt
    if interrupt is not None:
        raise interrupt


def _mark_descendants(token: Node) -> list[dict[str, Any]]:
    """Mark them with the cause of their parents; return the cells of the token and of each."""
    tree: list[dict[str, Any]] = []
    seen = {id(token)}
    todo = [token]
    for each in todo:
        # On some processors a load may overtake a store. A copy waits for each ``setdefault`` that
        # has begun: so who registers after it finds the token marked, as the invariant says.
        cells = each._cells.copy()
        tree.append(cells)
        for link in cells["children"].copy() if "children" in cells else ():
            child = link()
            if child is not None and id(child) not in seen:
                if not child.cancelled:
                    child._mark(cells["cause"])
                seen.add(id(child))
                todo.append(child)
    return tree


def _run_callbacks(callbacks: dict[CallbackHandle, None]) -> BaseException | None:
    """Run callbacks of a token, unless this very thread is running them already."""
    here = id(callbacks), get_ident(), _process.generation
    if here in _running:
        return None
    interrupt: BaseException | None = None
    _running[here] = None
    try:
        for handle in callbacks.copy():
            interrupt = handle._run() or interrupt
    finally:
        del _running[here]
    return interrupt


def _set_timer(token: Node) -> None:
    """Have one timer at the deadline, which keeps the token alive, while there are callbacks."""
    deadline = token._deadline
    if deadline is None:
        return
    made = unused = None
    try:
        while (unused := _swap_timer(token._cells, made)) is EMPTY:
            made = token._clock.call_at(deadline, lambda: cancel_tree(token))
    except BaseException:
        unused = made
        raise
    finally:
        if unused is not None:
            unused.cancel()


def _swap_timer(cells: dict[str, Any], made: Any) -> Any:  # noqa: ANN401 - see Returns
    """Keep the timer that was ``made`` if it is needed.

    Returns:
        A timer that is not needed, or None; ``EMPTY`` if one must be made first.
    """
    callbacks = cells["callbacks"]
    timers = cells.setdefault("timers", {})
    generation = _process.generation  # the scheduler of a forked child starts empty
    claim = claim_of(cells)
    try:
        del claim[FREE]
    except KeyError:
        acquire(claim)
    try:
        if callbacks and generation not in timers:
            if made is None:
                return EMPTY
            timers[generation] = made
            return None
        if not callbacks and generation in timers and made is None:
            made = timers[generation]
            del timers[generation]
        return made
    finally:
        claim[FREE] = True


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

    __slots__ = ("_callback", "_callbacks", "_context", "_pins", "_token")

    def __init__(self, token: Node, callback: Callable[[], object]) -> None:
        self._token = token
        self._callback = callback
        self._callbacks: dict[CallbackHandle, None] = token._cells.setdefault("callbacks", {})
        self._context = copy_context()
        self._pins: list[dict[CallbackHandle, None]] = []

    def remove(self) -> bool:
        """Remove the callback; True only if this prevented its call.

        False if it was called, is running or was removed before.

        Thread safety: any thread, signal handler or finalizer.
        """
        removed = self._take()
        complete(self._forget)  # also if it was not this call: that one may have been interrupted
        return removed

    def _take(self) -> bool:
        """Whether this call is the one that decides if the callback runs."""
        try:
            del self._callbacks[self]
        except KeyError:
            return False
        return True

    def _run(self) -> BaseException | None:
        """Run the callback, unless it ran or was removed; return an interrupt that cut it short."""
        # ATOMIC: the callback is the next call. So an interrupt comes before it is taken, and the
        # next cancel runs it, or inside of it; one in between would lose it.
        if self._take():
            try:
                self._context.run(self._callback)
            except Exception as error:  # noqa: BLE001 - no callback stops the others
                report(error, "Exception in a callback of a cancellation token", self._callback)
            except BaseException as interrupt:  # noqa: BLE001 - raised once everything is done
                return interrupt
            finally:
                complete(self._forget)
        return None

    def _register(self) -> None:
        """Have the callback called when the token is cancelled, by its deadline too."""
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
        if not self._token.cancelled:
            _set_timer(self._token)

    def _forget(self) -> None:
        """Keep the token alive no longer. May be repeated."""
        for pins in self._pins:
            pins.pop(self, None)
        if not self._callbacks:
            _set_timer(self._token)

    def __repr__(self) -> str:
        return f"<CallbackHandle of {self._callback!r}>"
