"""TCP sockets that are made inside a virtual clock send at once.

The system may hold back the end of a message until the peer has acknowledged what came before
(Nagle's algorithm), which a peer may put off for 40 ms. During these nobody in the process has
anything to do, so virtual time would move. asyncio itself turns that off, though not for sockets
that others have made.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._kernel import kernel_here

if TYPE_CHECKING:
    from collections.abc import Callable

_OF_THE_INTERNET = {socket.AF_INET, socket.AF_INET6}


def _making(original: Callable[..., Any]) -> Callable[..., Any]:
    def make(sock: socket.socket, /, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        original(sock, *args, **kwargs)
        if kernel_here() and sock.family in _OF_THE_INTERNET and sock.type == socket.SOCK_STREAM:
            with suppress(OSError):  # a stream may be another than TCP's
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    return make


SOCKET_PATCHES = [(socket.socket, "__init__", _making)]
"""Accepted sockets are made by it, too."""
