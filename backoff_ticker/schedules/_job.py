"""The job: a key that a worker has, and the block that gives it back."""

from __future__ import annotations

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
        def _finish(self, hold: Hold, due: float, failures: int, now: float) -> None: ...

else:
    K, Generic = None, {None: object}  # typing is not imported at run time

SUCCEEDS = "succeeds"
FAILS = "fails"
RETRIES = "retries"
LEAVES = "leaves"


class Job(Generic[K]):
    """A key that has fallen due, and that this worker has, until the end of ``with job:``.

    Leaving the block is a success, and gives the key back. An error that ``on`` of the schedule
    names is a failure, and goes no further; any other is a failure, and is raised. A cancel or an
    interrupt is neither: the key is due again at once. In the block ``retry_in()``, ``leave()``,
    ``fail()`` and ``succeed()`` say what a normal end of the block means; an error overrules them.
    Without a block they end the job at once. A job that has ended does nothing more. One that is
    dropped before its end is a failure, with a ``ResourceWarning``.

    Thread safety: one thread or coroutine at a time uses it; any may.

    Attributes:
        due: When the key fell due, in the clock's monotonic seconds.
        lateness: The seconds from then until the worker got it, >= 0.
        missed: How many times of the key's grid were left out before it.
        failures: How often the work of the key has failed in a row before.
    """

    __slots__ = (
        *("__weakref__", "_entered", "_hold", "_said", "_schedule"),
        *("due", "failures", "lateness", "missed"),
    )

    def __init__(self, schedule: Lender, hold: Hold, now: float) -> None:
        self._schedule = schedule
        self._hold = hold
        self._entered = False
        self._said: tuple[str, Any] = SUCCEEDS, None  # how its work ends, and what belongs to that
        self.due: float = hold.due
        self.lateness: float = now - hold.due if now > hold.due else 0.0
        self.missed: int = hold.entry.missed(hold.due)
        self.failures: int = hold.entry.failures

    @property
    def key(self) -> K:
        """The key, as it was added."""
        key: K = self._hold.entry.key
        return key

    def succeed(self) -> None:
        """Say that the work went well."""
        self._say(SUCCEEDS)

    def fail(self, error: Exception | None = None) -> None:
        """Say that the work failed; ``error`` is for ``notify`` and the log."""
        if error is not None and not isinstance(error, Exception):
            raise TypeError(f"error must be an Exception or None, not {safe_repr(error)}")
        self._say(FAILS, error)

    def retry_in(self, seconds: float | timedelta) -> None:
        """Say that the key is due again after this time, from the end of the work.

        Neither a success nor a failure: ``failures`` stays, and so does the key's grid.

        Raises:
            TypeError, ValueError: ``seconds`` is not a finite duration >= 0.
        """
        self._say(RETRIES, as_seconds("seconds", seconds))

    def leave(self) -> None:
        """Say that the key leaves the schedule."""
        self._say(LEAVES)

    def _say(self, end: str, what: object = None) -> None:
        self._said = end, what
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
        if self._hold.watch is None:
            return False
        try:
            return self._schedule._end(self, error)
        except BaseException:
            self._give_back()  # if the end was interrupted; else it has ended
            raise

    def _give_back(self) -> None:
        """Have the key due again, as if nobody had got it. May be repeated."""
        hold = self._hold
        if hold.watch is not None:
            self._schedule._finish(hold, hold.due, self.failures, hold.due)

    def __repr__(self) -> str:
        state = "ended" if self._hold.watch is None else f"due {self.due}"
        return f"<Job {state}, {whole_repr(self.key)}>"
