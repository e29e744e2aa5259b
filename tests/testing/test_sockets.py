"""Sockets of event loops and threads on the virtual clock."""

import asyncio
import socket
import threading
from contextlib import closing

import pytest

from backoff_ticker.testing import VirtualClock
from tests import effort

from .real_threads import RealThread


@pytest.fixture
def late_server():
    """A server in a thread that no clock knows; it answers each client after a real moment."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve():
            for _ in range(2):
                with closing(server.accept()[0]) as client:
                    threading.Event().wait(0.05)
                    client.sendall(b"hello")

        thread = RealThread(serve)
        yield server.getsockname()
        thread.join(10)


def test_time_stands_still_for_a_real_socket_inside_external(auto, late_server):
    async def ask():
        async with asyncio.timeout(1):
            with auto.external("the server"):
                reader, writer = await asyncio.open_connection(*late_server)
                answer = await reader.read()
                writer.close()
                await writer.wait_closed()
        return answer

    def ask_in_thread():
        with auto.external("the server"), closing(socket.create_connection(late_server)) as client:
            return client.recv(100)

    assert asyncio.run(ask()) == b"hello"
    other = auto.spawn(auto.sleep, 5)
    assert auto.spawn(ask_in_thread).result() == b"hello"
    assert auto.monotonic() == 0.0
    other.join()
    assert auto.monotonic() == 5.0


async def _ask(address):
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"x")
        answer = await reader.read(10)
        writer.close()
        await writer.wait_closed()
    return answer


def test_a_thread_answers_a_loop_over_a_socket_before_its_time_out(switching):
    for _ in range(effort.rounds(8, 50)):
        with VirtualClock(auto=True) as clock, socket.create_server(("127.0.0.1", 0)) as server:

            def serve(server=server, clock=clock):
                with closing(server.accept()[0]) as client:
                    request = client.recv(10)
                    clock.sleep(2)
                    client.sendall(request)

            threading.Thread(target=serve).start()
            assert asyncio.run(_ask(server.getsockname())) == b"x"
            assert clock.monotonic() == 2.0


async def _converse(address, rounds):
    """Ask again and again; an answer comes in two pieces."""
    reader, writer = await asyncio.open_connection(*address)
    for _ in range(rounds):
        writer.write(b"x")
        assert await asyncio.wait_for(reader.readexactly(2), 3600) == b"ok"
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("pieces", "work"),
    [([b"o", b"k"], 0), ([b"ok"], 10_000)],
    ids=["in two pieces", "after some work"],
)
def test_a_thread_that_serves_inside_idle_answers_in_time(switching, pieces, work):
    rounds = effort.rounds(20, 500)
    with VirtualClock(auto=True) as clock, socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with clock.idle("serving"), closing(server.accept()[0]) as client:
                while client.recv(1):
                    sum(range(work))
                    for piece in pieces:
                        client.sendall(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        asyncio.run(_converse(server.getsockname(), rounds))
        thread.join()
        assert clock.monotonic() == 0.0
