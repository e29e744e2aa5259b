"""Time stands still while a process runs that an event loop of a virtual clock has started.

It does so only while the loop runs, since a loop that was left cannot notice the end of a process.
"""

from __future__ import annotations

from asyncio.base_subprocess import BaseSubprocessTransport
from typing import TYPE_CHECKING, Any

from ._loops import found_driver

if TYPE_CHECKING:
    from collections.abc import Callable


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(
        transport: Any,  # noqa: ANN401
        loop: object,
        protocol: object,
        args: Any,  # noqa: ANN401
        *more: object,
        **kwargs: object,
    ) -> None:
        original(transport, loop, protocol, args, *more, **kwargs)
        driver = found_driver(loop)
        if driver is not None:
            program = args if isinstance(args, (str, bytes)) else args[0]
            driver.hold_time(transport, f"process {transport.get_pid()} ({program!r})")

    return start


def _exiting(original: Callable[..., Any]) -> Callable[..., Any]:
    def process_exited(transport: Any, returncode: int) -> None:  # noqa: ANN401
        driver = found_driver(transport._loop)
        if driver is not None:
            driver.release_time(transport)
        original(transport, returncode)

    return process_exited


SUBPROCESS_PATCHES = [
    (BaseSubprocessTransport, "__init__", _starting),
    (BaseSubprocessTransport, "_process_exited", _exiting),
]
