"""A server that answers each request as it is told, or does worse, and counts what reached it."""

import contextlib
import socket
import struct
import threading
from http.client import parse_headers
from typing import NamedTuple

PATIENCE = 30.0


class Received(NamedTuple):
    """One request that reached the server, as a whole."""

    method: str
    path: str
    body: bytes


class Connection:
    """A connection to the server."""

    is_head = False

    def __init__(self, accepted, server):
        self.socket, self.server = accepted, server
        self.file = accepted.makefile("rb")

    def _line(self):
        if line := self.file.readline():
            return line
        raise ConnectionError

    def _exactly(self, size):
        if len(found := self.file.read(size)) == size:
            return found
        raise ConnectionError

    def _chunks(self):
        while size := int(self._line(), 16):
            yield self._exactly(size)
            self._exactly(2)
        self._exactly(2)

    def receive(self):
        """Read one request."""
        method, path, _ = self._line().decode("latin-1").split(" ")
        headers = parse_headers(self.file)
        if headers["Expect"] == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers["Transfer-Encoding"] == "chunked":
            body = b"".join(self._chunks())
        else:
            body = self._exactly(int(headers["Content-Length"] or "0"))
        self.is_head = method == "HEAD"
        return Received(method, path, body)

    def answer_early(self):
        """Answer 503 once the headers are there, and close the connection."""
        self._line()
        parse_headers(self.file)
        self.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    def send(self, data):
        """Send bytes as they are."""
        self.socket.sendall(data)

    def reset(self):
        """End the connection with a reset instead of an orderly close."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        """Close it at once."""
        self.file.close()
        self.socket.close()


def answer(status, body=b"", **headers):
    """Answer; the connection stays open. Underscores in names of fields stand for hyphens."""
    fields = {
        "Content-Length": str(len(body)),
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    head = f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode()
    return lambda connection: connection.send(head if connection.is_head else head + body)


def reset(connection):
    """Reset the connection once the request was read."""
    connection.reset()


def breaks_off(data=b""):
    """Send so much once the request was read, and close the connection."""

    def behave(connection):
        connection.send(data)
        connection.close()

    return behave


disconnect = breaks_off()
half_an_answer = breaks_off(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def hang(connection):
    """Say nothing until the server ends."""
    connection.server.hung.set()
    connection.server.ended.wait(PATIENCE)


def endless_body(status=200, **headers):
    """Send headers and the first byte of a body, and nothing more until the server ends."""

    def behave(connection):
        answer(status, b"x", Content_Length="1000000", **headers)(connection)
        hang(connection)

    return behave


class MisbehavingServer:
    """A server on loopback that handles the n-th request as the n-th behaviour says.

    Args:
        behaviours: Called with the connection of a request, in order.
        reset_first: How many connections are reset before anything is read.
        early_first: How many are answered before the body is read, and closed.

    It has its port at once, where no connection is made until it is entered.
    """

    def __init__(self, *behaviours, reset_first=0, early_first=0):
        self._behaviours = list(behaviours)
        self._first = [Connection.reset] * reset_first + [Connection.answer_early] * early_first
        self._lock = threading.Lock()
        self._threads = []
        self._open = []
        self.received = []
        self.connections = 0
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.hung = threading.Event()
        self.ended = threading.Event()

    @property
    def methods(self):
        """The methods of the requests that reached it."""
        return " ".join(each.method for each in self.received)

    @property
    def bodies(self):
        """The bodies of the requests that reached it."""
        return [each.body for each in self.received]

    def usual(self, connection):
        """Answer a request for which there is no behaviour."""
        answer(200, b"fine")(connection)

    def __enter__(self):
        self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self.ended.set()
        with self._listener, contextlib.suppress(OSError):  # it may not have been entered
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.append(accepted)
                if self.ended.is_set():
                    accepted.close()
            self._start(self._serve, Connection(accepted, self))

    def _serve(self, connection):
        with contextlib.closing(connection), contextlib.suppress(OSError):
            with self._lock:
                first = self._first.pop(0) if self._first else None
            if first is not None:
                first(connection)
                return
            while not connection.file.closed:
                connection.request = connection.receive()
                with self._lock:
                    self.received.append(connection.request)
                    behave = self._behaviours.pop(0) if self._behaviours else self.usual
                behave(connection)


def unused_port():
    """Return a port of loopback on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
