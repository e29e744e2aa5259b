"""The tokens of ASGI applications, driven message by message."""

import asyncio
import signal
from contextlib import asynccontextmanager, nullcontext
from types import SimpleNamespace

import pytest

from backoff_ticker import CancellationToken, Cancelled, DeadlineExceeded
from backoff_ticker.integrations.starlette import TokenMiddleware
from tests.helpers import turns

pytestmark = pytest.mark.asyncio

PATIENCE = 20


class Server:
    """What a server does with one connection; its application finds it in the scope."""

    def __init__(self, app, kind="http", headers=()):
        self.app = app
        self.scope = {"type": kind, "headers": list(headers), "state": {"own": 1}, "test": self}
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
        if message["type"] in {end["type"] for end in ENDS} and not message.get("more_body"):
            self.client_sends(GONE)  # as uvicorn and granian do

    async def serve(self):
        await asyncio.wait_for(self.app(self.scope, self.receive, self.send), PATIENCE)


async def serve(app, token=None, **options):
    """Serve one connection with an application; return what the server has sent."""
    server = Server(TokenMiddleware(app, token), **options)
    await server.serve()
    return server.sent


def body(content=b"", more=False):
    return {"type": "http.request", "body": content, "more_body": more}


START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"done"}
ENDS = [BODY, {"type": "http.response.pathsend", "path": "/page"}]
GONE = {"type": "http.disconnect"}


async def answer(send):
    await send(START)
    await send(BODY)


def token_of(scope):
    return scope["state"]["request_token"]


async def wait_for_cancel(scope):
    await token_of(scope).wait_async(PATIENCE)
    token_of(scope).raise_if_cancelled()


async def test_a_request_has_a_child_of_the_shutdown_token():
    seen = []

    async def app(scope, receive, send):
        state = scope["state"]
        seen.append((state["own"], state["shutdown_token"], token_of(scope)))
        await answer(send)

    parent = CancellationToken()
    app = TokenMiddleware(app, parent)
    for _ in range(2):
        await Server(app).serve()
    (own, shutdown, first), (_, same, second) = seen
    assert own == 1
    assert shutdown is same
    assert first is not second
    assert first.cancelled  # its request has ended
    assert not shutdown.cancelled
    parent.cancel("all")
    assert shutdown.cause == "all"


async def test_a_disconnect_cancels_the_token_though_the_application_does_not_read():
    async def app(scope, receive, send):
        scope["test"].client_sends(body(), GONE)
        assert await token_of(scope).wait_async(PATIENCE)
        assert token_of(scope).cause == "the client has disconnected"
        assert await receive() == body()
        assert await receive() == GONE
        assert await receive() == GONE  # as often as it asks

    await serve(app)


async def test_a_body_comes_in_order_and_is_read_one_message_ahead():
    parts = [body(b"1", True), body(b"2", True), body(b"3")]

    async def app(scope, receive, send):
        scope["test"].client_sends(*parts, GONE)
        await turns()
        assert scope["test"].reads == 1
        assert not token_of(scope).cancelled
        assert [await receive() for _ in range(3)] == parts
        assert await token_of(scope).wait_async(PATIENCE)

    await serve(app)


async def test_a_client_that_expects_to_be_asked_for_its_body_is_not_asked_before():
    async def app(scope, receive, send):
        await turns()
        assert scope["test"].reads == 0
        scope["test"].client_sends(body(b"1"))
        assert await receive() == body(b"1")
        await answer(send)

    await serve(app, headers=[(b"expect", b"100-continue")])


@pytest.mark.parametrize("last", ENDS)
async def test_the_end_of_the_answer_is_no_disconnect_for_background_tasks(last):
    async def app(scope, receive, send):
        scope["test"].client_sends(body())
        await send(START)
        await send(last)
        await turns()
        assert not token_of(scope).cancelled
        assert await receive() == body()
        assert await receive() == GONE
        tokens.append(token_of(scope))

    tokens = []
    await serve(app)
    assert tokens[0].cancelled


