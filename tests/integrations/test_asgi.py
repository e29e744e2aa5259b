"""The tokens of ASGI applications, driven message by message."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading

import pytest

from backoff_ticker import CancellationToken, Cancelled, DeadlineExceeded
from backoff_ticker.integrations.starlette import TokenMiddleware

PATIENCE = 20


def on_a_loop(test):
    """Run a test in a new event loop."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


class Server:
    """What a server does with one connection."""

    def __init__(self, app, kind="http", headers=()):
        self.app = app
        self.scope = {"type": kind, "headers": list(headers), "state": {"own": 1}}
        self.sent = []
        self.reads = 0
        self._messages = asyncio.Queue()

    def client_sends(self, *messages):
        for message in messages:
            self._messages.put_nowait(message)

    async def receive(self):
        self.reads += 1
        self.is_receiving = True
        try:
            message = await self._messages.get()
        finally:
            self.is_receiving = False
        if isinstance(message, Exception):
            raise message
        return message

    async def send(self, message):
        self.sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.client_sends({"type": "http.disconnect"})  # as uvicorn does

    async def serve(self):
        await asyncio.wait_for(self.app(self.scope, self.receive, self.send), PATIENCE)


def body(content=b"", more=False):
    return {"type": "http.request", "body": content, "more_body": more}


