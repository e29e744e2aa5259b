"""Event loops that are made or run inside a virtual clock are its participants."""

from __future__ import annotations

import asyncio
from asyncio import base_events, selector_events
from typing import TYPE_CHECKING, Any

from ._loop_driver import driver_of
from ._tracking import kernel_here

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._kernel import Kernel


def _running_for_ever(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_forever(loop: Any) -> None:  # noqa: ANN401
        kernel = None if isinstance(loop, VirtualLoop) else kernel_here()
        if kernel is None:
            original(loop)
            return
        with driver_of(loop, kernel).running():
            original(loop)

    return run_forever


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop of a virtual clock, wherever it runs."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.virtual_kernel: Kernel = kernel
        driver_of(self, kernel)

    def run_forever(self) -> None:
        """Run until ``stop()`` is called, as a participant of the clock."""
        if self.virtual_kernel.closed:
            super().run_forever()
            return
        with driver_of(self, self.virtual_kernel).running():
            super().run_forever()


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(loop: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(loop, *args, **kwargs)
        kernel = None if isinstance(loop, VirtualLoop) else kernel_here()
        if kernel is not None:
            driver_of(loop, kernel)

    return make


LOOP_PATCHES = [
    (base_events.BaseEventLoop, "run_forever", _running_for_ever),
    (selector_events.BaseSelectorEventLoop, "__init__", _making),
]
