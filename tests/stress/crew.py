"""Who plays a storm: eight threads, two event loops, and in some storms two runs of trio.

All set to work at the same moment.

Whoever plays is watched: a round that does not end fails, and shows the stacks of all threads.
"""

import asyncio
import faulthandler
import gc
import inspect
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_EXCEPTION, wait
from functools import partial

from backoff_ticker.waiting import trio_runs
from tests.helpers import LoopThread, collect_garbage, in_thread, loop_thread, sleep

PATIENCE = 20.0
"""Real seconds after which a round, of a few milliseconds, is known to hang."""


class Face:
    """How an act waits: it blocks its thread, or is awaited in its loop.

    An act is a coroutine function that takes its face; in a thread nothing in it gives way.
    """

    def __init__(self, *, in_loop):
        self.in_loop = in_loop

    async def wait(self, block, await_, *args, **options):
        """Call the one that fits."""
        return await await_(*args, **options) if self.in_loop else block(*args, **options)

    async def give_way(self):
        await self.wait(time.sleep, sleep, 0)

    def played(self, act):
        """Return the function, or the coroutine function, that plays an act."""

        def in_thread():
            try:
                act(self).send(None)
            except StopIteration as end:
                return end.value
            raise AssertionError("an act gave way in a thread")

        return partial(act, self) if self.in_loop else in_thread


def cast(act, threads, loops):
    """Return an act for so many threads, and for so many coroutines in the loops."""
    return [*[Face(in_loop=False).played(act)] * threads, *[Face(in_loop=True).played(act)] * loops]


class Crew:
    """Runs one round after the other: acts in threads, in two event loops, and in trio.

    Attributes:
        loops: The event loops, and the runs of trio, each in a thread of its own.
    """

    def __init__(self, *, runs=0):
        self._before = set(threading.enumerate())
        self.loops = [LoopThread(debug=False) for _ in range(2)]
        self.loops += [loop_thread("trio") for _ in range(runs)]
        self._next_loop = 0

    def play(self, *acts):
        """Run all acts at once and return their results; raise the first error, or a hang.

        Coroutine functions run in the loops, in turn; each of the others in a thread of its own.
        """
        futures = []
        begin = threading.Event()
        for act in acts:
            if inspect.iscoroutinefunction(act):
                self._next_loop = (self._next_loop + 1) % len(self.loops)
                futures.append(self.loops[self._next_loop].submit(act()))
            else:
                futures.append(in_thread(lambda act=act: begin.wait() and act()))
        begin.set()
        ended, running = wait(futures, PATIENCE, FIRST_EXCEPTION)
        for future in ended:
            future.result()
        if running:
            faulthandler.dump_traceback(all_threads=True)
            raise AssertionError(f"{len(running)} of {len(futures)} do not end")
        return [future.result() for future in futures]

    def close(self):
        """End the loops; nothing may be left of any act."""
        for loop in self.loops:
            loop.close()
        assert [loop.errors for loop in self.loops if loop.errors] == []
        end = time.monotonic() + PATIENCE
        for thread in set(threading.enumerate()) - self._before:
            if thread.name != "backoff_ticker-scheduler":  # ends a few seconds later, when idle
                thread.join(max(0.0, end - time.monotonic()))
                assert not thread.is_alive()


async def cancel_soon(coroutine, turns):
    """Await a coroutine in a task that is cancelled after some turns of the loop."""
    if trio_runs():
        from tests.trio import virtual

        return await virtual.cancel_soon(coroutine, turns)
    task = asyncio.ensure_future(coroutine)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    return await task


def ours():
    """Count the living objects of the package's own classes.

    Cancelled calls do not count: the scheduler keeps them while they are less than half of its own.
    """
    for _ in range(2):
        collect_garbage()
    kinds = [
        type(each)
        for each in gc.get_objects()
        if str(type(each).__module__).startswith("backoff_ticker")
        and not getattr(each, "is_taken", False)
    ]
    return Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
