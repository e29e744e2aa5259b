"""Runs of trio for tests."""

import asyncio

import trio
import trio.testing

from tests.helpers import PATIENCE, in_thread, run_by


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


in_a_run = run_by(run)
"""Have a test, which is a coroutine function, run in trio; it fails if it takes long."""


def lasts(seconds):
    """Have it run on trio's clock for tests, on which it must take so long."""

    def check(test):
        _, passed = run_at_once(test)
        assert passed == seconds

    return run_by(check)


def faces(function):
    """Run a coroutine function in two runs of trio and in two loops, each in its own thread."""
    runs = [in_thread(trio.run, function) for _ in range(2)]
    return [*runs, *(in_thread(lambda: asyncio.run(function())) for _ in range(2))]
