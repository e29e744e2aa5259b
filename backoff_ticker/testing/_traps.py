"""Traps hold calls of a clock's methods until the test releases them."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from .._validation import safe_repr
from ._errors import ClockUsageError, SettleTimeout
from ._participants import ParkingPlace
from ._thread_side import VirtualParker, wait_for_turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from ._kernel import Kernel

_KINDS = ("monotonic", "time", "call_at", "parker")


class Call(ParkingPlace):
    """A call that a trap holds, as ``Trap.wait()`` returns it.

    Attributes:
        args: The arguments of the call.
        thread: The name of the calling thread.
        held: Whether the call is still held.

    Example:
        >>> from backoff_ticker.testing import VirtualClock
        >>> with VirtualClock() as clock, clock.trap("time") as trap:
        ...     task = clock.spawn(clock.time, name="reader")
        ...     print(trap.wait())
        <Call with () in thread 'reader'>
    """

    def __init__(self, kernel: Kernel, what: str, args: tuple[Any, ...]) -> None:
        super().__init__(what, for_work=True)  # the test ends it: it is not part of a deadlock
        self.args: tuple[Any, ...] = args
        self.thread: str = threading.current_thread().name
        self.held: bool = True
        self._kernel = kernel

    def release(self) -> None:
        """Let the call continue. A second call does nothing."""
        self.held = False
        self._kernel.post(self._kernel.unpark, self)

    def __repr__(self) -> str:
        return f"<Call with {self.args!r} in thread {self.thread!r}>"


class Trap:
    """Stops each call of one method of the clock until you release it; ``clock.trap()`` makes it.

    Time may move while a call is held. The end of a ``with`` block closes the trap. ``kind`` is the
    name of the method.

    Example:
        >>> from backoff_ticker.testing import VirtualClock
        >>> with VirtualClock() as clock, clock.trap("monotonic") as trap:
        ...     elapsed = clock.spawn(lambda: -clock.monotonic() + clock.monotonic())
        ...     trap.wait().release()
        ...     second = trap.wait()
        ...     _ = clock.advance(5)  # between the two reads
        ...     second.release()
        ...     print(elapsed.result())
        5.0
    """

    def __init__(self, kernel: Kernel, kind: str, match: Callable[..., object] | None) -> None:
        if kind not in _KINDS:
            raise ClockUsageError(f"kind must be one of {', '.join(_KINDS)}, not {safe_repr(kind)}")
        self.kind: str = kind
        self._kernel = kernel
        self._match = match
        self._calls: deque[Call] = deque()
        self._held: list[Call] = []  # and those that were
        self._on_call: Callable[[], object] | None = None
        kernel.traps.append(self)

    def catch(self, args: tuple[Any, ...]) -> None:
        """Hold the call that this thread is making, if it matches."""
        kernel = self._kernel
        participant = kernel.by_ident.get(threading.get_ident())
        if participant is None or (self._match and not self._match(*args)):
            return
        call = Call(kernel, f"a trap of {self.kind}()", args)

        def hold() -> None:
            kernel.park(participant, call, None)
            if self not in kernel.traps:  # it has been closed
                call.release()
                return
            self._held.append(call)
            self._calls.append(call)
            if self._on_call is not None:
                self._on_call()

        wait_for_turn(kernel, participant, lambda: kernel.post(hold))

    def wait(self) -> Call:
        """Wait, in one thread at a time, until a call is held; each is returned once.

        Raises:
            SettleTimeout: Every participant waits and none has made such a call, or one neither
                waits nor ends.
            VirtualDeadlockError: The same, with auto-advance.
            UntrackedThreadError: This thread is not a participant.
        """
        parker = VirtualParker(self._kernel, f"a call of {self.kind}()", gives_up=True)
        self._on_call = parker.unpark
        if not self._calls:
            parker.park(None)
        self._on_call = None
        if not self._calls:
            raise SettleTimeout(f"no call of {self.kind}() came, and every participant waits")
        return self._calls.popleft()

    def close(self) -> None:
        """Hold no more calls, and release those that are held."""
        traps = self._kernel.traps
        self._kernel.query(lambda: traps.remove(self) if self in traps else None)
        for call in self._held:
            call.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
