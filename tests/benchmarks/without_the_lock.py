"""What a second thread adds, to be run on an interpreter with the global lock and on one without.

Thousand operations a second of one thread, of two threads that share nothing, and of two threads
that use one object. The bare loop, which uses no object at all, shows what the machine gives a
second thread: its ratio is what the others can reach. An operation on a queue or channel is a
send and a receive, by the same thread for one thread and different objects, and on one object by a
sender and a receiver, so that this is half of the calls for each. With room for three items, one
sends three and receives three.

On a busy machine, or one of two cores, compare within a run only.
Run as ``python -m tests.benchmarks.without_the_lock`` from the project's root.
"""

import math
import sys
import threading
import time
from functools import partial
from itertools import repeat

from backoff_ticker import CancellationToken, Ticker, ZeroBackOff, retry
from tests.benchmarks._queues import MAKERS, installed
from tests.benchmarks._table import compare, options, say

SIMPLE = ("queue.SimpleQueue", "Channel")
"""Those that are fast where there is always room."""


def seconds(count, *makes):
    """Return how long the threads take that do ``count`` operations each, from a common start.

    Each makes its work, and so its objects, itself.
    """
    begin = threading.Barrier(len(makes) + 1)

    def run(make):
        work = make()
        begin.wait()
        work(count)

    threads = [threading.Thread(target=run, args=(make,)) for make in makes]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def measure(count, make, share=None):
    """Measure the three ways, in thousand operations a second.

    Args:
        count: The operations of each thread.
        make: Makes an object and returns what a thread does with it.
        share: Makes one and returns what each of two threads does with it. None: the same.
    """
    alone = count / seconds(count, make)
    apart = 2 * count / seconds(count, make, make)
    one, other = share() if share else [make()] * 2
    shared = (1 if share else 2) * count / seconds(count, lambda: one, lambda: other)
    return {
        "one thread": alone / 1_000,
        "two threads, two objects": apart / 1_000,
        "gain": apart / alone,
        "two threads, one object": shared / 1_000,
    }


def bare_loop():
    """Return a loop of its own, compiled anew, so that two threads share nothing of it."""
    found = {}
    exec("def work(count):\n    for _ in range(count):\n        pass", found)
    return found["work"]


def fill_and_drain(send, receive, room, count):
    """Send as much as there is room for and receive it, again and again."""
    for _ in range(count // room):
        for item in range(room):
            send(item)
        for _ in range(room):
            receive()


def ticks():
    ticker = Ticker(ZeroBackOff())

    def read(count):
        for _ in zip(repeat(None, count), ticker, strict=False):
            pass

    return read


def looks():
    token = CancellationToken()

    def look(count):
        for _ in range(count):
            token.cancelled  # noqa: B018 - what is measured

    return look


def calls():
    @retry(ZeroBackOff())
    def call():
        pass

    return again(call)


def again(operation):
    def work(count):
        for _ in range(count):
            operation()

    return work


def alone(name, capacity, room):
    """Return what fills a queue and drains it."""
    made = MAKERS[name](capacity)
    return partial(fill_and_drain, made.send, made.receive, room)


def shared(name, capacity):
    """Return what sends to a queue, and what receives from it."""
    made = MAKERS[name](capacity)
    send = made.send

    def send_all(count):
        for item in range(count):
            send(item)

    return send_all, again(made.receive)


def subjects(fast, slow):
    """Yield what is measured by name."""
    yield "bare loop", partial(measure, fast * 10, bare_loop)
    for capacity, room, names in (
        (math.inf, 100, (*SIMPLE, "queue.Queue", "culsans.Queue", "aiologic.SimpleQueue")),
        (3, 3, ("queue.Queue", "culsans.Queue", "aiologic.Queue", "Channel")),
    ):
        for name in installed(names):
            count = fast if capacity == math.inf and name in SIMPLE else slow
            ways = partial(alone, name, capacity, room), partial(shared, name, capacity)
            yield f"{name}({capacity:g})", partial(measure, count - count % room, *ways)
    yield "Ticker(ZeroBackOff())", partial(measure, slow, ticks)
    yield "token.cancelled", partial(measure, fast * 10, looks)
    yield "token.child()", partial(measure, slow, lambda: again(CancellationToken().child))
    yield "retry, nothing fails", partial(measure, fast, calls)


def main():
    chosen = options(__doc__, rounds=5)
    fast, slow = (600, 300) if chosen.quick else (60_000, 12_000)
    lock = "with" if getattr(sys, "_is_gil_enabled", lambda: True)() else "without"
    say(f"{lock} the global lock; thousand operations a second")
    compare(
        "one thread, and two", dict(subjects(fast, slow)), chosen.rounds, warm_up=not chosen.quick
    )


if __name__ == "__main__":
    main()
