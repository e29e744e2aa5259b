"""A virtual clock on which time advances by itself."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .._validation import safe_repr
from ._clock_base import check_callable
from ._current import as_current
from ._errors import ClockUsageError
from ._participants import Participants
from ._patches import patch, unpatch
from ._reports import name_of
from ._tracking import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

P = ParamSpec("P")
T = TypeVar("T")


class ByItself(Participants):
    """Time moves whenever every participant waits."""

    _entered: bool

    @contextmanager
    def auto_advance(self) -> Iterator[None]:
        """Have time advance by itself inside the block, whenever every participant waits.

        This thread is a participant there, so time stands still while it works.

        Raises:
            ClockUsageError: Another thread entered the clock, or this one is a participant, or
                runs an event loop.
            Exception: What the callback of a timer raised, as the block ends.
        """
        self._refuse_in_loop("auto_advance()", "auto=True for the clock")
        self._refuse_in_participant("auto_advance()")
        kernel = self._kernel
        driver = kernel.driver
        if driver.ident != threading.get_ident():
            if self._entered or driver.counted:
                raise ClockUsageError("only the thread that entered a clock can drive it")
            driver.ident = threading.get_ident()
        driver.native = threading.get_native_id()
        with counted(kernel, driver), kernel.alarm.armed():
            try:
                kernel.post(kernel.change_auto, 1)
                yield
            finally:
                kernel.post(kernel.change_auto, -1)
        self._raise_errors()

    def _raise_errors(self) -> None:
        errors = self._kernel.errors
        if errors:
            first, *others = errors
            errors.clear()
            for other in others:
                first.add_note(f"another callback raised {other!r}")
            raise first

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread that is tracked, time advancing by itself; return its result.

        Raises:
            VirtualDeadlockError: Everybody waits and nothing is due.
            SettleTimeout: A participant neither waits on the clock nor ends.
            BaseException: What the function, or the callback of a timer, raised.
        """
        check_callable("function", function)
        name = str(name_of(function))
        with self._installed(), self.auto_advance():
            return self.spawn(lambda: function(*args, **kwargs), name=name).result()

    def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on an event loop of this clock in this thread, as ``run()`` does.

        Raises:
            TypeError: ``coroutine`` is none, such as an ``async def`` function not called.
            BaseException: As ``run()`` does, or what the coroutine raised.
        """
        if not asyncio.iscoroutine(coroutine):
            raise TypeError(f"coroutine must be a coroutine, not {safe_repr(coroutine)}")
        try:
            with (
                self._installed(),
                self.auto_advance(),
                asyncio.Runner(loop_factory=self.new_event_loop) as runner,
            ):
                return runner.run(coroutine)
        finally:
            coroutine.close()

    @contextmanager
    def _installed(self) -> Iterator[None]:
        """Have this clock be the current one here, and the standard library know of it."""
        if self._entered:
            yield
            return
        patch()
        try:
            with as_current(self._kernel.clock):
                yield
        finally:
            unpatch()