async def answer(send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def token_of(scope):
    return scope["state"]["request_token"]


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


GONE = {"type": "http.disconnect"}


@on_a_loop
async def test_a_request_has_a_child_of_the_shutdown_token():
    seen = []

    async def app(scope, receive, send):
        state = scope["state"]
        seen.append((state["own"], state["shutdown_token"], token_of(scope)))
        await answer(send)

    parent = CancellationToken()
    app = TokenMiddleware(app, parent)
    for _ in range(2):
        server = Server(app)
        await server.serve()
    (own, shutdown, first), (_, same, second) = seen
    assert own == 1
    assert shutdown is same
    assert first is not second
    assert first.cancelled  # its request has ended
    assert not shutdown.cancelled
    parent.cancel("all")
    assert shutdown.cause == "all"


@on_a_loop
async def test_a_disconnect_cancels_the_token_though_the_application_does_not_read():
    async def app(scope, receive, send):
        server.client_sends(body(), GONE)
        assert await token_of(scope).wait_async(PATIENCE)
        assert token_of(scope).cause == "the client has disconnected"
        assert await receive() == body()
        assert await receive() == GONE
        assert await receive() == GONE  # as often as it asks
        seen.append(True)

    seen = []
    server = Server(TokenMiddleware(app))
    await server.serve()
    assert seen


@on_a_loop
async def test_an_endpoint_in_a_thread_ends_with_the_client():
    async def app(scope, receive, send):
        waiting = asyncio.create_task(asyncio.to_thread(token_of(scope).wait, PATIENCE))
        server.client_sends(body(), GONE)
        assert await waiting
        seen.append(True)

    seen = []
    server = Server(TokenMiddleware(app))
    await server.serve()
    assert seen


@on_a_loop
async def test_a_body_comes_in_order_and_is_read_one_message_ahead():
    parts = [body(b"1", True), body(b"2", True), body(b"3")]

    async def app(scope, receive, send):
        server.client_sends(*parts, GONE)
        await turns()
        assert server.reads == 1
        assert not token_of(scope).cancelled
        assert [await receive() for _ in range(3)] == parts
        assert await token_of(scope).wait_async(PATIENCE)
        seen.append(True)

    seen = []
    server = Server(TokenMiddleware(app))
    await server.serve()
    assert seen


@on_a_loop
async def test_a_client_that_expects_to_be_asked_for_its_body_is_not_asked_before():
    async def app(scope, receive, send):
        await turns()
        assert server.reads == 0
        server.client_sends(body(b"1"))
        assert await receive() == body(b"1")
        await answer(send)

    server = Server(TokenMiddleware(app), headers=[(b"expect", b"100-continue")])
    await server.serve()


@on_a_loop
async def test_the_end_of_the_answer_is_no_disconnect_for_background_tasks():
    async def app(scope, receive, send):
        server.client_sends(body())
        await answer(send)
        await turns()
        assert not token_of(scope).cancelled
        assert await receive() == body()
        assert await receive() == GONE
        seen.append(token_of(scope))

    seen = []
    server = Server(TokenMiddleware(app))
    await server.serve()
    assert seen[0].cancelled


@on_a_loop
async def test_a_file_that_the_server_sends_is_an_answer():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": "/page"})
        server.client_sends(body(), GONE)  # as granian does
        assert await receive() == body()
        assert await receive() == GONE
        seen.append(token_of(scope).cancelled)

    seen = []
    server = Server(TokenMiddleware(app))
    await server.serve()
    assert seen == [False]


@on_a_loop
async def test_a_task_that_outlives_its_request_hears_of_the_end():
    async def app(scope, receive, send):
        async def read():
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks.append(asyncio.create_task(read()))
        server.client_sends(body())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await turns()

    tasks = []
    server = Server(TokenMiddleware(app))
    await server.serve()
    await asyncio.wait_for(tasks[0], PATIENCE)


@on_a_loop
async def test_an_error_of_the_server_reaches_whoever_receives():
    async def app(scope, receive, send):
        server.client_sends(OSError("reset"))
        with pytest.raises(OSError, match="reset"):
            await receive()
        with pytest.raises(OSError, match="reset"):
            await receive()
        await answer(send)

    server = Server(TokenMiddleware(app))
    await server.serve()


@on_a_loop
async def test_nothing_of_a_request_stays_behind():
    async def app(scope, receive, send):
        raise LookupError

    before = asyncio.all_tasks()
    for _ in range(3):
        with pytest.raises(LookupError):
            await Server(TokenMiddleware(app)).serve()
    await turns()
    assert asyncio.all_tasks() == before


# A request that is cut short


@on_a_loop
async def test_a_request_that_a_cancel_cut_is_answered_with_503():
    async def app(scope, receive, send):
        parent.cancel("SIGTERM")
        token_of(scope).raise_if_cancelled()

    parent = CancellationToken()
    server = Server(TokenMiddleware(app, parent))
    await server.serve()
    start, end = server.sent
    assert start["status"] == 503
    assert dict(start["headers"])[b"content-length"] == str(len(end["body"])).encode()


@on_a_loop
async def test_a_request_whose_task_group_a_cancel_cut_is_answered_with_503():
    async def work(token):
        await token.wait_async(PATIENCE)
        token.raise_if_cancelled()

    async def app(scope, receive, send):
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(work(token_of(scope)))
            parent.cancel("SIGTERM")

    parent = CancellationToken()
    server = Server(TokenMiddleware(app, parent))
    await server.serve()
    assert server.sent[0]["status"] == 503


@on_a_loop
async def test_a_group_with_another_error_passes():
    async def app(scope, receive, send):
        parent.cancel()
        raise ExceptionGroup("both", [Cancelled(), LookupError()])

    parent = CancellationToken()
    with pytest.raises(ExceptionGroup, match="both"):
        await Server(TokenMiddleware(app, parent)).serve()


@pytest.mark.parametrize("refuses", [True, False])
@on_a_loop
async def test_middleware_outside_sees_a_status_if_the_client_has_left(refuses):
    async def app(scope, receive, send):
        server.client_sends(body(), GONE)
        await token_of(scope).wait_async(PATIENCE)
        token_of(scope).raise_if_cancelled()

    async def send(message):
        seen.append(message.get("status"))
        if refuses:
            raise OSError("the client has disconnected")

    seen = []
    server = Server(TokenMiddleware(app))
    server.send = send
    await server.serve()
    assert seen[0] == 499


@pytest.mark.parametrize("end", ["inner", "outer", "client"])
@on_a_loop
async def test_a_mounted_application_with_a_middleware_of_its_own_ends_with_the_outer_one(end):
    async def app(scope, receive, send):
        {"inner": inner.cancel, "outer": outer.cancel, "client": leave}[end]()
        assert await token_of(scope).wait_async(PATIENCE)
        seen.append(scope["state"]["shutdown_token"].cancelled)

    def leave():
        server.client_sends(body(), GONE)

    seen = []
    inner, outer = CancellationToken(), CancellationToken()
    server = Server(TokenMiddleware(TokenMiddleware(app, inner), outer))
    await server.serve()
    assert seen == [end != "client"]


@pytest.mark.parametrize("error", [Cancelled("another"), DeadlineExceeded(), LookupError()])
@on_a_loop
async def test_other_errors_pass(error):
    async def app(scope, receive, send):
        raise error

    server = Server(TokenMiddleware(app))
    with pytest.raises(type(error)):
        await server.serve()
    assert server.sent == []


@on_a_loop
async def test_an_answer_that_has_begun_is_left_alone():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        parent.cancel()
        token_of(scope).raise_if_cancelled()

    parent = CancellationToken()
    server = Server(TokenMiddleware(app, parent))
    with pytest.raises(Cancelled):
        await server.serve()
    assert len(server.sent) == 1


@on_a_loop
async def test_a_background_task_that_a_shutdown_cuts_ends_quietly():
    async def app(scope, receive, send):
        await answer(send)
        parent.cancel()
        token_of(scope).raise_if_cancelled()

    parent = CancellationToken()
    server = Server(TokenMiddleware(app, parent))
    await server.serve()
    assert [message["type"] for message in server.sent][-1] == "http.response.body"


@pytest.mark.parametrize("leaves", [True, False])
@on_a_loop
async def test_a_websocket_ends_with_the_client_or_the_server(leaves):
    async def app(scope, receive, send):
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        if leaves:
            server.client_sends({"type": "websocket.disconnect", "code": 1000})
        else:
            parent.cancel("SIGTERM")
        await token_of(scope).wait_async(PATIENCE)
        token_of(scope).raise_if_cancelled()

    parent = CancellationToken()
    server = Server(TokenMiddleware(app, parent), "websocket")
    server.client_sends({"type": "websocket.connect"})
    await server.serve()
    closed = [] if leaves else [{"type": "websocket.close", "code": 1001}]
    assert server.sent == [{"type": "websocket.accept"}, *closed]


@on_a_loop
async def test_a_websocket_that_the_application_closes_is_no_disconnect_for_what_it_does_next():
    async def app(scope, receive, send):
        assert (await receive())["type"] == "websocket.connect"
        await turns()
        assert server.reads == 2
        await send({"type": "websocket.close", "code": 1013})
        server.client_sends({"type": "websocket.disconnect", "code": 1013})  # as servers do
        assert await receive() == {"type": "websocket.disconnect", "code": 1013}
        seen.append(token_of(scope).cancelled)

    async def send(message):
        reading.append(server.is_receiving)

    reading = []
    seen = []
    server = Server(TokenMiddleware(app), "websocket")
    server.send = send
    server.client_sends({"type": "websocket.connect"})
    await server.serve()
    assert seen == [False]
    assert reading == [False]  # granian would wait forever


@on_a_loop
async def test_a_stream_whose_client_has_left_ends_quietly():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        server.client_sends(body(), GONE)
        await token_of(scope).wait_async(PATIENCE)
        token_of(scope).raise_if_cancelled()

    server = Server(TokenMiddleware(app))
    await server.serve()
    assert len(server.sent) == 1


# The lifespan


class State:
    pass


class Starlette:
    """Enough of an application: it has a state, and remembers what it saw."""

    def __init__(self, fails=False):
        self.state = State()
        self.causes = []
        self.fails = fails

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            if self.fails:
                raise ValueError("lifespan is unknown")
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.causes.append(self.state.shutdown_token.cause)
            await send({"type": "lifespan.shutdown.complete"})
        else:
            token_of(scope).raise_if_cancelled()
            await answer(send)


async def lifespan(app, outer):
    server = Server(outer, "lifespan")
    server.scope["app"] = app
    task = asyncio.create_task(server.serve())
    server.client_sends({"type": "lifespan.startup"})
    while not server.sent:
        await asyncio.sleep(0)
    return server, task


@on_a_loop
async def test_the_shutdown_cancels_before_the_application_ends():
    app = Starlette()
    outer = TokenMiddleware(app)
    for _ in range(2):  # as a test client does
        server, task = await lifespan(app, outer)
        request = Server(outer)
        await request.serve()
        assert request.sent[0]["status"] == 200
        server.client_sends({"type": "lifespan.shutdown"})
        await task
    assert app.causes == ["the server shuts down"] * 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@on_a_loop
async def test_a_signal_cancels_first_and_the_servers_handler_runs_next(number):
    app, calls = Starlette(), []

    def of_server(number, frame):
        calls.append((number, app.state.shutdown_token.cause))

    former = signal.signal(number, of_server)
    try:
        server, task = await lifespan(app, TokenMiddleware(app))
        signal.raise_signal(number)
        assert calls == [(number, signal.Signals(number).name)]
        server.client_sends({"type": "lifespan.shutdown"})
        await task
        assert signal.getsignal(number) is of_server
    finally:
        signal.signal(number, former)


@on_a_loop
async def test_handlers_that_were_set_later_are_kept_and_default_ones_never_touched():
    app = Starlette()

    def later(number, frame):
        pass

    formers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server, task = await lifespan(app, TokenMiddleware(app))
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        signal.signal(signal.SIGINT, later)
        server.client_sends({"type": "lifespan.shutdown"})
        await task
        assert signal.getsignal(signal.SIGINT) is later
    finally:
        for number, former in formers.items():
            signal.signal(number, former)


def test_in_another_thread_there_are_no_signals():
    former = signal.getsignal(signal.SIGINT)
    found = []

    async def main():
        app = Starlette()
        server, task = await lifespan(app, TokenMiddleware(app))
        found.append(signal.getsignal(signal.SIGINT))
        server.client_sends({"type": "lifespan.shutdown"})
        await task

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    thread.join(PATIENCE)
    assert found == [former]


async def serves_requests(outer):
    request = Server(outer)
    await request.serve()
    return request.sent[0]["status"] == 200


@on_a_loop
async def test_requests_are_served_where_the_application_has_no_lifespan():
    outer = TokenMiddleware(Starlette(fails=True))
    with pytest.raises(ValueError, match="lifespan is unknown"):
        await Server(outer, "lifespan").serve()
    assert await serves_requests(outer)


@on_a_loop
async def test_requests_are_served_where_the_application_ignores_the_lifespan():
    async def app(scope, receive, send):
        if scope["type"] == "http":
            token_of(scope).raise_if_cancelled()
            await answer(send)

    outer = TokenMiddleware(app)
    await Server(outer, "lifespan").serve()
    assert await serves_requests(outer)


@on_a_loop
async def test_requests_without_a_lifespan_are_served_after_one_that_has_ended():
    """As by a test client outside its `with` block."""
    app = Starlette()
    outer = TokenMiddleware(app)
    server, task = await lifespan(app, outer)
    server.client_sends({"type": "lifespan.shutdown"})
    await task
    assert await serves_requests(outer)


@on_a_loop
async def test_other_kinds_of_connections_pass():
    async def app(scope, receive, send):
        seen.append(scope["type"])

    seen = []
    await Server(TokenMiddleware(app), "mqtt").serve()
    assert seen == ["mqtt"]


@pytest.mark.parametrize("bad", [1, "token", CancellationToken])
def test_what_is_no_token_is_refused(bad):
    with pytest.raises(TypeError, match="token must be a CancellationToken, not "):
        TokenMiddleware(None, bad)
