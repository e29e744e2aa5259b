"""A queue of commands that run one at a time, although no thread waits for a lock.

A thread that posts a command runs all commands that are queued, unless another thread is doing so;
that thread then finds the new command, too. So a signal handler or a finalizer may post in the
middle of any other command, in the very thread that runs it.

An interrupt may come anywhere in the middle, too, and loses nothing: a command stays at the head of
the queue until it is done, and a callback stays with whoever fires it until it begins. So a command
may run twice, in part and then as a whole, and nothing comes in between but ``repair()``. Commands
must bear that.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from ..clock import let_other_threads_run
from ._errors import ClockUsageError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class CommandQueue:
    """Runs commands, then whatever follows from the new state.

    Args:
        dispatch: Acts upon the new state. Called with the lock, after commands have run. It may
            call ``fire(callback)`` once, and again if an interrupt kept the callback from running.
        run_callback: Runs such a callback. Called without the lock.
        callback_ended: Told that the callback has returned, or the error that it raised.
        repair: Completes what an interrupt has cut short, before anything else is done. Called
            with the lock; may be repeated.

    Attributes:
        commands: The queued commands.
        firing: Whether a callback is about to run, or runs.
        errors: Errors without a caller to raise them to: of callbacks, and of commands that ran in
            another thread than the one that posted them.
    """

    def __init__(
        self,
        dispatch: Callable[[], None],
        run_callback: Callable[[Callable[[], object]], None],
        callback_ended: Callable[[BaseException | None], None],
        repair: Callable[[], None],
    ) -> None:
        self.commands: deque[tuple[Callable[..., None], tuple[Any, ...], int]] = deque()
        self.firing: bool = False
        self.errors: list[BaseException] = []
        self._dispatch = dispatch
        self._run_callback = run_callback
        self._callback_ended = callback_ended
        self._repair = repair
        self._unfinished = False
        self._observers: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], object]] = []
        self._firing_thread: int | None = None
        self._lock = threading.RLock()

    def clear(self) -> None:
        """Forget all commands, and the thread that runs them: for a forked child."""
        self._lock = threading.RLock()
        self.commands.clear()
        self._callbacks.clear()
        self._observers.clear()
        self.firing = False
        self._firing_thread = None

    def post(self, command: Callable[..., None], *args: object) -> None:
        """Have a command run, by this thread or by the one that is running commands.

        An ``Exception`` of the command is raised here if this thread ran it.
        """
        self.commands.append((command, args, threading.get_ident()))
        self._run()

    def _run(self) -> None:
        """Run what is queued, unless another thread does; it finds all that was queued before."""
        commands, callbacks, lock = self.commands, self._callbacks, self._lock
        # The conditions are checked again after each release: a command that was posted while this
        # thread held the lock is left to it.
        while (commands or callbacks) and not lock._is_owned():  # type: ignore[attr-defined]
            try:  # entered before the lock is acquired: an interrupt may follow the acquire at once
                if not lock.acquire(blocking=False):
                    return
                if self._unfinished:
                    self._repair()
                self._unfinished = True
                self._run_commands()
                for observe in self._observers:
                    observe()
                self._dispatch()
                self._unfinished = False
            finally:
                try:  # no other call before: an interrupt after it would leave the lock
                    lock.release()
                except RuntimeError:
                    pass  # another thread has it
            if callbacks:
                self._fire_callback()

    def _run_commands(self) -> None:
        here = threading.get_ident()
        while self.commands:
            command, args, poster = self.commands[0]
            try:
                command(*args)
            except Exception as error:
                self.commands.popleft()
                if poster == here:
                    raise
                self.errors.append(error)
            else:
                if self.commands:  # a signal handler may have forked
                    self.commands.popleft()

    @property
    def runs_here(self) -> bool:
        """Whether this thread is in the middle of a command."""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def unlock(self) -> None:
        """Release the lock if an interrupt left it locked here. Called before each wait."""
        while self._lock._is_owned():  # type: ignore[attr-defined]
            self._lock.release()

    # Callbacks

    def fire(self, callback: Callable[[], object]) -> None:
        """Have a callback run once the lock is released. Called by ``dispatch`` only."""
        self.firing = True
        self._callbacks.append(callback)

    def _fire_callback(self) -> None:
        error: BaseException | None = None
        mine = True
        try:
            try:
                # ATOMIC: no call between the `try` and the pop. An interrupt there would make a
                # callback count as ended that nobody has taken. One after the pop is right: the
                # callback has ended, and is fired again unless it has begun.
                callback = self._callbacks.pop()
            except IndexError:
                mine = False  # another thread runs it
                return
            self._firing_thread = threading.get_ident()
            self._run_callback(callback)
        except KeyboardInterrupt:
            raise  # from the call that fired it
        except BaseException as raised:  # noqa: BLE001 - the kernel raises it where it belongs
            error = raised
        finally:
            if mine:
                self._firing_thread = None
                self.commands.append((self._end_callback, (error,), 0))

    def _end_callback(self, error: BaseException | None) -> None:
        self._callback_ended(error)
        self.firing = False

    @property
    def fires_here(self) -> bool:
        """Whether this thread is running a callback."""
        return self._firing_thread == threading.get_ident()

    # Questions

    def query(self, function: Callable[[], T]) -> T:
        """Return the result of ``function()``, called while nothing changes.

        Raises:
            ClockUsageError: This thread was interrupted while it ran a command.
            Exception: Whatever the function raised.
        """
        if self.runs_here:
            raise ClockUsageError("a signal handler cannot query a clock that it interrupted")
        results: list[T] = []
        errors: list[Exception] = []

        def command() -> None:
            try:
                results.append(function())
            except Exception as error:  # noqa: BLE001 - raised below
                errors.append(error)

        self.post(command)
        while not results and not errors:
            let_other_threads_run()  # one of them is about to run the command
            self._run()  # unless that one was interrupted
        if errors:
            raise errors[0]
        return results[0]

    def wait_for(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``condition()`` holds after a command; at most ``timeout`` real seconds."""
        met = threading.Lock()
        met.acquire()

        def observe() -> None:
            if met.locked() and condition():
                met.release()

        try:
            self.query(lambda: self._observers.append(observe))
            return met.acquire(timeout=timeout)
        finally:
            self.query(lambda: self._forget_observer(observe))

    def _forget_observer(self, observe: Callable[[], None]) -> None:
        while observe in self._observers:
            self._observers.remove(observe)
