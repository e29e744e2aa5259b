"""Processes that an event loop starts: time stands still while they run."""

import asyncio
import os
import threading

import pytest

from backoff_ticker.testing import SettleTimeout, VirtualClock, _real_time
from tests.helpers import PATIENCE

from .real_threads import RealThread


@pytest.fixture
def ending():
    """A file from which a process reads, and a function that puts an end to it, a moment later."""
    reading, writing = os.pipe()

    def end():
        threading.Event().wait(0.3)
        os.write(writing, b"input")
        os.close(writing)

    with os.fdopen(reading) as file:
        yield file, lambda: RealThread(end)


async def _cat(file):
    return await asyncio.create_subprocess_exec("cat", stdin=file, stdout=asyncio.subprocess.PIPE)


@pytest.mark.parametrize("options", [{"auto": True}, {}], ids=["auto", "manual"])
def test_time_stands_still_while_a_process_of_a_loop_runs(ending, options):
    file, end = ending

    async def main():
        process = await _cat(file)
        ender = end()
        async with asyncio.timeout(3600):
            output, _ = await process.communicate()
            assert await process.wait() == 0
        ender.join(PATIENCE)
        return output, clock.monotonic()

    with VirtualClock(settle_timeout=0.1, **options) as clock:
        task = clock.spawn(lambda: asyncio.run(main()))
        if not options:
            clock.advance(1)
            assert task.done()
        assert task.result() == (b"input", 0.0)


def test_a_process_that_does_not_end_is_named(monkeypatch, ending):
    monkeypatch.setattr(_real_time, "_HELD", 0.2)
    file, end = ending

    async def main():
        process = await _cat(file)
        try:
            await asyncio.sleep(1)
        finally:
            process.kill()
            await process.communicate()

    text = r"gave up after 0.2 s .*: time is held by process \d+ \('cat'\)"
    with VirtualClock(auto=True, settle_timeout=0.1), pytest.raises(SettleTimeout, match=text):
        asyncio.run(main())
    end().join(PATIENCE)