async def test_a_task_that_outlives_its_request_hears_of_the_end():
    async def app(scope, receive, send):
        async def read():
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks.append(asyncio.create_task(read()))
        scope["test"].client_sends(body())
        await send(START)
        await turns()

    tasks = []
    await serve(app)
    await asyncio.wait_for(tasks[0], PATIENCE)


async def test_an_error_of_the_server_reaches_whoever_receives():
    async def app(scope, receive, send):
        scope["test"].client_sends(OSError("reset"))
        for _ in range(2):
            with pytest.raises(OSError, match="reset"):
                await receive()
        await answer(send)

    await serve(app)


async def test_nothing_of_a_request_stays_behind():
    async def app(scope, receive, send):
        raise LookupError

    before = asyncio.all_tasks()
    for _ in range(3):
        with pytest.raises(LookupError):
            await serve(app)
    await turns()
    assert asyncio.all_tasks() == before


CANCELS = [Cancelled("SIGTERM"), ExceptionGroup("tasks", [Cancelled(), DeadlineExceeded()])]


@pytest.mark.parametrize(
    "error, is_cancelled",
    [
        *((error, False) for error in [*CANCELS, DeadlineExceeded(), LookupError()]),
        (LookupError(), True),
        (ExceptionGroup("both", [Cancelled(), LookupError()]), True),
    ],
)
async def test_other_errors_pass(error, is_cancelled):
    async def app(scope, receive, send):
        if is_cancelled:
            parent.cancel()
        raise error

    parent = CancellationToken()
    server = Server(TokenMiddleware(app, parent))
    with pytest.raises(type(error)):
        await server.serve()
    assert server.sent == []


@pytest.mark.parametrize("end", ["inner", "outer", "client"])
async def test_a_mounted_application_with_a_middleware_of_its_own_ends_with_the_outer_one(end):
    async def app(scope, receive, send):
        if end == "client":
            scope["test"].client_sends(body(), GONE)
        else:
            {"inner": inner, "outer": outer}[end].cancel()
        assert await token_of(scope).wait_async(PATIENCE)
        assert scope["state"]["shutdown_token"].cancelled is (end != "client")

    inner, outer = CancellationToken(), CancellationToken()
    await serve(TokenMiddleware(app, inner), outer)


@pytest.mark.parametrize("error", CANCELS)
@pytest.mark.parametrize(
    "begun, leaves, statuses",
    [
        ([], False, [503, None]),
        ([], True, [499, None]),  # which nobody gets, but middleware outside sees
        ([START], True, [200]),  # a stream
    ],
)
async def test_what_becomes_of_a_request_that_a_cancel_cut(begun, leaves, statuses, error):
    async def app(scope, receive, send):
        for message in begun:
            await send(message)
        if leaves:
            scope["test"].client_sends(body(), GONE)
        else:
            parent.cancel("SIGTERM")
        assert await token_of(scope).wait_async(PATIENCE)
        raise error

    parent = CancellationToken()
    sent = await serve(app, parent)
    assert [message.get("status") for message in sent] == statuses
    if not begun:
        start, end = sent
        assert dict(start["headers"])[b"content-length"] == str(len(end["body"])).encode()


async def test_a_server_may_refuse_to_send_to_a_client_that_has_left():
    async def app(scope, receive, send):
        scope["test"].client_sends(body(), GONE)
        await wait_for_cancel(scope)

    async def send(message):
        raise OSError("the client has disconnected")

    server = Server(TokenMiddleware(app))
    server.send = send
    await server.serve()


