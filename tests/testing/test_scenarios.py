"""What a virtual clock must get right, each time, under hostile thread switching."""

import asyncio
import queue
import sys
import threading

import pytest

from backoff_ticker import AsyncTicker, ConstantBackOff
from backoff_ticker.testing import UntrackedLoopError, UntrackedThreadError, VirtualClock
from tests import effort

from .one_scene import TRACE, one_scene

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("hostile_switching")]


def test_the_trace_of_a_scene_is_the_same_on_every_interpreter():
    for run in range(effort.rounds(5, 200)):
        sys.setswitchinterval(1e-6 if run % 2 else 5e-3)
        assert "\n".join(one_scene()) == TRACE.strip()


def test_an_untracked_thread_is_refused_and_tracked_makes_it_a_participant():
    ready, seen = queue.SimpleQueue(), queue.SimpleQueue()

    def foreign():
        while (job := ready.get()) is not None:
            try:
                seen.put(job())
            except Exception as error:
                seen.put(error)

    worker = threading.Thread(target=foreign)
    worker.start()
    with VirtualClock() as clock:
        ready.put(lambda: clock.sleep(1))
        assert isinstance(seen.get(timeout=10), UntrackedThreadError)
        ready.put(clock.tracked(lambda: clock.sleep(1) or clock.monotonic()))
        clock.advance(1)  # counted from tracked() on, though the thread may not have begun it
        assert seen.get(timeout=10) == 1.0
    ready.put(None)
    worker.join()


def test_a_loop_in_real_time_is_refused():
    async def main():
        with pytest.raises(UntrackedLoopError, match="runs already"):
            VirtualClock().__enter__()
        clock = VirtualClock()
        ticker = AsyncTicker(ConstantBackOff(1), clock=clock)
        await ticker.receive()
        with pytest.raises(UntrackedLoopError, match="does not drive it"):
            await ticker.receive()
        clock.close()

    asyncio.run(main())
