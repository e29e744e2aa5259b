"""Processes and sockets inside a virtual clock.

Time stands still while a process runs that an event loop has started, or a ``ProcessPoolExecutor``
has a job. A loop's processes hold time only while the loop runs, since a loop that was left cannot
notice their end.

TCP sockets send at once. The system may hold back the end of a message until the peer has
acknowledged what came before (Nagle's algorithm), which a peer may put off for 40 ms. Nobody in the
process has anything to do meanwhile, so virtual time would move.
"""

from __future__ import annotations

import socket
from asyncio.base_subprocess import BaseSubprocessTransport
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._kernel import kernel_here
from .._reports import name_of
from ._loops import found_driver

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_THE_INTERNET = {socket.AF_INET, socket.AF_INET6}


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(transport: Any, loop: Any, protocol: Any, args: Any, *rest: Any, **kw: Any) -> None:  # noqa: ANN401
        original(transport, loop, protocol, args, *rest, **kw)
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


def _submitting(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(executor: Any, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        kernel = kernel_here()
        if kernel is None:
            return original(executor, function, *args, **kwargs)  # type: ignore[no-any-return]
        key = object()

        def release(_: Any) -> None:  # noqa: ANN401
            kernel.post(kernel.release_time, key)

        kernel.post(kernel.hold_time, key, f"{name_of(function)} in a process pool")
        try:
            future: Future[Any] = original(executor, function, *args, **kwargs)
        except BaseException:
            release(None)
            raise
        # After all other callbacks, which wake those that wait for the future.
        future.add_done_callback(lambda done: done._done_callbacks.append(release))  # type: ignore[attr-defined]
        return future

    return submit


def _making_socket(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(sock: socket.socket, /, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(sock, *args, **kwargs)
        if kernel_here() and sock.family in _OF_THE_INTERNET and sock.type == socket.SOCK_STREAM:
            with suppress(OSError):  # a stream may be another than TCP's
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    return make


PROCESS_PATCHES = [
    (BaseSubprocessTransport, "__init__", _starting),
    (BaseSubprocessTransport, "_process_exited", _exiting),
    (ProcessPoolExecutor, "submit", _submitting),
    (socket.socket, "__init__", _making_socket),
]
"""Accepted sockets are made by ``socket.socket``, too."""
