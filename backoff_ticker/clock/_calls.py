"""A callback that is called once, or prevented."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class PendingCall:
    """A callback for a time. The clock takes it, or ``cancel()`` does, whichever comes first.

    Attributes:
        when: The time at which it is due, in the clock's monotonic seconds.
    """

    __slots__ = ("_callbacks", "when")

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when: float = when
        self._callbacks = [callback]

    @property
    def is_taken(self) -> bool:
        return not self._callbacks

    def take(self) -> Callable[[], object] | None:
        """Return the callback; the next call returns None. Any thread may do so."""
        try:
            return self._callbacks.pop()
        except IndexError:
            return None

    def fire(self) -> None:
        """Make the call, unless it was taken."""
        callback = self.take()
        if callback is not None:
            callback()

    def cancel(self) -> bool:
        """Prevent the call; True if this is what prevented it. It never blocks."""
        return self.take() is not None
