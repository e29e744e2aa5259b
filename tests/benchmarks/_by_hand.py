"""What one writes by hand to poll many keys with few workers: a heap of due times, and a lock."""

import asyncio
import heapq
import threading
import time
from collections import deque


class Entry:
    """A key that is in the heap, or with a worker."""

    __slots__ = ("due", "failures", "key")

    def __init__(self, key, due):
        self.key = key
        self.due = due
        self.failures = 0


class Heap:
    """Keys by their due times, in the hands of one thread at a time."""

    def __init__(self, every):
        self._every = every
        self._heap = []
        self._entries = {}
        self._stopped = False

    def _add_all(self, keys):
        now, step = time.monotonic(), self._every / len(keys)
        for number, key in enumerate(keys):
            entry = self._entries[key] = Entry(key, now + number * step)
            self._heap.append((entry.due, number, entry))
        heapq.heapify(self._heap)

    def _pop(self):
        """Return the entry that is due, or the seconds until one is; None: there is no entry."""
        while self._heap:
            due, _, entry = self._heap[0]
            if self._entries.get(entry.key) is entry and (wait := due - time.monotonic()) > 0:
                return wait
            heapq.heappop(self._heap)
            if self._entries.get(entry.key) is entry:
                return entry
        return None

    def _push(self, entry, *, failed):
        """Take an entry back; return whether it is the next that falls due."""
        now = time.monotonic()
        if failed:
            entry.failures += 1
            entry.due = now + min(60.0, 2.0**entry.failures)
        else:
            entry.failures = 0
            entry.due += self._every
            if entry.due <= now:
                entry.due = now + (entry.due - now) % self._every
        heapq.heappush(self._heap, (entry.due, id(entry), entry))
        return self._heap[0][2] is entry


class HeapOfThreads(Heap):
    """One thread watches the time, and another takes over when it has found an entry."""

    def __init__(self, every):
        super().__init__(every)
        self._changed = threading.Condition(threading.Lock())
        self._watched = False

    def add_all(self, keys):
        with self._changed:
            self._add_all(keys)
            self._changed.notify_all()

    def remove(self, key):
        with self._changed:
            self._entries.pop(key, None)

    def take(self):
        """Return an entry that is due, or None after ``stop()``."""
        with self._changed:
            while not self._stopped:
                found = self._pop()
                if isinstance(found, Entry):
                    self._changed.notify()
                    return found
                if self._watched:
                    self._changed.wait()
                    continue
                self._watched = True
                self._changed.wait(found)
                self._watched = False
        return None

    def give_back(self, entry, *, failed=False):
        with self._changed:
            if self._push(entry, failed=failed):
                self._changed.notify_all()

    def stop(self):
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class HeapOfALoop(Heap):
    """One timer of the event loop wakes one reader."""

    def __init__(self, every):
        super().__init__(every)
        self._loop = asyncio.get_running_loop()
        self._readers = deque()
        self._timer = None

    def add_all(self, keys):
        self._add_all(keys)
        self._wake()

    def remove(self, key):
        self._entries.pop(key, None)

    async def take(self):
        """Return an entry that is due, or None after ``stop()``."""
        while not self._stopped:
            found = self._pop()
            if isinstance(found, Entry):
                self._watch()
                return found
            reader = self._loop.create_future()
            self._readers.append(reader)
            self._watch()
            await reader
        return None

    def give_back(self, entry, *, failed=False):
        if self._push(entry, failed=failed):
            self._watch()

    def stop(self):
        self._stopped = True
        while self._readers:
            self._wake()

    def _watch(self):
        """Have the timer wake a reader when the next entry falls due."""
        if self._readers and self._heap:
            due = self._heap[0][0]
            if self._timer is not None:
                if self._timer.when() <= due:
                    return
                self._timer.cancel()
            self._timer = self._loop.call_at(due, self._wake)

    def _wake(self):
        self._timer = None
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                return
