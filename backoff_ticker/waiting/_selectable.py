"""What tickers, channels and tokens have in common, so that ``select`` can wait for any of them."""

from __future__ import annotations

from abc import abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..clock import Clock
    from ._wait_set import Waiter, WaitSet


class Source:
    """Something that gives values, or one value, to readers that wait for it.

    A reader calls ``_begin_receive()`` and then ``_take_nowait()``. While that returns
    ``EMPTY`` it registers in ``_wait_sets()``, waits as ``_recheck()`` says, and tries again.

    The abstract methods are marked for type checkers; ``ABCMeta`` would slow down ``isinstance``.
    """

    __slots__ = ()

    _clock: Clock

    _ends_with_value: bool = False
    """Whether there is one value only, which is also the end; else the end is ``ENDED``."""

    @property
    def _ends_by_itself(self) -> bool:
        """Whether a wait for a value ends at some time, whatever others do."""
        return False

    @property
    def _timing_clock(self) -> Clock | None:
        """The clock whose time can make it ready; None: it becomes ready only by a wake-up."""
        return None

    @abstractmethod
    def _wait_sets(self) -> tuple[WaitSet, ...]:
        """Return where a waiter must register to be woken for anything that happens here."""

    @abstractmethod
    def _recheck(self, waiter: Waiter) -> float | None:
        """Return until when a registered waiter has to wait; None: it need not wait.

        ``waiter.limit`` if only a wake-up can help.
        """

    def _begin_receive(self) -> None:
        """Note that a reader has come: for one value, or, by ``merge()``, for the next."""

    @abstractmethod
    def _take_nowait(self, *, fresh: bool) -> object:
        """Take a value; return ``EMPTY`` if there is none yet, ``ENDED`` if none will come.

        No call may follow the step that takes the value: an interrupt there would lose it. A reader
        that has not waited yet is ``fresh``. What it raises is for this reader.
        """

    def _put_back(self, value: object) -> None:
        """Undo ``_take_nowait()`` for a reader that was interrupted; not called with ``ENDED``."""

    def _pass_on_wakeup(self) -> None:
        """Wake the next waiter, because one that was woken leaves without taking a value."""
