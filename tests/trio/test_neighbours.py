"""What runs beside: sinks of ticks, signals, anyio on both back ends, a guest run, httpx."""

import asyncio
import signal

import anyio
import httpx
import pytest
import trio
import trio.testing

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    DeadlineExceeded,
    Ticker,
    cancel_on_signals,
    with_max_retries,
)
from backoff_ticker.integrations.httpx import AsyncRetryTransport
from tests.helpers import PATIENCE
from tests.trio.runs import lasts

FAST = ConstantBackOff(0.001)
BACKENDS = pytest.mark.parametrize("backend", ["trio", "asyncio"])

# Ticks that are sent


@lasts(50.0)
async def test_ticks_for_a_memory_channel_that_is_full_and_then_closed():
    sender, receiver = trio.open_memory_channel(1)
    forwarding = Ticker(ConstantBackOff(10)).send_to(sender)
    await trio.sleep(35)
    assert forwarding.dropped == 3
    assert (await receiver.receive()).number == 1
    assert (await receiver.receive()).missed == 3
    receiver.close()
    await trio.sleep(10)  # nobody receives: that is the end
    assert forwarding.dropped == 3


@BACKENDS
def test_ticks_for_a_stream_of_anyio(backend):
    """Delivered when they are due: nothing else wakes the loop."""

    async def main():
        sender, receiver = anyio.create_memory_object_stream(9)
        Ticker(with_max_retries(ConstantBackOff(0.01), 3)).send_to(sender)
        with anyio.fail_after(PATIENCE), receiver:
            return [tick.number async for tick in receiver]

    assert anyio.run(main, backend=backend) == [1, 2, 3, 4]


def test_what_a_sink_belongs_to():
    async def channel():
        return trio.open_memory_channel(1)[0]

    async def stream():
        return anyio.create_memory_object_stream(1)

    async def queue():
        return asyncio.Queue()

    def refused(sink):
        with pytest.raises(RuntimeError, match="belongs to an event loop, or a run of trio"):
            Ticker(FAST).send_to(sink)

    async def refused_here(sink):
        refused(sink)

    sender, receiver = anyio.run(stream)
    for sink in (trio.run(channel), sender, asyncio.run(queue())):
        refused(sink)
    asyncio.run(refused_here(trio.run(channel)))
    trio.run(refused_here, asyncio.run(queue()))
    sender.close()
    receiver.close()


# Signals


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_signal_wakes_a_run(is_inside):
    async def wait(token):
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, signal.raise_signal, signal.SIGTERM)
                assert await token.wait_async()
        assert token.cause == "SIGTERM"

    async def main():
        with cancel_on_signals() as token:
            await wait(token)

    if is_inside:
        trio.run(main)
    else:
        with cancel_on_signals() as token:
            trio.run(wait, token)


def test_one_block_of_signals_around_a_loop_and_then_a_run():
    """What wakes the loop at a signal goes as the loop closes; trio would warn of it."""
    with cancel_on_signals() as token:
        asyncio.run(token.wait_async(0.001))
        assert signal.set_wakeup_fd(-1) == -1
        trio.run(token.wait_async, 0.001)
        asyncio.run(token.wait_async(0.001))


# A guest


def start_guest(function):
    """Start a run of trio as a guest of this loop; return the future of its outcome."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    trio.lowlevel.start_guest_run(
        function,
        run_sync_soon_threadsafe=loop.call_soon_threadsafe,
        run_sync_soon_not_threadsafe=loop.call_soon,
        done_callback=done.set_result,
        host_uses_signal_set_wakeup_fd=True,
    )
    return done


def test_a_guest_and_its_host_share_a_channel_and_a_token():
    channel, token = Channel(0), CancellationToken()

    async def guest():
        async for tick in AsyncTicker(with_max_retries(FAST, 20)):
            await channel.send_async(tick.number)
        channel.close()
        with pytest.raises(DeadlineExceeded):
            async with CancellationToken(timeout=0.001).scope():
                await trio.sleep_forever()
        return await token.wait_async()

    async def main():
        async with asyncio.timeout(PATIENCE):
            done = start_guest(guest)
            assert [item async for item in channel] == [*range(1, 22)]
            waits = asyncio.create_task(token.wait_async())
            await asyncio.sleep(0)
            token.cancel()
            assert await waits
            return (await done).unwrap()

    assert asyncio.run(main())


# httpx


@lasts(20.0 + 70 + 5)
async def test_requests_of_httpx_are_sent_again():
    statuses = iter([503, 503, 200])

    async def answer(request):
        await trio.lowlevel.checkpoint()
        return httpx.Response(next(statuses))

    async def hang(request):
        await trio.sleep_forever()

    async def get(answer, **options):
        transport = AsyncRetryTransport(httpx.MockTransport(answer), **options)
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.get("http://example.com")).status_code

    assert await get(answer, policy=ConstantBackOff(10)) == 200
    with pytest.raises(TimeoutError):
        await get(hang, policy=ConstantBackOff(10), attempt_timeout=30, max_attempts=2)
    with trio.move_on_after(5) as scope:
        await get(hang, attempt_timeout=30)
    assert scope.cancelled_caught
