"""What the parts of a virtual clock share: the kernel, and who may call what where."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from .._validation import safe_repr
from ._errors import ClockUsageError

if TYPE_CHECKING:
    from ._kernel import Kernel
    from ._participant import Participant


def check_callable(name: str, value: object) -> None:
    """Refuse what cannot be called.

    Raises:
        TypeError: ``value`` cannot.
    """
    if not callable(value):
        raise TypeError(f"{name} must be callable, not {safe_repr(value)}")


class ClockBase:
    """Has a kernel."""

    _kernel: Kernel

    def _refuse_in_loop(self, what: str, instead: str) -> None:
        if asyncio._get_running_loop() is not None:
            raise ClockUsageError(f"{what} would block this event loop for ever; use {instead}")

    def _refuse_if_closed(self, what: str) -> None:
        if self._kernel.closed:
            raise ClockUsageError(f"{what} of a clock that is closed")

    def _refuse_in_participant(self, what: str) -> None:
        kernel = self._kernel
        self._refuse_if_closed(what)
        kernel.refuse_in_callback(what)
        participant = kernel.by_ident.get(threading.get_ident())
        if participant is not None:
            raise ClockUsageError(
                f"{what} in {participant.name!r}, which the clock waits for: only a thread that it "
                "does not track can drive it"
            )

    def _counted_here(self) -> Participant | None:
        ident = threading.get_ident()
        driver = self._kernel.driver
        found = self._kernel.by_ident.get(ident) or (driver if driver.ident == ident else None)
        return found if found is not None and found.counted else None
