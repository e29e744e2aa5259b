"""Processes and sockets inside a virtual clock.

Time stands still while a process runs that an event loop has started, or a ``ProcessPoolExecutor``
has a job.

TCP sockets send at once. The system may hold back the end of a message until the peer has
acknowledged what came before (Nagle's algorithm), which a peer may put off for 40 ms. Nobody in the
process has anything to do meanwhile, so virtual time would move.
"""

from __future__ import annotations

import socket
from asyncio.base_subprocess import BaseSubprocessTransport
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._kernel import kernel_here
from .._reports import name_of
from ._loops import loop_kernel
from ._patches import around
from ._pools import call_last

if TYPE_CHECKING:
    from ._patches import Original

_OF_THE_INTERNET = {socket.AF_INET, socket.AF_INET6}


def _start(original: Original, transport: Any, loop: Any, *args: Any, **kwargs: Any) -> None:
    original(transport, loop, *args, **kwargs)
    kernel = loop_kernel(loop)
    if kernel is not None:
        _, command, *_ = args
        program = command if isinstance(command, (str, bytes)) else command[0]
        what = f"process {transport.get_pid()} ({program!r})"
        kernel.post(kernel.holds.setdefault, transport, what)


def _exit(original: Original, transport: Any, returncode: int) -> None:
    kernel = loop_kernel(transport._loop)
    if kernel is not None:
        kernel.post(kernel.holds.pop, transport, None)
    original(transport, returncode)


def _submit(original: Original, executor: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    kernel = kernel_here()
    if kernel is None:
        return original(executor, function, *args, **kwargs)
    key = object()

    def release(_: object) -> None:
        kernel.post(kernel.holds.pop, key, None)

    kernel.post(kernel.holds.setdefault, key, f"{name_of(function)} in a process pool")
    try:
        future = original(executor, function, *args, **kwargs)
    except BaseException:
        release(None)
        raise
    call_last(future, release)
    return future


def _make_socket(original: Original, sock: socket.socket, /, *args: Any, **kwargs: Any) -> None:
    original(sock, *args, **kwargs)
    if kernel_here() and sock.family in _OF_THE_INTERNET and sock.type == socket.SOCK_STREAM:
        with suppress(OSError):  # a stream may be another than TCP's
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


PROCESS_PATCHES = [
    (BaseSubprocessTransport, "__init__", around(_start)),
    (BaseSubprocessTransport, "_process_exited", around(_exit)),
    (ProcessPoolExecutor, "submit", around(_submit)),
    (socket.socket, "__init__", around(_make_socket)),  # accepted ones, too
]