@pytest.mark.faults
@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_background_task_that_a_shutdown_cuts_ends_quietly(is_whole):
    async def app(scope, receive, send):
        await (answer(send) if is_whole else send(START))
        parent.cancel()
        token_of(scope).raise_if_cancelled()

    parent = CancellationToken()
    server = Server(TokenMiddleware(app, parent))
    with nullcontext() if is_whole else pytest.raises(Cancelled):
        await server.serve()
    assert len(server.sent) == (2 if is_whole else 1)


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_websocket_ends_with_the_client_or_the_server(leaves):
    async def app(scope, receive, send):
        scope["test"].client_sends({"type": "websocket.connect"})
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        if leaves:
            scope["test"].client_sends({"type": "websocket.disconnect", "code": 1000})
        else:
            parent.cancel("SIGTERM")
        await wait_for_cancel(scope)

    parent = CancellationToken()
    closed = [] if leaves else [{"type": "websocket.close", "code": 1001}]
    sent = await serve(app, parent, kind="websocket")
    assert sent == [{"type": "websocket.accept"}, *closed]


async def test_a_websocket_that_the_application_closes_is_no_disconnect_for_what_it_does_next():
    async def app(scope, receive, send):
        assert (await receive())["type"] == "websocket.connect"
        await turns()
        assert server.reads == 2
        await send({"type": "websocket.close", "code": 1013})
        server.client_sends({"type": "websocket.disconnect", "code": 1013})  # as servers do
        assert await receive() == {"type": "websocket.disconnect", "code": 1013}
        assert not token_of(scope).cancelled

    async def send(message):
        assert not server.is_receiving  # granian would wait forever

    server = Server(TokenMiddleware(app), "websocket")
    server.send = send
    server.client_sends({"type": "websocket.connect"})
    await server.serve()


class Starlette:
    """Enough of an application: it has a state, and remembers what it saw."""

    def __init__(self, fails=False):
        self.state = SimpleNamespace()
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


@asynccontextmanager
async def lifespan(app, outer):
    """Start the application, and shut it down after the block."""
    server = Server(outer, "lifespan")
    server.scope["app"] = app
    task = asyncio.create_task(server.serve())
    server.client_sends({"type": "lifespan.startup"})
    while not server.sent:
        await asyncio.sleep(0)
    yield
    server.client_sends({"type": "lifespan.shutdown"})
    await task


async def serves_requests(outer):
    request = Server(outer)
    await request.serve()
    return request.sent[0]["status"] == 200


async def test_the_shutdown_cancels_before_the_application_ends():
    app = Starlette()
    outer = TokenMiddleware(app)
    for _ in range(2):  # as a test client does
        async with lifespan(app, outer):
            assert await serves_requests(outer)
        assert await serves_requests(outer)  # as by a test client outside its `with` block
    assert app.causes == ["the server shuts down"] * 2


@pytest.fixture
def former_handlers():
    """What signals are handled by; it is put back."""
    formers = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    yield formers
    for number, former in formers.items():
        signal.signal(number, former)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_cancels_first_and_the_servers_handler_runs_next(former_handlers, number):
    app, calls = Starlette(), []

    def of_server(number, frame):
        calls.append((number, app.state.shutdown_token.cause))

    signal.signal(number, of_server)
    async with lifespan(app, TokenMiddleware(app)):
        signal.raise_signal(number)
        assert calls == [(number, signal.Signals(number).name)]
    assert signal.getsignal(number) is of_server


async def test_a_signal_without_a_handler_of_the_server_stays_so(former_handlers):
    app = Starlette()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    async with lifespan(app, TokenMiddleware(app)):
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def test_requests_are_served_where_the_application_refuses_the_lifespan():
    outer = TokenMiddleware(Starlette(fails=True))
    with pytest.raises(ValueError, match="lifespan is unknown"):
        await Server(outer, "lifespan").serve()
    assert await serves_requests(outer)


async def test_other_kinds_of_connections_pass():
    async def app(scope, receive, send):
        assert "request_token" not in scope["state"]
        await send({"type": "mqtt.hello"})

    assert await serve(app, kind="mqtt") == [{"type": "mqtt.hello"}]
