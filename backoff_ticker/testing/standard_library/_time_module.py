"""The module ``time`` tells the time of the thread's clock: ``VirtualClock(patch_time=True)``.

Replaced are ``time``, ``monotonic`` and ``perf_counter``, their ``_ns``, and ``sleep``; and the
time by which ``threading`` and ``queue`` measure timeouts. asyncio, and modules that wait for
processes, go on reading real time, because the operating system measures their waits.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...clock import later
from .._kernel import Kernel, kernel_here
from .._participants import State
from .._thread_side import VirtualParker
from .._timers import in_nanoseconds
from ._patches import Patches, around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._patches import Original, Patch

_REAL_TIME = {"asyncio", "multiprocessing", "subprocess"}  # which wait in it


seconds = attrgetter("seconds")  # of a kernel


def _wall_nanoseconds(kernel: Kernel) -> int:
    return in_nanoseconds(kernel.epoch or 0.0) + kernel.now


def kernel_that_tells_time() -> Kernel | None:
    """Return the kernel of this thread's clock, if the module ``time`` tells that clock's time."""
    kernel = kernel_here()
    return None if kernel is None or kernel.epoch is None else kernel


def kernel_of_waits() -> Kernel | None:
    """Return the kernel of this thread's clock, if waits in ``threading`` and ``queue`` are on it.

    They are not inside ``idle()`` and ``external()``, nor in a thread that drives a clock by hand.
    """
    kernel = kernel_that_tells_time()
    participant = None if kernel is None else kernel.member_here()
    return None if participant is None or participant.state is State.EXTERNAL else kernel


def telling(
    read: Callable[[Kernel], float],
    kernel_for: Callable[[], Kernel | None] = kernel_that_tells_time,
) -> Callable[[Any], Any]:
    """Return what replaces a function of ``time``: it reads from the kernel, if there is one."""

    def replace(original: Callable[[], float]) -> Callable[[], float]:
        @wraps(original)
        def tell() -> float:
            kernel = kernel_for()
            if kernel is None or _is_real(sys._getframe(1).f_globals.get("__name__")):
                return original()
            return read(kernel)

        return tell

    return replace


def _is_real(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] in _REAL_TIME


def _sleep(original: Original, seconds: float, /) -> None:
    kernel = kernel_that_tells_time()
    here = None if kernel is None else kernel.known_here()  # one that drives must not sleep
    real = here is None or here.state is State.EXTERNAL or not seconds >= 0
    # Two frames up: the first is that of the replacement, which around() has made.
    if kernel is None or real or _is_real(sys._getframe(2).f_globals["__name__"]):
        original(seconds)
    else:
        VirtualParker(kernel, "time.sleep()").park(later(kernel.seconds, float(seconds)))


_PATCHES: list[Patch] = [
    (time, "monotonic", telling(seconds)),
    (time, "monotonic_ns", telling(attrgetter("now"))),
    (time, "perf_counter", telling(seconds)),
    (time, "perf_counter_ns", telling(attrgetter("now"))),
    (time, "time", telling(lambda kernel: (kernel.epoch or 0.0) + kernel.seconds)),
    (time, "time_ns", telling(_wall_nanoseconds)),
    (time, "sleep", around(_sleep)),
    (threading, "_time", telling(seconds, kernel_of_waits)),
    (queue, "time", telling(seconds, kernel_of_waits)),
]
time_patches = Patches()


@contextmanager
def time_patched(kernel: Kernel) -> Iterator[None]:
    """Replace the functions of ``time`` inside the block, if the kernel's clock is to tell time."""
    with ExitStack() as stack:
        if kernel.epoch is not None:
            _move_datetime(stack)  # first: it cannot begin while ``time.time`` is replaced
            stack.enter_context(time_patches.installed(_PATCHES))
        yield


def _move_datetime(stack: ExitStack) -> None:
    """Let ``datetime`` tell the time of this thread's clock, too, if time-machine is installed."""
    try:
        time_machine = import_module("time_machine")
    except ModuleNotFoundError:
        return
    real = time_machine.escape_hatch.time.time_ns

    def time_ns() -> int:
        kernel = kernel_that_tells_time()
        return real() if kernel is None else _wall_nanoseconds(kernel)

    travel = time_machine.travel(0.0, tick=False)
    travel.start().time_ns = time_ns
    stack.callback(travel.stop)
