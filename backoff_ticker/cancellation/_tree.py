"""The tree of tokens: who is cancelled with whom, for what, and who is told.

Invariants:
    * The first cause stays: it is what ``setdefault`` stored, whoever called it.
    * Mark first, wake later: once ``finish()`` returns to anybody, every descendant is marked. All
      its steps may be done twice, by several callers at once.
    * A callback runs once: whoever stores its mark in the handle's claim runs it, or has removed
      it. Until it has run it stays in the token's table, so that another cancel finds it.
    * No lock: everything is single operations on dictionaries, so a cancel may interrupt another
      one, in a signal handler or a finalizer.

References: a child holds its parents, a parent holds its children weakly. A callback that is
registered keeps its token alive for as long as something can still cancel it: it is pinned to the
roots of the tree, and to the clock's timer where there is a deadline.
"""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from contextvars import copy_context

from .._unraisable import report
from ..waiting import WaitSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..clock import Clock, TimerHandle

    Box = tuple[BaseException | str | None]


class TokenNode:
    """One token in the tree; ``CancellationToken`` is its public face.

    What is set once, atomically, is in ``_facts``: the cause, and the tables, made when needed.
    """

    __slots__ = ("__weakref__", "_armed", "_clock", "_deadline", "_facts", "_parents", "cancelled")

    cancelled: bool

    def _begin(self, clock: Clock, parents: tuple[TokenNode, ...], deadline: float | None) -> None:
        self._clock = clock
        self._parents = parents
        self._deadline = deadline
        self._armed = True
        self._facts: dict[str, Any] = {}
        self.cancelled = False
        for parent in parents:
            parent._adopt(self)
        for parent in parents:
            if parent.cancelled:
                self._mark(parent._box())
                return

    def _table(self, name: str) -> dict[Any, None]:
        table: dict[Any, None] = self._facts.setdefault(name, {})
        return table

    def wait_set(self) -> WaitSet:
        """Return where waiters of this token register; made with the first of them."""
        waiters: WaitSet | None = self._facts.get("waiters")
        if waiters is None:
            waiters = self._facts.setdefault("waiters", WaitSet())
        return waiters

    def _box(self) -> Box:
        box: Box = self._facts["cause"]
        return box

    def _mark(self, box: Box) -> bool:
        """Mark this token alone; True if ``box`` holds what it is cancelled for."""
        won = self._facts.setdefault("cause", box) is box
        self.cancelled = True
        return won

    def _adopt(self, child: TokenNode) -> None:
        while True:
            facts = self._facts
            links, forget = facts.get("children") or facts.setdefault("children", _links(facts))
            link = weakref.ref(child, forget)
            links[link] = None
            if facts["children"][0] is links:
                return

    def _tree(self) -> list[TokenNode]:
        """Return this token and all its descendants, each once, marked with its cause."""
        box = self._box()
        tree = {self: None}
        todo = [self]
        for token in todo:
            for link in list(token._facts.get("children", _NO_LINKS)[0]):
                child = link()
                if child is not None and child not in tree:
                    if not child.cancelled:
                        child._mark(box)
                    tree[child] = None
                    todo.append(child)
        return todo

    def finish(self) -> None:
        """Mark every descendant, then wake all waiters, then run all callbacks."""
        tree = self._tree()
        for token in tree:
            waiters = token._facts.get("waiters")
            if waiters is not None:
                waiters.close()
        interrupt: BaseException | None = None
        for token in tree:
            interrupt = token._call_back() or interrupt
        if interrupt is not None:
            raise interrupt

    def _call_back(self) -> BaseException | None:
        """Run this token's callbacks, unless this very thread is about it already."""
        callbacks = self._facts.get("callbacks")
        if not callbacks:
            return None
        busy = self._facts.setdefault("busy", {})
        ident = get_ident()
        if ident in busy:
            return None
        interrupt: BaseException | None = None
        busy[ident] = None
        try:
            for handle in list(callbacks):
                interrupt = handle.run() or interrupt
        finally:
            busy.pop(ident, None)
        return interrupt

    def expire(self) -> None:
        """Wake and call back all whom the deadline concerns, if it has passed."""
        if self.cancelled:
            self.finish()


_NO_LINKS: tuple[dict[Any, None], None] = ({}, None)
_WORTH_SHRINKING = 4096


def _links(facts: dict[str, Any]) -> tuple[dict[Any, None], Callable[[Any], None]]:
    """Return a table of weak links to children, and what removes a link that is dead.

    A dict does not shrink. So once a great one is empty another takes its place, and whoever was
    just adding to the old one looks and adds to the new.
    """
    links: dict[Any, None] = {}

    def forget(link: object) -> None:
        links.pop(link, None)
        if not links and sys.getsizeof(links) > _WORTH_SHRINKING:
            fresh = _links(facts)
            if not links and facts["children"][0] is links:
                facts["children"] = fresh
                for late in list(links):
                    fresh[0][late] = None

    return links, forget


class CallbackHandle:
    """A callback registered with ``on_cancel``; ``remove()`` prevents the call."""

    __slots__ = ("_callback", "_claim", "_context", "_pins", "_timer", "_token")

    def __init__(self, token: TokenNode, callback: Callable[[], object]) -> None:
        self._token = token
        self._callback = callback
        self._context = copy_context()
        self._claim: dict[int, object] = {}
        self._timer: TimerHandle | None = None
        self._pins: list[dict[Any, None]] = []

    def pin(self) -> None:
        """Let whatever can cancel the token keep it alive until the callback runs."""
        ancestors = dict.fromkeys(self._token._parents)
        todo = list(ancestors)
        for token in todo:
            if not token._parents:
                pins = token._table("pins")
                self._pins.append(pins)
                pins[self] = None
            for parent in token._parents:
                if parent not in ancestors:
                    ancestors[parent] = None
                    todo.append(parent)
        if self._token._deadline is not None:
            try:
                self._timer = self._token._clock.call_at(self._token._deadline, self._token.expire)
            except BaseException:
                self._unpin()
                raise

    def _unpin(self) -> None:
        for pins in self._pins:
            pins.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def _forget(self) -> None:
        self._token._table("callbacks").pop(self, None)
        self._unpin()

    def remove(self) -> bool:
        """Unregister the callback; True only if this prevented the call.

        Callable from any thread, signal handler or finalizer; False also while it runs.
        """
        mark = object()
        removed = self._claim.setdefault(0, mark) is mark
        if removed:
            self._forget()
        return removed

    def run(self) -> BaseException | None:
        """Call back unless it was done or prevented; return an interrupt that cut it short."""
        mark = object()
        begun = False
        try:
            if self._claim.setdefault(0, mark) is mark:
                begun = True
                self._context.run(self._callback)
        except Exception as error:  # noqa: BLE001 - no callback stops the others
            report(error, "Exception in a callback of a cancellation token", self._callback)
        except BaseException as interrupt:  # noqa: BLE001 - raised once all is done
            if not begun and self._claim and self._claim[0] is mark:
                self._claim = {}  # it came before the call: the next cancel makes it
                return interrupt
            self._forget()
            return interrupt
        self._forget()
        return None

    def __repr__(self) -> str:
        return f"<CallbackHandle of {self._callback!r}>"
