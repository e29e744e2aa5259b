"""The jobs of thread pools inside a virtual clock are its participants.

A job counts from the moment a worker can have it: at once, if one is free, else when another job
ends, which hands its place on. So time waits for jobs that run, not for those in the queue.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, thread as pools
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ._current import as_current
from ._errors import ClockLeakError, Unwind
from ._participant import Participant
from ._reports import name_of
from ._tracking import attached, kernel_here, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._kernel import Kernel


class _Pool:
    """The jobs of one pool that belong to one clock."""

    def __init__(self, kernel: Kernel, workers: int) -> None:
        self.kernel: Kernel = kernel
        self._free = workers
        self._queued: deque[_Job] = deque()
        self._jobs: set[_Job] = set()
        self._at_idle: list[Callable[[], object]] = []
        self._lock = threading.RLock()

    def add(self, job: _Job) -> None:
        """Take a job in, and count it if a worker is free for it."""
        with self._lock:
            self._jobs.add(job)
            if self._free:
                self._free -= 1
                self._count(job)
            else:
                self._queued.append(job)

    def _count(self, job: _Job) -> None:
        job.participant = Participant(job.name)
        self.kernel.enter_new(job.participant)

    def begin(self, job: _Job) -> Participant:
        """Return the participant of a job that a worker has."""
        with self._lock:
            if job.participant is None:
                self._queued.remove(job)
                self._free -= 1  # a worker came out of turn: one place more for a while
                self._count(job)
            assert job.participant is not None  # noqa: S101 - it is counted
            return job.participant

    def leave(self, job: _Job) -> None:
        """Hand the place of a job on; its participant ends next."""
        with self._lock:
            if job not in self._jobs:
                return
            self._jobs.discard(job)
            if job in self._queued:
                self._queued.remove(job)
            else:
                self._free += 1
                if self._free > 0 and self._queued:
                    self._free -= 1
                    self._count(self._queued.popleft())
            calls: list[Callable[[], object]] = []
            if not self._jobs:
                calls, self._at_idle = self._at_idle, calls
        for call in calls:
            call()

    def drop_cancelled(self) -> None:
        """Forget the jobs that are cancelled and that no worker comes to any more."""
        for job in list(self._jobs):
            if job.future is not None and job.future.cancelled():
                job.drop()

    def add_idle_callback(self, call: Callable[[], object]) -> None:
        """Have ``call()`` called once there is no job."""
        with self._lock:
            if self._jobs:
                self._at_idle.append(call)
                return
        call()


class _Job:
    """What a pool is given in place of the function."""

    def __init__(self, pool: _Pool, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] = function
        self.name: str = f"job {name_of(function)}"
        self.participant: Participant | None = None
        self.future: Future[Any] | None = None
        self._pool = pool
        self._unclaimed = [True]

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return self.function(*args, **kwargs)
        except Unwind:
            raise ClockLeakError(f"{self.name} still waited at close") from None

    def run(self, work: Callable[[], object]) -> None:
        """Do the work of a pool's item, callbacks of its future included, as a participant."""
        if not self._claim():
            work()
            return
        participant = self._pool.begin(self)
        try:
            with attached(self._pool.kernel, participant, lambda: self._pool.leave(self)):
                work()
        except Unwind:
            if self.future is not None:
                self.future.cancel()

    def _claim(self) -> bool:
        """Whether nobody has done so before: a worker begins it, or it is done without one."""
        try:
            return self._unclaimed.pop()
        except IndexError:
            return False

    def dropped(self, future: Future[Any]) -> None:
        """Forget a job whose future is done before a worker had it, once all have heard of that."""
        if future.cancelled():
            return  # a worker comes to it in time, and tells those who wait
        if self._claim():
            future._done_callbacks.append(self._forget)  # type: ignore[attr-defined]

    def _forget(self, _future: Future[Any]) -> None:
        self.give_up()

    def drop(self) -> None:
        """Be no job any more, unless a worker has begun it."""
        if self._claim():
            self.give_up()

    def give_up(self) -> None:
        """Be no job any more, though no worker has begun it."""
        self._pool.leave(self)
        if self.participant is not None:
            kernel = self._pool.kernel
            kernel.post(kernel.end, self.participant)


_pools: WeakKeyDictionary[ThreadPoolExecutor, _Pool] = WeakKeyDictionary()


def _submitting(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(
        executor: ThreadPoolExecutor,
        function: Callable[..., Any],
        /,
        *args: object,
        **kwargs: object,
    ) -> Future[Any]:
        kernel = kernel_here()
        if kernel is None:
            future: Future[Any] = original(executor, function, *args, **kwargs)
            return future
        pool = _pools.get(executor)
        if pool is None or pool.kernel is not kernel:
            pool = _pools[executor] = _Pool(kernel, executor._max_workers)
            _wrap_initializer(executor, kernel)
        job = _Job(pool, function)
        try:
            pool.add(job)
            future = original(executor, job, *args, **kwargs)
        except BaseException:
            job.drop()  # a worker that has it none the less does it uncounted
            raise
        job.future = future
        future.add_done_callback(job.dropped)
        return future

    return submit


def _wrap_initializer(executor: Any, kernel: Kernel) -> None:  # noqa: ANN401
    """Run the initializer of a pool's threads, which no job stands for yet, on the clock."""

    def on_clock(initialize: Callable[..., Any]) -> Callable[..., Any]:
        def initialize_on_clock(*args: object) -> object:
            if kernel.closed:
                return initialize(*args)
            with as_current(kernel.clock):
                return initialize(*args)

        return initialize_on_clock

    if getattr(executor, "_initializer", None) is not None:
        executor._initializer = on_clock(executor._initializer)
    elif hasattr(executor, "_create_worker_context"):  # Python 3.14 and later
        create = executor._create_worker_context

        def create_context() -> Any:  # noqa: ANN401
            context = create()
            context.initialize = on_clock(context.initialize)
            return context

        executor._create_worker_context = create_context


def _running(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(item: Any, *args: Any) -> None:  # noqa: ANN401
        function = item.fn if hasattr(item, "fn") else item.task[0]
        if isinstance(function, _Job):
            function.run(lambda: original(item, *args))
        else:
            original(item, *args)

    return run


def _shutting_down(original: Callable[..., Any]) -> Callable[..., Any]:
    def shutdown(
        executor: ThreadPoolExecutor,
        wait: bool = True,  # noqa: FBT001, FBT002 - as in the standard library
        *,
        cancel_futures: bool = False,
    ) -> None:
        pool = _pools.get(executor)
        kernel = kernel_here()
        if pool is not None and cancel_futures:
            original(executor, wait=False, cancel_futures=True)
            pool.drop_cancelled()
        if wait and kernel is not None and pool is not None and pool.kernel is kernel:
            original(executor, wait=False)
            wait_until(kernel, "Executor.shutdown()", pool.add_idle_callback, None)
        original(executor, wait=wait, cancel_futures=cancel_futures)

    return shutdown


POOL_PATCHES = [
    (ThreadPoolExecutor, "submit", _submitting),
    (ThreadPoolExecutor, "shutdown", _shutting_down),
    (pools._WorkItem, "run", _running),
]
