"""Other people's packages on the virtual clock: one test for each row of the page's table."""

import asyncio
import datetime as dt
import multiprocessing
import re
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from backoff_ticker import Channel
from backoff_ticker.testing import UntrackedLoopError, VirtualClock
from tests.helpers import python

from .real_threads import on_linux

PAGE = Path(__file__).parents[2] / "docs" / "testing_other_code.md"


def test_each_row_of_the_table_is_run_by_a_test_of_its_name():
    table = PAGE.read_text().partition("## Libraries")[2].partition("\nOf the stand")[0]
    rows = re.findall(r"^\| ([\w.-]+)", table, re.MULTILINE)
    assert len(rows) > 15
    for row in rows:
        assert f"test_{re.sub(r'[.-]', '_', row.lower())}" in globals(), row


@on_linux
def test_aiodns(auto_clock):
    aiodns = pytest.importorskip("aiodns")

    async def main():
        resolver = aiodns.DNSResolver()  # starts a thread that waits in a queue
        await asyncio.sleep(3600)
        await resolver.close()
        await asyncio.sleep(3600)

    asyncio.run(main())
    assert auto_clock.monotonic() == 7200


@pytest.mark.parametrize("limit", [1, 10])
def test_aiohttp(auto_clock, limit):
    aiohttp = pytest.importorskip("aiohttp")
    test_utils = pytest.importorskip("aiohttp.test_utils")

    async def answer(_request):
        await asyncio.sleep(5)
        return aiohttp.web.Response(text="late")

    async def main():
        app = aiohttp.web.Application()
        app.router.add_get("/", answer)
        timeout = aiohttp.ClientTimeout(total=limit)
        async with (
            test_utils.TestServer(app) as server,
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(server.make_url("/")) as response,
        ):
            return await response.text()

    if limit < 5:
        with pytest.raises(TimeoutError):
            asyncio.run(main())
    else:
        assert asyncio.run(main()) == "late"
    assert auto_clock.monotonic() == min(limit, 5)


@on_linux
def test_aiosqlite(auto_clock):
    aiosqlite = pytest.importorskip("aiosqlite")

    async def main():
        async with aiosqlite.connect(":memory:") as database:
            await database.execute("CREATE TABLE numbers (number)")
            for number in range(10):
                async with asyncio.timeout(1):
                    await database.execute("INSERT INTO numbers VALUES (?)", (number,))
                await asyncio.sleep(60)
            async with database.execute("SELECT sum(number) FROM numbers") as rows:
                return await rows.fetchone()

    assert asyncio.run(main()) == (45,)
    assert auto_clock.monotonic() == 600


def test_anyio(auto_clock):
    anyio = pytest.importorskip("anyio")

    async def main():
        with anyio.move_on_after(5) as scope:
            await anyio.sleep(10)
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 3)
            group.start_soon(anyio.sleep, 7)
        for _ in range(3):
            await anyio.to_thread.run_sync(auto_clock.sleep, 2)
            await anyio.sleep(1)
        async with anyio.from_thread.BlockingPortal() as portal:
            await anyio.to_thread.run_sync(lambda: portal.call(anyio.sleep, 4))
        return scope.cancelled_caught

    assert anyio.run(main)
    assert auto_clock.monotonic() == 25


@pytest.mark.parametrize("kind", ["background", "asyncio"])
def test_apscheduler(patched_clock, kind):
    pytest.importorskip("time_machine")
    schedulers = pytest.importorskip(f"apscheduler.schedulers.{kind}")
    times = []
    scheduler_class = getattr(schedulers, f"{kind.capitalize()}Scheduler".replace("io", "IO"))

    async def main():
        scheduler = scheduler_class(timezone=dt.UTC)
        scheduler.add_job(lambda: times.append(patched_clock.monotonic()), "interval", hours=1)
        scheduler.start()
        await asyncio.sleep(3600 * 3 + 1)
        scheduler.shutdown(wait=False)

    asyncio.run(main())
    assert times == [3600, 7200, 10800]


@pytest.mark.parametrize("patch_time", [False, True])
def test_blockbuster(patch_time):
    blockbuster = pytest.importorskip("blockbuster")
    taken = threading.Lock()
    taken.acquire()
    with blockbuster.blockbuster_ctx(), VirtualClock(auto=True, patch_time=patch_time) as clock:

        async def main():
            await asyncio.sleep(3)
            await asyncio.to_thread(clock.sleep, 1)
            with clock.external("nothing"):
                assert len(clock.pending()) == 1
            await asyncio.sleep(3)
            with pytest.raises(blockbuster.BlockingError):
                taken.acquire()

        thread = threading.Thread(target=clock.sleep, args=(50,))
        thread.start()
        asyncio.run(main())
        assert clock.monotonic() == 7
        thread.join()


def test_cachetools(auto_clock):
    cachetools = pytest.importorskip("cachetools")
    cache = cachetools.TTLCache(10, ttl=60, timer=auto_clock.monotonic)
    cache["key"] = "value"
    auto_clock.sleep(59)
    assert "key" in cache
    auto_clock.sleep(1)
    assert "key" not in cache


def test_httpx(auto_clock):
    httpx = pytest.importorskip("httpx")
    address = Channel(1)

    async def serve():
        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(5)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlate")
            writer.close()
            served.append(1)
            if len(served) == 2:
                done.set()

        served, done = [], asyncio.Event()
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            address.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await done.wait()

    async def ask(url):
        async with httpx.AsyncClient(timeout=10) as client:
            return (await client.get(url)).text

    server = auto_clock.spawn(lambda: asyncio.run(serve()))
    url = address.receive()
    assert asyncio.run(ask(url)) == "late"
    with auto_clock.idle("an answer"), httpx.Client() as client:
        assert client.get(url).text == "late"
    server.join()
    assert auto_clock.monotonic() == 10


