"""What the stress tests share: a fast-switching interpreter, gates, scripts."""

import asyncio
import gc
import os
import queue
import signal
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

from tests.helpers import PATIENCE, python

ROOT = Path(__file__).parents[2]


@contextmanager
def fast_switching(seconds=1e-6):
    """Have threads switch as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def signal_storm(handler):
    """Send SIGUSR1 to the main thread, each once the one before was handled; yields the tally."""
    handled = []
    news = queue.SimpleQueue()
    calm = threading.Event()

    def handle(_, frame):
        handled.append(1)
        try:
            if not calm.is_set():
                handler(frame)
        finally:
            news.put(True)

    def send():
        main = threading.main_thread().ident
        number = 0
        while not calm.is_set():
            number += 1
            signal.pthread_kill(main, signal.SIGUSR1)
            news.get()
            for _ in range(number % 64):
                pass

    before = signal.signal(signal.SIGUSR1, handle)
    sender = threading.Thread(target=send, daemon=True)
    try:
        with fast_switching(1e-5):
            sender.start()
            yield handled
    finally:
        calm.set()
        news.put(True)
        sender.join(PATIENCE)
        signal.signal(signal.SIGUSR1, before)


class Gate:
    """Stops whoever passes until it is opened; tells that somebody stands before it."""

    def __init__(self):
        self.reached = threading.Event()
        self._open = threading.Event()

    def stand(self):
        self.reached.set()
        assert self._open.wait(PATIENCE)

    def wait_until_reached(self):
        assert self.reached.wait(PATIENCE)

    def open(self):
        self._open.set()


def start_threads(count, run):
    """Start daemon threads that run ``run(index)``."""
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def join_all(threads):
    for thread in threads:
        thread.join(PATIENCE)
    assert [thread for thread in threads if thread.is_alive()] == []


def children_of(token):
    """How many children a token knows, dead ones included."""
    return len(token._state.children)


def run_script(body, *options, timeout=50.0):
    """Run Python code in a process of its own, with the package on its path.

    It is not measured by coverage, whose locks a fork beside threads can leave locked.
    """
    unset = {name: "" for name in os.environ if name.startswith("COVERAGE_")}
    command = ["-X", "faulthandler", *options, "-c", body]
    return python(*command, cwd=ROOT, timeout=timeout, PYTHONPATH=str(ROOT), **unset)


FORKS = """
import asyncio, atexit, faulthandler, gc, os, queue, signal, sys, threading, time, warnings
warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
faulthandler.dump_traceback_later(40, exit=True)
from backoff_ticker import *
def collect(child):
    pid, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
def fork(body):
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        signal.alarm(30)
        body()
        code = 0
    except BaseException:
        import traceback; traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
def threads(count, run):
    started = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in started: thread.start()
    return started
"""
"""What scripts that fork begin with."""


def run_silently(script, *options, timeout=50.0):
    """Run a script that forks; it must end well and write nothing."""
    done = run_script(FORKS + script, *options, timeout=timeout)
    ended = done.returncode, done.stdout, done.stderr
    assert ended == (0, "", ""), ended


class Finalized:
    """In a cycle, so that only a collection ends it, wherever that happens to run."""

    def __init__(self, run):
        self.run = run
        self.me = self

    def __del__(self):
        self.run()


@contextmanager
def gc_threshold(threshold):
    """Have the garbage collector run after so few allocations.

    Without the interpreter's lock it counts in batches; with a second threshold of 0 it does not
    wait until they are many beside all other objects.
    """
    before = gc.get_threshold()
    gc.set_threshold(threshold, 0)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def run_loop(coroutine):
    """Run a coroutine in a fresh loop; whatever reaches the loop's error handler fails."""
    errors = []

    async def run():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        return await coroutine

    result = asyncio.run(run())
    assert errors == []
    return result
