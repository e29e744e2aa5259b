"""The jobs of thread pools inside a virtual clock are its participants.

A job counts from the moment a worker can take it: at once if one is free, otherwise when another
job ends, which passes its place on. So time waits for jobs that run, not for queued ones. It stands
still while a ``ProcessPoolExecutor`` has a job.
"""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, thread as pools
from functools import partial
from typing import TYPE_CHECKING, Any

from .._errors import ClockLeakError, ParticipantAborted
from .._kernel import Kernel, kernel_here
from .._participants import Participant
from .._reports import name_of
from .._thread_side import attached, wait_for_end
from ._patches import around

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._patches import Original


class _Pool:
    """The jobs of one pool that belong to one clock. Only commands of the kernel change it."""

    def __init__(self, kernel: Kernel, workers: int) -> None:
        self.kernel: Kernel = kernel
        self._free = workers
        self._queued: dict[_Job, None] = {}
        self.jobs: set[_Job] = set()

    def add(self, job: _Job) -> None:
        """Add a job, and count it if a worker is free for it."""
        self.jobs.add(job)
        self._queued[job] = None
        self._count_next()

    def _count_next(self) -> None:
        while self._free > 0 and self._queued:
            self.count(next(iter(self._queued)))

    def count(self, job: _Job) -> None:
        """Count a job, unless it is counted: a worker is free for it, or has taken it."""
        if job in self._queued:
            del self._queued[job]
            self._free -= 1
            self.kernel.enter(job)

    def leave(self, job: _Job) -> None:
        """Pass on the place of a job that has ended."""
        self.jobs.discard(job)
        if job in self._queued:
            del self._queued[job]
        else:
            self._free += 1
            self._count_next()


class _Job(Participant):
    """A job, submitted to a pool in place of the function.

    Its future refers to it, even once the job has ended, and it keeps nothing alive then.
    """

    def __init__(self, pool: _Pool, function: Callable[..., Any]) -> None:
        super().__init__(f"job {name_of(function)}")
        self.at_end.append(partial(pool.leave, self))
        self.future: Future[Any] | None = None
        self._function: Callable[..., Any] | None = function
        self.pool: _Pool = pool

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        assert self._function is not None  # noqa: S101 - it is called once
        try:
            return self._function(*args, **kwargs)
        except ParticipantAborted:
            raise ClockLeakError(f"{self.name} still waited at close") from None

    def run(self, work: Callable[[], object]) -> None:
        """Do the work of a pool's item, as a participant until its future's callbacks have run."""
        pool, kernel = self.pool, self.pool.kernel
        try:
            kernel.post(pool.count, self)
            with attached(kernel, self):
                work()
        except ParticipantAborted:
            if self.future is not None:
                self.future.cancel()
        finally:
            self._function = self.future = None
            del work

    def drop(self) -> None:
        self.pool.kernel.post(self.pool.kernel.give_up_start, self)

    def done(self, future: Future[Any]) -> None:
        """Drop a job whose future was done before a worker took it."""
        # If it was cancelled, a worker will take it, and notify the waiters of the future.
        if not self.begun and not future.cancelled():
            self.drop()


def _call_last(future: Future[Any], callback: Callable[[Future[Any]], object]) -> None:
    """Have ``callback``, which may be repeated, called after those that wake who waits."""
    future.add_done_callback(lambda done: done._done_callbacks.append(callback))  # type: ignore[attr-defined]
    if future.done():  # then nobody may look at what was appended
        callback(future)


def _submit(original: Original, executor: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    kernel = kernel_here()
    if kernel is None or isinstance(function, _Job):
        return original(executor, function, *args, **kwargs)
    pool = kernel.pools.setdefault(executor, _Pool(kernel, executor._max_workers))
    job = _Job(pool, function)
    try:
        kernel.post(pool.add, job)
        future = job.future = original(executor, job, *args, **kwargs)
    except BaseException:
        job.drop()
        raise
    _call_last(future, job.done)
    return future


def _running(original: Original) -> Callable[..., Any]:
    def run(item: Any, *args: Any) -> None:
        function = item.fn if hasattr(item, "fn") else item.task[0]
        try:
            if isinstance(function, _Job):
                function.run(partial(original, item, *args))
            else:
                original(item, *args)
        finally:
            del item  # an error has this frame, and the item has the error: they end together

    return run


def _shut_down(
    original: Original,
    executor: ThreadPoolExecutor,
    wait: bool = True,  # noqa: FBT002 - as in the standard library
    *,
    cancel_futures: bool = False,
) -> None:
    original(executor, wait=False, cancel_futures=cancel_futures)
    kernel = kernel_here()
    pool = None if kernel is None else kernel.pools.get(executor)
    jobs = [] if pool is None else pool.kernel.query(lambda: list(pool.jobs))
    for job in jobs:
        if cancel_futures and job.future is not None and job.future.cancelled():
            job.drop()  # no worker will take it any more
    for job in jobs if wait else ():
        wait_for_end(job.pool.kernel, job, "Executor.shutdown()", None)
    original(executor, wait=wait)


def _submit_to_process(
    original: Original, executor: Any, function: Any, /, *args: Any, **kwargs: Any
) -> Any:
    kernel = kernel_here()
    if kernel is None:
        return original(executor, function, *args, **kwargs)
    key = object()

    def release(_: object) -> None:
        kernel.post(kernel.holds.pop, key, None)

    kernel.post(kernel.holds.setdefault, key, f"{name_of(function)} in a process pool")
    try:
        future = original(executor, function, *args, **kwargs)
    except BaseException:
        release(None)
        raise
    _call_last(future, release)
    return future


POOL_PATCHES = [
    (ThreadPoolExecutor, "submit", around(_submit)),
    (ThreadPoolExecutor, "shutdown", around(_shut_down)),
    (pools._WorkItem, "run", _running),
    (ProcessPoolExecutor, "submit", around(_submit_to_process)),
]
