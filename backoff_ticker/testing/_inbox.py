"""How the state of a virtual clock changes: step by step, and nobody waits for a lock.

Every change is an operation in an inbox. Who adds one carries out all that are there, unless
somebody else is doing so, and then that thread finds the new one, too. So a signal handler or a
finalizer may come in the middle of any other change, in the very thread that makes it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from ._current import as_current
from ._errors import ClockUsageError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def _nothing() -> None:
    pass


class Inbox:
    """Carries out operations, and what follows from them.

    Attributes:
        clock: Is the current one for callbacks.
        errors: What callbacks raised while nobody waited for a step; and, where a signal handler
            raised something in the middle of it, an operation.
    """

    def __init__(self) -> None:
        self.clock: Any = None
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...], int]] = deque()
        self._observers: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self.errors: list[BaseException] = []
        self._firing = False
        self._callbacks: list[Callable[[], object]] = []
        self._firing_thread: int | None = None

    def _dispatch(self) -> None:
        """Do what follows from the state; at most one callback is handed out to be called."""
        raise NotImplementedError

    def _after_callback(self, error: BaseException | None) -> None:
        """Go on once that callback has returned, or raised ``error``."""
        raise NotImplementedError

    def clear(self) -> None:
        """Know of no operation any more, nor of a thread that is at it."""
        self._lock = threading.RLock()
        self._inbox.clear()
        self._callbacks.clear()
        self._observers.clear()
        self._firing = False
        self._firing_thread = None

    def mend(self) -> None:
        """Put right what an interrupt in the middle of a change has left."""
        raise NotImplementedError

    def post(self, operation: Callable[..., None], *args: object) -> None:
        """Have an operation carried out, by this thread or the one that is at it."""
        here = threading.get_ident()
        self._inbox.append((operation, args, here))
        inbox, callbacks, lock = self._inbox, self._callbacks, self._lock
        while (inbox or callbacks) and not lock._is_owned():  # type: ignore[attr-defined]
            try:  # before it is acquired: an interrupt can come at any call
                if not lock.acquire(blocking=False):
                    return
                self._carry_out(here)
                for observe in self._observers:
                    observe()
                self._dispatch()
            except Exception:
                raise
            except BaseException:  # an interrupt in the middle of a change
                inbox.append((self.mend, (), 0))
                raise
            finally:
                if lock._is_owned():  # type: ignore[attr-defined]
                    lock.release()
            if callbacks:
                self._fire()

    def _carry_out(self, here: int) -> None:
        while self._inbox:
            operation, args, poster = self._inbox.popleft()
            try:
                operation(*args)
            except Exception as error:
                if poster == here:
                    raise
                self.errors.append(error)

    def _fire(self) -> None:
        error: BaseException | None = None
        try:
            callback = self._callbacks.pop()
        except IndexError:
            return  # another thread calls it
        try:
            self._firing_thread = threading.get_ident()
            with as_current(self.clock):
                callback()
        except KeyboardInterrupt:
            raise  # out of the call that fired it
        except BaseException as raised:  # noqa: BLE001 - raised by the step, or when the clock ends
            error = raised
        finally:
            self._firing_thread = None
            self._inbox.append((self._after_callback, (error,), 0))

    def unlock(self) -> None:
        """Let go the lock, before a wait, that an interrupt made this thread keep."""
        while self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock.release()

    @property
    def fires_here(self) -> bool:
        """Whether this thread is calling a timer's callback."""
        return self._firing_thread == threading.get_ident()

    def refuse_in_callback(self, what: str) -> None:
        """Raise a ``ClockUsageError`` where this thread is calling a timer's callback."""
        if self.fires_here:
            raise ClockUsageError(f"a timer callback must not block ({what or 'a wait'})")

    def ask(self, question: Callable[[], T]) -> T:
        """Return what ``question()`` answers while nothing changes."""
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise ClockUsageError("a signal handler cannot ask a clock that it has interrupted")
        answers: list[T] = []
        errors: list[Exception] = []

        def answer() -> None:
            try:
                answers.append(question())
            except Exception as error:  # noqa: BLE001 - raised below, whoever carries this out
                errors.append(error)

        self.post(answer)
        while not answers and not errors:
            self.post(_nothing)  # another thread is about to carry it out
        if errors:
            raise errors[0]
        return answers[0]

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``condition()``, which is looked at after each change, in real seconds."""
        met = threading.Lock()
        met.acquire()

        def look() -> None:
            if met.locked() and condition():
                met.release()

        try:
            self.ask(lambda: self._observers.append(look))
            return met.acquire(timeout=timeout)
        finally:
            self.ask(lambda: self._forget_observer(look))

    def _forget_observer(self, look: Callable[[], None]) -> None:
        if look in self._observers:
            self._observers.remove(look)
