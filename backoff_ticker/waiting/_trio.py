"""Whether trio runs here. What imports trio is loaded only in a task of it.

The name of what runs in a thread stands in sniffio, which trio needs. It tells trio's tasks from
the others also where a run of trio is the guest of an asyncio loop, and in trio-asyncio.
"""

from __future__ import annotations

from sys import modules

from ..clock import clock_finders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..clock import Clock
    from ._trio_run import TrioRun


class _Nowhere:
    name = None


_here: Any = _Nowhere  # sniffio's, from the first look after trio was imported


def trio_runs() -> bool:
    """Whether trio runs in this thread; then each call of a coroutine must be a checkpoint."""
    global _here  # noqa: PLW0603
    if _here is _Nowhere and "trio" in modules:
        _here = getattr(modules.get("sniffio"), "thread_local", _Nowhere)
    return _here.name == "trio"  # type: ignore[no-any-return]


def current_run() -> TrioRun | None:
    """Return the run of trio whose task runs in this thread; None if none does."""
    if not trio_runs():
        return None
    from ._trio_run import current_run as found

    return found()


def _clock_of_run() -> Clock | None:
    if current_run() is None:
        return None
    from ._trio_clock import clock_of_run

    return clock_of_run()


clock_finders.append(_clock_of_run)
