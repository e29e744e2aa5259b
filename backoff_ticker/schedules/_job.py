"""The job: a key that a worker has, and the block that gives it back."""

from __future__ import annotations

from warnings import warn

from .._validation import as_seconds, safe_repr, whole_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType
    from typing import Any, Generic, Protocol, Self, TypeVar

    from ._keys import Hold

    K = TypeVar("K")

    class Lender(Protocol):
        """What gives keys to workers: the schedule."""

        def _end(self, job: Job[Any], error: BaseException | None) -> bool: ...
        def _succeed(self, job: Job[Any]) -> None: ...
        def _fail(self, job: Job[Any], error: Exception | None) -> None: ...
        def _retry_in(self, job: Job[Any], seconds: float) -> None: ...
        def _leave(self, job: Job[Any]) -> None: ...
        def _give_back(self, hold: Hold) -> None: ...
        def _drop(self, hold: Hold) -> None: ...

else:
    K, Generic = None, {None: object}  # typing is not imported at run time


class Job(Generic[K]):
    """A key that has fallen due, and that this worker has, until the end of ``with job:``.

    Leaving the block is a success, and gives the key back. An error that ``on`` of the schedule
    names is a failure, and goes no further; any other is a failure, and is raised. A cancel or an
    interrupt is neither: the key is due again at once. In the block ``retry_in()``, ``leave()``,
    ``fail()`` and ``succeed()`` say what a normal end of the block means; an error overrules them.
    Without a block they end the job at once. A job that has ended does nothing more.

    A job that is dropped before its end is a failure, with a ``ResourceWarning``.

    Thread safety: one thread or coroutine at a time uses it; any may.

    Attributes:
        due: When the key fell due, in the clock's monotonic seconds.
        lateness: The seconds from then until the worker got it, >= 0.
        missed: How many times of the key's grid were left out before it.
        failures: How often the work of the key has failed in a row before.

    Example:
        >>> from backoff_ticker import Schedule
        >>> queue = Schedule()
        >>> queue.add("key")
        True
        >>> job = queue.receive()
        >>> with job:
        ...     print(job.key, job.failures)
        key 0
        >>> len(queue)
        0
    """

    __slots__ = (
        *("_entered", "_hold", "_over", "_said", "_schedule"),
        *("due", "failures", "lateness", "missed"),
    )

    def __init__(self, schedule: Lender, hold: Hold, now: float) -> None:
        entry = hold.entry
        self._schedule = schedule
        self._hold = hold
        self._entered = False
        self._over = True  # until the owner of the keys hands it over
        self._said: tuple[Any, ...] = (schedule._succeed,)
        self.due: float = hold.due
        self.lateness: float = max(0.0, now - hold.due)
        self.missed: int = hold.missed
        self.failures: int = entry.failures

    @property
    def key(self) -> K:
        """The key, as it was added."""
        key: K = self._hold.entry.key
        return key

    def succeed(self) -> None:
        """Say that the work went well."""
        self._say(self._schedule._succeed)

    def fail(self, error: Exception | None = None) -> None:
        """Say that the work failed; ``error`` is for ``notify`` and the log."""
        if error is not None and not isinstance(error, Exception):
            raise TypeError(f"error must be an Exception or None, not {safe_repr(error)}")
        self._say(self._schedule._fail, error)

    def retry_in(self, seconds: float | timedelta) -> None:
        """Say that the key is due again after this time, from the end of the work.

        Neither a success nor a failure: ``failures`` stays, and so does the key's grid.

        Raises:
            TypeError, ValueError: ``seconds`` is not a finite duration >= 0.
        """
        self._say(self._schedule._retry_in, as_seconds("seconds", seconds))

    def leave(self) -> None:
        """Say that the key leaves the schedule."""
        self._say(self._schedule._leave)

    def _say(self, *end: Any) -> None:  # noqa: ANN401
        self._said = end
        if not self._entered:
            self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        self._entered = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._over:
            return False
        try:
            return self._schedule._end(self, error)
        except BaseException:
            self._give_back()  # if the end was interrupted; else it has ended
            raise

    def _give_back(self) -> None:
        """Have the key due again, as if nobody had got it. May be repeated."""
        self._schedule._give_back(self._hold)
        self._over = True

    def __del__(self) -> None:
        if not getattr(self, "_over", True):
            self._schedule._drop(self._hold)
            text = f"{self!r} was dropped before its end: use `with job:`"
            warn(text, ResourceWarning, stacklevel=1, source=self)

    def __repr__(self) -> str:
        state = "ended" if self._over else f"due {self.due}"
        return f"<Job {state}, {whole_repr(self.key)}>"
