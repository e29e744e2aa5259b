"""What the tests share: threads, loops, and the two faces behind one interface."""

import asyncio
import gc
import os
import re
import subprocess
import sys
import threading
import time
import warnings
import weakref
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial, wraps

import pytest

from backoff_ticker import AsyncTicker, CancellationToken, Ticker
from backoff_ticker.waiting import trio_runs

PATIENCE = 10.0
"""Real seconds after which a test that waits for an event gives up."""


def configure_django():
    """Give Django settings, which its applications need; the same for all tests of a process."""
    import django
    from django.conf import settings as of_django

    if not of_django.configured:
        of_django.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="tests", LOGGING_CONFIG=None)
        django.setup()


def run_by(run):
    """Return a decorator: ``run(test)`` runs a test that is a coroutine function."""

    def decorate(test):
        @wraps(test)
        def run_test(**arguments):
            run(partial(test, **arguments))

        return run_test

    return decorate


def fork(check):
    """Fork a child, which ends with status 0 if it finds ``check()`` true; return who it is."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 1
        finally:
            os._exit(status)
    return child


def eventually(condition, what="the condition", patience=PATIENCE):
    """Wait for something that no event announces, such as a thread's end."""
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true"
        threading.Event().wait(0.001)


class _Cycle:
    """An object that only a collection of garbage frees."""

    def __init__(self):
        self.itself = self


def collect_garbage():
    """Collect all that is garbage now; ``gc.collect()`` does nothing while another thread does."""
    link = weakref.ref(_Cycle())
    eventually(lambda: gc.collect() >= 0 and link() is None, "a collection of all garbage")


def wait_until_collected(*links):
    """Wait until nothing is left of objects that nobody needs.

    A thread that has told its result may hold them until its last function has returned.
    """

    def gone():
        gc.collect()
        return [link for link in links if link() is not None] == []

    eventually(gone, "the end of what nobody needs")


def in_thread(function, *args):
    """Run ``function`` in a new daemon thread; its outcome is the future's."""
    future = Future()

    def run():
        try:
            result = function(*args)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, daemon=True).start()
    return future


def python(*arguments, cwd=None, timeout=50.0, **environment):
    """Run Python to its end, in a process of its own."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def readable_id(value):
    """Return the id of a parametrized case: its ``repr``, without addresses, which vary."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


class SetClock:
    """A clock that tells the time it is set to; nothing waits on it."""

    def __init__(self, start=1000.0, epoch=1_700_000_000.0):
        self.now = start
        self._ahead = epoch - start

    def monotonic(self):
        return self.now

    def time(self):
        return self.now + self._ahead

    def advance(self, seconds):
        self.now += seconds

    def set_back(self, seconds):
        """Set the wall clock back; the other one never goes back."""
        self._ahead -= seconds

    def call_at(self, *_, **__):
        raise AssertionError("nobody waits on a clock that is set")

    parker = call_at


class Flag:
    """A ``threading.Event`` whose waits are waits on the current clock, even in a loop's thread."""

    def __init__(self):
        self._is_set = False
        self._parkers = []

    def set(self):
        self._is_set = True
        for parker in self._parkers:
            parker.unpark()

    def is_set(self):
        return self._is_set

    def wait(self):
        parker = CancellationToken().clock.parker("Flag.wait()")
        self._parkers.append(parker)
        while not self._is_set:
            parker.park(None)
        return True


async def turns(count=10):
    """Let everything that is ready in this event loop run, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


class LoopThread:
    """An event loop, in debug mode, in a thread of its own; what goes wrong in it is kept."""

    def __init__(self, *, debug=True):
        self.loop = asyncio.new_event_loop()
        self.loop.set_debug(debug)
        self.errors = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, coroutine):
        """Start a coroutine there."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine):
        """Run a coroutine there and return its result."""
        return self.submit(coroutine).result(PATIENCE)

    def settle(self):
        """Let everything that is ready in the loop run."""
        self.run(turns())

    def close(self):
        """Cancel what runs there, stop the loop and close it."""
        if self.loop.is_closed():
            return

        async def cancel_all():
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.run(cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


def slow(*values):
    """Return a row of a table that runs with ``--all`` only."""
    return pytest.param(*values, marks=pytest.mark.slow)


TRIO = slow("trio")
"""The row of trio, beside those of threads and of asyncio."""


def loop_thread(kind):
    """Return an event loop, or a run of trio, in a thread of its own."""
    if kind == "loop":
        return LoopThread()
    from tests.trio.virtual import TrioThread  # trio may be missing

    return TrioThread()


async def sleep(seconds):
    """Sleep in a task of asyncio, or of trio."""
    if trio_runs():
        await sys.modules["trio"].sleep(seconds)
    else:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def time_limit(seconds):
    """Cancel the block after so many seconds, and raise a ``TimeoutError`` after it."""
    if not trio_runs():
        async with asyncio.timeout(seconds):
            yield
        return
    with sys.modules["trio"].move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise TimeoutError


class Place:
    """Where calls run: each in a thread, or in a task of one loop in debug mode, or run of trio."""

    def __init__(self, name):
        self.name = name
        self.thread = None if name == "thread" else loop_thread(name)

    def start(self, block, await_, *args, **options):
        """Call the one that fits; the future has its outcome."""
        if self.thread is None:
            return in_thread(lambda: block(*args, **options))
        return self.thread.submit(await_(*args, **options))

    def collect(self, make):
        """Iterate to the end of what ``make()`` returns; the future has the list."""

        async def await_():
            return [each async for each in make()]

        return self.start(lambda: list(make()), await_)

    def close(self):
        if self.thread is not None:
            self.thread.close()
            assert self.thread.errors == []


class Face(Place):
    """A ``Ticker`` for threads, or an ``AsyncTicker``."""

    def ticker(self, *args, **options):
        return (Ticker if self.name == "thread" else AsyncTicker)(*args, **options)

    def start_receive(self, ticker, timeout=None):
        """Begin to receive; the future has the tick or the error."""
        return self.start(ticker.receive, ticker.receive, timeout)

    def receive(self, ticker, timeout=None):
        """Receive a tick that needs no wait, or fail."""
        return self.start_receive(ticker, timeout).result(PATIENCE)

    def iterate(self, ticker):
        """Begin to iterate; the future has the list of all ticks."""
        return self.collect(lambda: ticker)


def waiters_of(wait_set):
    """Return the waiters that are registered with a wait set now, by domain, in their order."""
    found = []
    for line in [wait_set, *(wait_set.others or {}).copy().values()]:
        place = line.first
        while place is not None:
            if (waiter := place()) is not None:
                found.append(waiter)
            place = place.after
    return found


def pending_sends_of(channel):
    """Return the blocked sends of a channel, in their order."""
    found = []
    send = getattr(channel._buffer, "first_send", None)
    while send is not None:
        found.append(send)
        send = send.later
    return found
