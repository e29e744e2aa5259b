"""The tokens of Starlette and FastAPI, through their own test clients."""

import warnings
from typing import Annotated

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from backoff_ticker import CancellationToken
from backoff_ticker.integrations.starlette import TokenMiddleware, request_token, shutdown_token

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would prefer httpx2
    from starlette.testclient import TestClient


def test_the_body_and_mounted_applications_are_served_as_before():
    async def endpoint(request):
        content = await request.body()
        assert not await request.is_disconnected()
        assert not request.state.request_token.cancelled
        return PlainTextResponse(str(len(content)))

    inner = Starlette(routes=[Route("/", endpoint, methods=["POST"])])
    app = Starlette(routes=[Mount("/inner", inner)], middleware=[Middleware(TokenMiddleware)])
    client = TestClient(app)
    assert client.post("/inner/", content=b"x" * 1_000_000).text == "1000000"
    assert client.post("/inner/", content=iter([b"ab", b"c"])).text == "3"
    assert client.post("/inner/").text == "0"


def test_middleware_outside_sees_what_an_endpoint_leaves_in_the_state():
    seen = []

    def outer(app):
        async def serve(scope, receive, send):
            state = scope.setdefault("state", {})
            await app(scope, receive, send)
            seen.append(state.get("user"))

        return serve

    def endpoint(request):
        request.state.user = "ada"
        return PlainTextResponse("done")

    app = Starlette(
        routes=[Route("/", endpoint)], middleware=[Middleware(outer), Middleware(TokenMiddleware)]
    )
    TestClient(app).get("/")
    assert seen == ["ada"]


def test_dependencies_of_fastapi():
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()
    app.add_middleware(TokenMiddleware)
    stop = Annotated[CancellationToken, fastapi.Depends(request_token)]
    shutdown = Annotated[CancellationToken, fastapi.Depends(shutdown_token)]

    def endpoint(request, stop, shutdown):
        assert stop is request.state.request_token
        assert shutdown is request.state.shutdown_token
        return "done"

    # In this module annotations are texts, which FastAPI cannot resolve to local names.
    endpoint.__annotations__ = {"request": fastapi.Request, "stop": stop, "shutdown": shutdown}
    app.get("/")(endpoint)
    with TestClient(app) as client:
        assert client.get("/").json() == "done"


@pytest.mark.parametrize("dependency", [request_token, shutdown_token])
def test_a_dependency_without_the_middleware_says_what_is_missing(dependency):
    async def endpoint(request):
        await dependency(request)

    with pytest.raises(RuntimeError, match=r"call app.add_middleware\(TokenMiddleware\)"):
        TestClient(Starlette(routes=[Route("/", endpoint)])).get("/")
