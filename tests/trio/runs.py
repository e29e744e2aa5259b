"""Runs of trio for tests."""

import trio
import trio.testing

from tests.helpers import PATIENCE


def run(function, *args):
    """Run a coroutine function in trio; it fails if it takes long."""

    async def main():
        with trio.fail_after(PATIENCE):
            return await function(*args)

    return trio.run(main)


def run_at_once(function, *args):
    """Run it on trio's clock for tests, which moves as soon as nothing can run.

    Returns what it returns, and the seconds that passed on that clock.
    """

    async def main():
        began = trio.current_time()
        result = await function(*args)
        return result, round(trio.current_time() - began, 6)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def started(nursery, function, *args):
    """Start a task; return the list that gets what it returns, once it waits for something."""
    results = []

    async def keep():
        results.append(await function(*args))

    nursery.start_soon(keep)
    await trio.testing.wait_all_tasks_blocked()
    return results
