"""``explore()``: its options, and which files they have watched."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._validation import as_count, as_flag, as_number, safe_repr
from .._kernel import kernel_here
from ._explorer import Explorer
from ._story import from_text

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import ModuleType

    from ._outcome import Exploration

_HERE = os.path.realpath(Path(__file__).parent)


def explore(
    body: Callable[[], object],
    *,
    watch: str | os.PathLike[str] | ModuleType | Iterable[Any] | None = None,
    preemptions: int = 2,
    schedules: int | None = None,
    seed: int = 0,
    time_limit: float = 60.0,
    timeouts: bool = False,
    cancel_tasks: bool | Callable[[asyncio.Task[Any]], bool] = False,
    task_order: bool = False,
    interrupts: bool = False,
    replay: str | None = None,
) -> Exploration:
    """Run a function that starts threads under many schedules of them.

    ``body`` is called once for each schedule, in a thread of its own. It makes all that its threads
    share, starts them, and asserts what has to hold. Of these threads one runs at a time. Another
    may be chosen where one waits or ends, and, as a *preemption*, in watched files: before a line
    that may touch what others know, in it before the store of ``count += 1``, and before each call
    but the first. That ``Condition.notify()`` wakes another than the first is a preemption, too.
    First come all schedules without preemptions, then all with one, and so on up to
    ``preemptions``, until ``time_limit``. Where those left of one kind are more than the rest of
    ``schedules``, or of the first 2,000, that rest is drawn by ``seed``, as is every tenth after
    these 2,000 while more than that are left; see ``Exploration``.

    ``Thread``, all locks of ``threading``, ``queue``, ``concurrent.futures`` with threads,
    ``time.sleep()``, event loops of asyncio and the waits of this package take part as they are,
    under whatever name a module has imported them. Their time starts again with each schedule, and
    passes only while nobody can run. ``random`` begins with ``seed``.

    A schedule fails if ``body`` or a thread raises, if nobody can go on, if there is no end after
    20,000 steps. It is stuck, which is an error of its own, if it does not end within 30 s of real
    time, or if nothing moves for 10 s: somebody waits for what is not seen, such as a process, a
    socket, or a lock that was made before ``body`` and that watched code does not hold in a
    variable, an attribute, a closure, a list or a dictionary. A thread may end with
    ``SystemExit`` or ``KeyboardInterrupt``, and with any error that goes to a
    ``threading.excepthook`` of ``body``. ``body`` has to do the same each time: it may not depend
    on the order of a set, on memory addresses or on what an earlier call has left.

    With pytest, the marker ``@pytest.mark.explore(preemptions=1)`` has a test run like this, with
    the same options, and the fixture ``explore`` is this function.

    Args:
        body: Called without arguments.
        watch: Files, folders, modules, packages, functions or classes, one or several, whose files
            count. By default that of ``body``.
        preemptions: How many at most, from 0.
        schedules: How many at most, from 1; by default as many as the time allows. What a failure
            needs to be shrunk comes on top.
        seed: Any integer.
        time_limit: Real seconds after which no other schedule begins; more than 0, finite.
        timeouts: Whether the first wait to run out of time may do so, as a preemption, while
            somebody can run. So it is with real time, where a thread may be late; but a program
            that relies on time alone is then reported.
        cancel_tasks: Whether tasks of event loops may be cancelled, which counts as a preemption:
            all but the one that ``asyncio.run()`` was given, before each turn of the loop; or a
            function that is given a task and says whether that one may be.
        task_order: Whether, of the tasks of a loop that can go on, another than asyncio's first may
            be the first, which counts as a preemption.
        interrupts: Whether a ``KeyboardInterrupt`` may end one wait of the thread of ``body``, as
            Ctrl-C does in the main thread, as it begins or while somebody can run; it counts as a
            preemption. That ``body`` ends with it is no failure.
        replay: The schedule of a failure, to run that one only. It fits as long as the watched
            code and the version of Python stay as they are.

    Warns:
        RuntimeWarning: No thread or task but that of ``body`` came to a watched line; most often
            ``watch`` was forgotten.

    Raises:
        ScheduleStuck: A schedule waits for what ``explore()`` does not see.
        ScheduleFailure: A schedule failed. It has been shrunk to the fewest switches found.
        ValueError: A number is out of range, a file does not exist, or ``replay`` does not fit.
        TypeError: An option is of another type, or ``body`` returns a coroutine or a generator,
            which would not run.
        RuntimeError: Another exploration runs, or this thread is in a ``VirtualClock``.

    Example:
        >>> import threading
        >>> from backoff_ticker.testing import ScheduleFailure, explore
        >>> def body():
        ...     count = [0]
        ...     def add():
        ...         count[0] += 1
        ...     threads = [threading.Thread(target=add) for _ in "ab"]
        ...     for thread in threads:
        ...         thread.start()
        ...     for thread in threads:
        ...         thread.join()
        ...     assert count[0] == 2, count[0]
        >>> try:
        ...     explore(body)
        ... except ScheduleFailure as failure:
        ...     print(str(failure).splitlines()[0])
        body ended with AssertionError: 1
    """
    __tracebackhide__ = True  # for pytest
    _check(body, preemptions, schedules, seed, time_limit)
    several = isinstance(watch, Iterable) and not isinstance(watch, (str, os.PathLike))
    things: list[Any] = [*watch] if several else [body if watch is None else watch]  # type: ignore[misc]
    choices = {
        "timeouts": timeouts,
        "cancel_tasks": cancel_tasks,
        "task_order": task_order,
        "interrupts": interrupts,
    }
    for option, value in choices.items():
        if option != "cancel_tasks" or not callable(value):
            as_flag(option, value)
    names = ", ".join(map(_name_of, things))
    asked = [_name_of(body)]  # as its caller is likely to have written it
    if watch is not None:
        asked.append(f"watch=[{names}]" if several else f"watch={names}")
    for option, chosen in [("seed", seed), *choices.items()]:
        if chosen:
            asked.append(f"{option}={_name_of(chosen) if callable(chosen) else chosen}")
    if kernel_here() is not None:
        raise RuntimeError("explore() in a VirtualClock: leave it, time passes by itself here")
    explorer = Explorer(body, _watching(things), seed, asked, **choices)
    work = partial(explorer.search, preemptions, schedules, time_limit)
    if replay is not None:
        work = partial(explorer.replay, from_text(replay))
    outcome = explorer.outcome(work)
    if not outcome.watched:
        warnings.warn(
            f"explore() watched {names}, of which no thread or task but the body's own reached a "
            "line: name the modules under test, as in watch=stock",
            RuntimeWarning,
            stacklevel=2,
        )
    return outcome


def _check(
    body: object, preemptions: int, schedules: int | None, seed: int, time_limit: float
) -> None:
    if not callable(body):
        raise TypeError(f"body must be a callable, not {safe_repr(body)}")
    as_count("preemptions", preemptions)
    if schedules is not None:
        as_count("schedules", schedules, 1)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an int, not {safe_repr(seed)}")
    if as_number("time_limit", time_limit) <= 0:
        raise ValueError(f"time_limit must be more than 0 seconds, not {time_limit!r}")


def _name_of(thing: object) -> str:
    """Return how a caller is likely to name a file, module, function or class."""
    if isinstance(thing, (str, os.PathLike)):
        return repr(os.fspath(thing))
    name: str = getattr(thing, "__qualname__", "") or getattr(thing, "__name__", "")
    name = name.rpartition("<locals>.")[2]
    return name if name.replace(".", "_").isidentifier() else "..."


def _watching(things: list[Any]) -> Callable[[str], bool]:
    """Return what tells whether a file is one of those of ``things``, or in a folder of theirs."""
    files = {_real(file) for thing in things for file in _files_of(thing)}
    if not files:
        raise ValueError("watch must name at least one file")
    folders = tuple(f"{file}{os.sep}" for file in files if Path(file).is_dir())

    def watched(file: str) -> bool:
        file = _real(file)
        # Whatever is watched, such as a folder with an environment in it: this itself is not.
        return (file in files or file.startswith(folders)) and not file.startswith(_HERE)

    return watched


def _files_of(watched: Any) -> Iterable[str]:
    if isinstance(watched, (str, os.PathLike)):
        if not watched or not Path(watched).exists():
            raise ValueError(f"watch must name files that exist, not {safe_repr(watched)}")
        return [os.fspath(watched)]
    if inspect.ismodule(watched) and hasattr(watched, "__path__"):
        return watched.__path__
    try:
        return [inspect.getfile(inspect.unwrap(getattr(watched, "func", watched)))]
    except (TypeError, OSError):
        raise TypeError(
            "watch (by default body) must be files, folders, modules, functions or classes that "
            f"are written in Python, not {safe_repr(watched)}"
        ) from None


@cache
def _real(file: str) -> str:
    return file if file.startswith("<") else os.path.realpath(file)
