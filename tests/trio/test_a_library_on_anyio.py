"""A small library written on anyio, which retries and polls, and its tests on both back ends."""

from contextlib import closing
from itertools import cycle
from math import inf

import anyio
import pytest
from trio.testing import MockClock

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    Schedule,
    retry_call_async,
)
from backoff_ticker.testing import VirtualClock

# The library


class Meter:
    """Reads a number from a server; ``connect`` is a coroutine function that returns a stream."""

    def __init__(self, connect, *, patience=1.0, token=None):
        self._connect = connect
        self._options = {"attempt_timeout": patience, "max_attempts": 5, "token": token}
        self._options["on"] = OSError | anyio.EndOfStream

    async def read(self):
        """Return the number, after a few attempts at most."""
        return await retry_call_async(self._read_once, ConstantBackOff(0.5), **self._options)

    async def _read_once(self):
        async with await self._connect() as stream:
            await stream.send(b"read\n")
            return int(await stream.receive())


async def poll(meter, seconds, sink, token=None):
    """Send the numbers of a meter, one each so many seconds, until the token is cancelled."""
    with sink:
        async for _ in AsyncTicker(ConstantBackOff(seconds), token=token):
            await sink.send(await meter.read())


async def poll_all(meters, seconds, sink, workers=3):
    """Send the names of many meters, and their numbers, until it is cancelled."""
    with closing(Schedule(every=seconds, on=OSError, notify=lambda *_: None)) as names, sink:
        names.add_all(meters)

        async def work():
            async for job in names:
                with job:
                    await sink.send((job.key, await meters[job.key].read()))

        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(work)


# Its tests

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Each back end in turn, on a time that moves by itself."""
    if request.param == "trio":
        yield "trio", {"clock": MockClock(autojump_threshold=0)}
    else:
        with VirtualClock(auto=True):
            yield "asyncio"


def server(*answers):
    """Return what connects to a server whose answers come in turn, for ever; None is silence."""
    left = cycle(answers)

    async def connect():
        sender, stream = anyio.create_memory_object_stream(1)
        stream.send = lambda _: answer(sender)
        return stream

    async def answer(sender):
        with sender:
            if (given := next(left)) is None:
                await anyio.sleep_forever()
            await (sender.send(given) if given else sender.aclose())

    return connect


async def test_an_hour_of_polls_of_a_server_that_hangs_up_and_hangs():
    sink, numbers = anyio.create_memory_object_stream(inf)
    await poll(Meter(server(b"", None, b"7")), 60, sink, CancellationToken(timeout=3600))
    with numbers:
        assert [number async for number in numbers] == [7] * 60


async def test_one_that_is_broken_holds_up_no_other():
    meters = {name: Meter(server(b"7")) for name in "abc"} | {"broken": Meter(server(None))}
    sink, numbers = anyio.create_memory_object_stream(inf)
    with anyio.move_on_after(599) as scope:
        await poll_all(meters, 60, sink)
    assert scope.cancelled_caught
    with numbers:
        assert sorted([item async for item in numbers]) == sorted([(c, 7) for c in "abc"] * 10)


async def test_a_token_that_a_thread_cancels_ends_a_read():
    token = CancellationToken()
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, token.cancel)
        with pytest.raises(Cancelled):
            await Meter(server(None), patience=None, token=token).read()
