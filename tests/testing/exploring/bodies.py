"""Programs of a few threads, wrong and right."""

import asyncio
import io
import logging
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from backoff_ticker import (
    AsyncTicker,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Ticker,
    Timer,
    with_max_retries,
)


def run(*functions):
    """Run each function in a thread, until all have ended."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Wrong ones


class Account:
    def __init__(self):
        self.balance = 0

    def deposit(self):
        self.balance += 1


def lost_update():
    account = Account()
    run(account.deposit, account.deposit)
    assert account.balance == 2


def lost_item():
    counts = [0]

    def add():
        counts[0] += 1

    run(add, add)
    assert counts == [2]


total = 0


def lost_global():
    global total  # noqa: PLW0603 - which is what is tested
    total = 0

    def add():
        global total  # noqa: PLW0603
        total += 1

    run(add, add)
    assert total == 2


def check_then_act():
    made = {}
    calls = []

    def get():
        if "it" not in made:
            calls.append("made")
            made["it"] = object()
        return made["it"]

    run(get, get)
    assert len(calls) == 1


made = None


def lost_global_object():
    """It is not there any more when it is returned."""
    got = []

    def get():
        global made  # noqa: PLW0603
        if made is None:
            made = object()
        return made

    def forget():
        global made  # noqa: PLW0603
        made = None

    forget()
    run(lambda: got.append(get()), forget)
    assert got != [None]


def jobs_of_one_line():
    got = []
    with ThreadPoolExecutor(2) as executor:
        executor.submit(lambda: got.append("a"))
        executor.submit(lambda: got.append("b"))
    assert got == ["a", "b"]


def two_locks():
    first, second = threading.Lock(), threading.RLock()

    def one_way():
        with first, second:
            pass

    def other_way():
        with second, first:
            pass

    run(one_way, other_way)


def cleared_event():
    """The event is cleared after the flag was looked at."""
    event, items = threading.Event(), []

    def take():
        while not items:
            event.clear()
            event.wait()

    def give():
        items.append("item")
        event.set()

    run(take, give)


def result_from_a_thread():
    """A future of a loop is set in another thread, which does not wake the loop."""

    async def main():
        future = asyncio.get_running_loop().create_future()
        threading.Thread(target=future.set_result, args=(1,)).start()
        await future

    asyncio.run(main())


def grown_meanwhile():
    sizes = {"a": 1}

    def read():
        return sum([size for size in sizes.values()])  # noqa: C416 - a loop on one line

    def write():
        sizes["b"] = 2

    run(read, write)


def endless():
    stop = []

    def spin():
        while not stop:
            time.sleep(0)

    run(spin, spin)


def forgotten_thread():
    threading.Thread(target=threading.Event().wait).start()


def thread_that_raises():
    run(lambda: [].pop())


def depth_three():
    """Three things have to happen in a row."""
    state = [0]

    def odd():
        if state[0] == 0:
            state[0] = 1
        if state[0] == 2:
            state[0] = 3

    def even():
        if state[0] == 1:
            state[0] = 2
        assert state[0] != 3

    run(odd, even)


def two_switches():
    """Both have to come in the last lines."""
    begun, told, ended, noise = [], [], [], []

    def first():
        for _ in range(9):
            noise.append(1)
        begun.append(1)
        ended.extend(told)

    def second():
        for _ in range(9):
            noise.append(2)
        told.extend(begun)
        assert not ended

    run(first, second)


def pool_that_is_left():
    executor = ThreadPoolExecutor(1)
    executor.submit(list).result()
    raise ValueError


class Slots:
    """A semaphore that loses a wake-up when a task that was woken is cancelled."""

    def __init__(self):
        self.free, self.waiters = 1, []

    async def acquire(self):
        while not self.free:
            self.waiters.append(asyncio.get_running_loop().create_future())
            await self.waiters[-1]
        self.free -= 1

    def release(self):
        self.free += 1
        self.waiters = [each for each in self.waiters if not each.done()]
        if self.waiters:
            self.waiters.pop(0).set_result(None)


def three_share(slots):
    async def use():
        await slots.acquire()
        try:
            await asyncio.sleep(0)
        finally:
            slots.release()

    async def main():
        await asyncio.wait([asyncio.create_task(use()) for _ in "abc"])

    asyncio.run(main())


def cancelled_slots():
    three_share(Slots())


def task_that_hangs():
    async def hang():
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    async def main():
        await asyncio.wait([asyncio.create_task(hang())])

    asyncio.run(main())


def woken_in_order():
    """Who waits first is woken first, which nobody has promised."""
    condition, woken = threading.Condition(), []

    def wait(name):
        with condition:
            condition.wait()
            woken.append(name)

    threads = [threading.Thread(target=wait, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
        time.sleep(1)
    with condition:
        condition.notify()
    time.sleep(1)
    assert woken == ["a"]
    with condition:
        condition.notify_all()
    for thread in threads:
        thread.join()


def first_task_first():
    """Which of two tasks is the first is what asyncio happens to do."""

    async def main():
        got = []

        async def get(name):
            await asyncio.sleep(1)
            got.append(name)

        await asyncio.gather(get("a"), get("b"), get("c"))
        assert got[0] != "c"

    asyncio.run(main())


def work_for(worker, items):
    worker.start()
    items.put("work")
    items.join()


def worker_that_is_told():
    items = queue.Queue()

    def work():
        while items.get():
            items.task_done()

    worker = threading.Thread(target=work)
    try:
        work_for(worker, items)
    finally:
        items.put(None)


def worker_that_is_not_always_told():
    items = queue.Queue()

    def work():
        while items.get():
            items.task_done()

    work_for(threading.Thread(target=work), items)
    items.put(None)


WRONG = {
    lost_update: "body ended with AssertionError",
    lost_item: "body ended with AssertionError",
    lost_global: "body ended with AssertionError",
    check_then_act: "body ended with AssertionError",
    lost_global_object: "body ended with AssertionError",
    jobs_of_one_line: "body ended with AssertionError",
    two_locks: "nobody can go on",
    cleared_event: "nobody can go on",
    result_from_a_thread: "nobody can go on",
    grown_meanwhile: r"Thread-\d \(read\) ended with RuntimeError: dictionary changed size",
    endless: "no end after 20,000 steps: watch less if it has one",
    forgotten_thread: "nobody can go on although the body has ended",
    thread_that_raises: r"Thread-1 \(<lambda>\) ended with IndexError: pop from empty list",
    woken_in_order: "body ended with AssertionError",
    task_that_hangs: "nobody can go on",
    depth_three: r"Thread-2 \(even\) ended with AssertionError",
}


# Right ones


def update_with_a_lock():
    account, lock = Account(), threading.Lock()

    def deposit():
        with lock:
            account.deposit()

    run(deposit, deposit)
    assert account.balance == 2


GLOBAL_LOCK = threading.Lock()


class Guarded(Account):
    lock = threading.RLock()

    def deposit(self):
        with GLOBAL_LOCK, self.lock, self.lock:
            super().deposit()


CONDITION = threading.Condition()
CONDITION_OF_A_LOCK = threading.Condition(threading.Lock())
QUEUE = queue.Queue()


def conditions_made_before():
    turns = []

    def wait():
        for condition in (CONDITION, CONDITION_OF_A_LOCK):
            with condition:
                assert condition.wait_for(lambda: turns, 60)
        QUEUE.get()

    def announce():
        with CONDITION, CONDITION_OF_A_LOCK:
            turns.append(1)
            CONDITION.notify_all()
            CONDITION_OF_A_LOCK.notify_all()
        QUEUE.put(1)

    run(wait, announce)


def guarded(function):
    lock = threading.Lock()

    def call():
        with lock:
            function()

    return call


touched = []


@guarded
def touch():
    touched.append(1)


class Registry:
    def __init__(self):
        self.lock, self.by_name, self.in_a_row = threading.Lock(), {"a": threading.RLock()}, []
        self.in_a_row.append((threading.Semaphore(),))

    def use(self):
        with self.lock, self.by_name["a"], self.in_a_row[0][0]:
            touch()
            with self.use.lock:
                touched.append(2)

    use.lock = threading.Lock()


REGISTRY = Registry()


def locks_held_in_many_ways():
    run(REGISTRY.use, REGISTRY.use)


class Shown(Account):
    def __repr__(self):
        return f"<{self.balance}>"


HANDLER = logging.StreamHandler(io.StringIO())
LOGGER = logging.getLogger(__name__)
LOGGER.addHandler(HANDLER)
LOGGER.propagate = False


def logged():
    account = Shown()
    run(*[lambda: LOGGER.warning("%r", account)] * 2)


def locks_made_before():
    account = Guarded()
    run(account.deposit, account.deposit)
    assert account.balance == 2


def bounded_queue():
    items, got = queue.Queue(1), []
    run(lambda: [items.put(n) for n in range(3)], lambda: [got.append(items.get()) for _ in "abc"])
    assert got == [0, 1, 2]


def simple_queue():
    items = queue.SimpleQueue()
    got = []
    run(lambda: items.put("a"), lambda: got.append(items.get(timeout=60)))
    assert got == ["a"]
    assert isinstance(items, queue.SimpleQueue)


def event_within_a_time():
    event, barrier, began = threading.Event(), threading.Barrier(2), time.monotonic()

    def wait():
        barrier.wait()
        assert event.wait(10)

    def announce():
        barrier.wait()
        time.sleep(9.5)
        event.set()

    run(wait, announce)
    assert time.monotonic() - began == 9.5


def lock_with_a_timeout():
    lock = threading.Lock()
    lock.acquire()
    run(lambda: time.sleep(3))
    assert not lock.acquire(timeout=2)
    assert not lock.acquire(blocking=False)
    assert lock.locked()


def semaphore():
    slots, inside = threading.BoundedSemaphore(2), []

    def enter():
        with slots:
            inside.append(1)
            assert len(inside) <= 2
            inside.pop()

    run(enter, enter, enter)


def pool():
    with ThreadPoolExecutor(2) as executor:
        assert list(executor.map(abs, [-1, -2])) == [1, 2]


def loop_and_threads():
    async def main():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        threading.Thread(target=lambda: loop.call_soon_threadsafe(future.set_result, 1)).start()
        assert await asyncio.wait_for(future, 5) == 1
        await asyncio.sleep(3600)
        assert await asyncio.to_thread(abs, -5) == 5

    began = time.monotonic()
    asyncio.run(main())
    assert round(time.monotonic() - began, 6) == 3600


def spinning():
    """Two wait in a loop for a third, which has its turn."""
    flags = []

    def wait():
        while not flags:
            pass

    run(wait, lambda: flags.append(1))


def polling():
    flags = []

    def wait():
        until = time.monotonic() + 0.5
        while not flags and time.monotonic() < until:
            time.sleep(0)

    run(wait, wait)


def many_orders():
    def sleep():
        for _ in range(250):
            time.sleep(1)

    run(sleep, sleep, sleep, sleep)


def daemon_that_waits():
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def of_this_package():
    channel, token, got = Channel(1), CancellationToken(timeout=5), []

    def send():
        channel.send("a")
        channel.close()

    def receive():
        got.extend(channel)

    run(send, receive)
    assert got == ["a"]
    assert token.wait(10)
    assert len(list(Ticker(with_max_retries(ConstantBackOff(100), 3)))) == 4


def timers_of_this_package():
    began, told, timer = time.monotonic(), [], Timer()
    token = CancellationToken(timeout=5)
    token.on_cancel(lambda: told.append(time.monotonic() - began))
    timer.start(2)
    timer.c.receive()
    assert time.monotonic() - began == 2
    timer.start(100)
    timer.stop()

    async def ticks():
        return [tick.number async for tick in AsyncTicker(ConstantBackOff(1.0), token=token)]

    assert asyncio.run(ticks()) == [1, 2, 3]
    time.sleep(1)
    assert told == [5]


def cancelled_semaphore():
    three_share(asyncio.Semaphore(1))


RIGHT = [
    update_with_a_lock,
    locks_made_before,
    conditions_made_before,
    locks_held_in_many_ways,
    logged,
    bounded_queue,
    simple_queue,
    event_within_a_time,
    lock_with_a_timeout,
    semaphore,
    pool,
    loop_and_threads,
    spinning,
    polling,
    daemon_that_waits,
    of_this_package,
    timers_of_this_package,
]
