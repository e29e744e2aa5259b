"""Models of a few threads around channels, to be run by ``explore()``."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from backoff_ticker.testing import explore
from backoff_ticker.waiting import _claim
from tests.stress.places import PACKAGE

WATCHED = [f"{PACKAGE}/{folder}" for folder in ("cancellation", "channels", "waiting")]


class Plan:
    """What a model is given: threads to name, and a count that only grows."""

    def __init__(self):
        self._threads = []
        self._stamp = 0

    def thread(self, name, function, *arguments):
        """Have a thread run ``function(*arguments)``."""
        self._threads.append(threading.Thread(target=function, args=arguments, name=name))

    def stamp(self):
        """Return a number greater than all before."""
        self._stamp += 1
        return self._stamp

    def cancel_meanwhile(self, coroutine):
        """Run a coroutine in the loop of one thread, and have another thread cancel it."""
        loop = asyncio.new_event_loop()
        task = loop.create_task(coroutine)

        def run():
            try:
                with suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
            finally:
                loop.close()

        def cancel():
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(task.cancel)

        self.thread("loop", run)
        self.thread("canceller", cancel)

    def run(self):
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()


def explore_model(model, schedules, monkeypatch, watch=WATCHED):
    """Run so many schedules of a model, in which any timeout may be the first to be over.

    All objects have the same claim: which ones share one depends on their addresses.

    Args:
        model: Sets the stage, names the threads with ``plan.thread()``, and returns what checks the
            outcome once all have ended.
    """

    def body():
        # New in each schedule: a thread that the one before has cut off may hold its claim.
        patch.setattr(_claim, "_CLAIMS", ([None, None],))
        plan = Plan()
        check = model(plan)
        plan.run()
        check()

    with monkeypatch.context() as patch:
        return explore(body, watch=watch, schedules=schedules, timeouts=True)
