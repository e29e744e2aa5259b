"""What ``select`` needs of a source: a ticker, a channel, a token."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

    from ..clock import Clock
    from ._parking import LoopWaiter, ThreadWaiter
    from ._wait_set import WaitSet


class Source:
    """Something that brings values, or one, and can be waited for together with others."""

    __slots__ = ()

    _clock: Clock

    _once: ClassVar[bool] = False
    """Whether it brings one value, which is its end, too; else ``ENDED`` tells of it."""

    @property
    def _timed_by(self) -> Clock | None:
        """The clock that its readiness depends on; None: time alone brings nothing."""
        return None

    def _wait_sets(self) -> tuple[WaitSet, ...]:
        """Return all that can wake whoever waits for it."""
        raise NotImplementedError

    def _recheck(self, waiter: ThreadWaiter | LoopWaiter) -> float | None:
        """Tell a waiter that is registered until when to wait; None: not at all."""
        raise NotImplementedError

    def _ask(self) -> None:
        """Count as asked for a value; called before the first ``_try``."""

    def _try(self, *, fresh: bool) -> object:
        """Take its value: ``EMPTY`` if there is none yet, ``ENDED`` if none comes any more.

        Between the last step that takes it and the return stands no call, so that no interrupt
        can come between.

        Args:
            fresh: Whether who asks has not waited yet.
        """
        raise NotImplementedError

    def _put_back(self, value: object) -> None:
        """Undo a ``_try`` that took ``value``, for somebody interrupted before he could use it.

        Not called for an end.
        """

    def _pass_on_wakeup(self) -> None:
        """Wake the next who waits for it, after somebody who was woken left without its value."""
