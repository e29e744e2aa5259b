"""Whether trio runs here. What imports trio is loaded only in a task of it.

The name of what runs in a thread stands in sniffio, which trio needs. It tells trio's tasks from
the others also where a run of trio is the guest of an asyncio loop, and in trio-asyncio.
"""

from __future__ import annotations

from sys import modules

from ..clock import clock_finders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ..clock import Clock
    from ._trio_run import TrioRun

    F = TypeVar("F", bound=Callable[..., Any])


class _Nowhere:
    name = None


_here: Any = _Nowhere  # sniffio's, from the first look after trio was imported
_trio_run: Any = None  # the module, from the first look in a task of trio
_marked: list[tuple[str, Callable[..., Any]]] = []  # until then


def trio_runs() -> bool:
    """Whether trio runs in this thread; then each call of a coroutine must be a checkpoint."""
    global _here  # noqa: PLW0603
    if _here is _Nowhere and "trio" in modules:
        _here = getattr(modules.get("sniffio"), "thread_local", _Nowhere)
    return _here.name == "trio"


def current_run() -> TrioRun | None:
    """Return the run of trio whose task runs in this thread; None if none does."""
    global _trio_run  # noqa: PLW0603
    if not trio_runs():
        return None
    if _trio_run is None:
        from . import _trio_run as loaded

        lowlevel = modules["trio"].lowlevel
        for how, function in _marked:
            getattr(lowlevel, how)(function)
        _trio_run = loaded  # at last: after an interrupt before this, all are marked again
    return _trio_run.current_run()


def protected_in_trio(function: F) -> F:
    """Have trio raise no ``KeyboardInterrupt`` in ``function``, and what it calls, but in waits."""
    return _mark("enable_ki_protection", function)


def interruptible_in_trio(function: F) -> F:
    """Undo this for ``function``, and what it calls."""
    return _mark("disable_ki_protection", function)


def _mark(how: str, function: F) -> F:
    _marked.append((how, function))
    if _trio_run is not None:
        getattr(modules["trio"].lowlevel, how)(function)
    return function


def _clock_of_run() -> Clock | None:
    run = current_run()
    if run is None or run.has_real_time:
        return None
    from ._trio_clock import clock_of_run

    return clock_of_run(run)


clock_finders.append(_clock_of_run)