def test_janus(auto_clock):
    janus = pytest.importorskip("janus")

    async def main():
        items = janus.Queue()
        got = []

        def take():
            while (item := items.sync_q.get()) is not None:
                got.append((item, auto_clock.monotonic()))

        taker = asyncio.create_task(asyncio.to_thread(take))
        for item in "ab":
            await asyncio.sleep(60)
            await items.async_q.put(item)
        await asyncio.sleep(60)
        await items.async_q.put(None)
        await taker
        await items.aclose()
        return got

    assert asyncio.run(main()) == [("a", 60), ("b", 120)]


def test_limits(patched_clock):
    limits = pytest.importorskip("limits")
    limiter = limits.strategies.FixedWindowRateLimiter(limits.storage.MemoryStorage())
    twice = limits.parse("2/minute")
    assert [limiter.hit(twice) for _ in range(3)] == [True, True, False]
    patched_clock.sleep(60)
    assert limiter.hit(twice)
    patched_clock.sleep(1)


@pytest.mark.slow
def test_multiprocessing_pool():
    with closing(multiprocessing.get_context("spawn").Pool(1)) as pool:
        pool.apply(abs, (-1,))
        with VirtualClock(auto=True) as clock:
            other = clock.spawn(clock.sleep, 5)
            with clock.external("the pool"):
                assert pool.apply(abs, (-1,)) == 1
                assert clock.monotonic() == 0
            other.join()
    pool.terminate()
    pool.join()


def test_pytest_timeout(request):
    plugin = pytest.importorskip("pytest_timeout")
    settings = plugin._get_item_settings(request.node)._replace(timeout=60, method="thread")
    request.node.cancel_timeout()
    for options in ({}, {"patch_time": True}):
        with VirtualClock(auto=True, settle_timeout=1, **options) as clock:
            plugin.pytest_timeout_set_timer(request.node, settings)
            clock.sleep(3600)
            request.node.cancel_timeout()


def test_schedule(patched_clock):
    pytest.importorskip("time_machine")
    schedule = pytest.importorskip("schedule")
    times, scheduler = [], schedule.Scheduler()
    scheduler.every(10).minutes.do(lambda: times.append(patched_clock.monotonic()))
    while len(times) < 2:
        time.sleep(scheduler.idle_seconds)
        scheduler.run_pending()
    assert times == [600, 1200]


def test_starlette(auto_clock):
    responses = pytest.importorskip("starlette.responses")
    applications = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    testclient = pytest.importorskip("starlette.testclient")

    async def in_loop(_request):
        await asyncio.sleep(5)
        return responses.PlainTextResponse("loop")

    def in_thread(_request):
        auto_clock.sleep(5)
        return responses.PlainTextResponse("thread")

    routes = [routing.Route("/loop", in_loop), routing.Route("/thread", in_thread)]
    with testclient.TestClient(applications.Starlette(routes=routes)) as client:
        assert [client.get(path).text for path in ("/loop", "/thread")] == ["loop", "thread"]
    assert auto_clock.monotonic() == 10


def test_tenacity(patched_clock):
    tenacity = pytest.importorskip("tenacity")
    calls = []
    retry = tenacity.retry(stop=tenacity.stop_after_delay(50), wait=tenacity.wait_fixed(10))

    @retry
    def call():
        calls.append(time.monotonic())
        raise ConnectionError

    @retry
    async def call_async():
        call.__wrapped__()

    with pytest.raises(tenacity.RetryError):
        call()
    with pytest.raises(tenacity.RetryError):
        asyncio.run(call_async())
    assert calls == [0, 10, 20, 30, 40, 50, 50, 60, 70, 80, 90, 100]


def test_time_machine(patched_clock):
    pytest.importorskip("time_machine")
    start = dt.datetime.now(dt.UTC)
    patched_clock.sleep(3600)
    assert dt.datetime.now(dt.UTC) - start == dt.timedelta(hours=1)
    assert time.localtime() == time.localtime(patched_clock.time())


TRIO = """
import trio
from backoff_ticker.testing import VirtualClock

with VirtualClock(auto=True) as clock:
    async def main():
        for _ in range(3):
            await trio.to_thread.run_sync(clock.sleep, 60)

    with clock.idle("trio"):
        trio.run(main)
    clock.sleep(60)  # while the thread of trio waits for more work
    print(clock.monotonic())
"""


@on_linux
def test_trio():
    """In a process of its own: trio keeps idle threads, which another test may have started."""
    pytest.importorskip("trio")
    done = python("-c", TRIO)
    assert (done.returncode, done.stdout, done.stderr) == (0, "240.0\n", "")


def test_uvicorn(auto_clock):
    uvicorn = pytest.importorskip("uvicorn")
    httpx = pytest.importorskip("httpx")

    async def app(_scope, _receive, send):
        await asyncio.sleep(5)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"late"})

    config = uvicorn.Config(app, port=0, loop="asyncio", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        auto_clock.sleep(0.1)
    port = server.servers[0].sockets[0].getsockname()[1]

    async def ask():
        async with httpx.AsyncClient(timeout=10) as client:
            return (await client.get(f"http://127.0.0.1:{port}")).text

    assert asyncio.run(ask()) == "late"
    server.should_exit = True
    thread.join()


@pytest.mark.usefixtures("auto_clock")
def test_uvloop():
    uvloop = pytest.importorskip("uvloop")
    with (
        closing(uvloop.new_event_loop()) as loop,
        pytest.raises(UntrackedLoopError, match="asyncio's own loops"),
    ):
        loop.run_forever()
