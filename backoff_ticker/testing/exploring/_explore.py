"""``explore()``: which schedules are run, and how a failure is told."""

from __future__ import annotations

import gc
import inspect
import os
import random
import threading
import warnings
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, partial
from math import log10
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ..._errors import BackoffTickerError
from ..._process import after_fork
from ..._random import _shared
from ..._validation import as_count, as_flag, as_number, counted, safe_repr
from .._kernel import kernel_here
from ..standard_library._patches import Patches
from ._made_before import locks_replaced
from ._points import Points
from ._schedule import Abandoned, Schedule
from ._search import Tree, drawing, following, shrunk
from ._standard_library import free, in_another, replacements, schedule_here, start_body
from ._story import as_text, from_text, shortened, told

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from ._schedule import Choose
    from ._search import Deviations

_STUCK_AFTER = 10.0
"""Real seconds without a step after which a member waits for what a schedule does not see."""

_TOO_LONG = 30.0
"""Real seconds after which a schedule counts as endless; 20,000 steps take one or two."""

_GRACE = 2.0
"""Real seconds for which the threads of a schedule that is over may go on."""

_FIRST = 2000
"""After how many schedules, some of them drawn, all that are left are run in order."""

_EFFORT = 1_000_000
"""How much may be done to find a failure with fewer preemptions, and as much to shrink it: each
schedule counts as its steps and 1,000 more."""

_BIG = 1e6
"""From which number on only its magnitude is told."""

_COLLECTED = 500
"""After how many schedules garbage is collected; never inside of one."""

_HERE = os.path.realpath(Path(__file__).parent)

_GENERATORS: tuple[Any, ...] = (random, _shared)


class _Told(BackoffTickerError):
    def __init__(self, message: str, replay: str, schedules: int) -> None:
        super().__init__(message)
        self.replay: str = replay
        self.schedules: int = schedules

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.replay, self.schedules)


class ScheduleStuck(_Told, RuntimeError):
    """A schedule waits for what ``explore()`` does not see; whether the program is right is open.

    Attributes:
        replay: The schedule, for ``explore(body, replay=...)``.
        schedules: How many were run until one was stuck.
    """


class ScheduleFailure(_Told, AssertionError):
    """A schedule went wrong; the message tells how, and how to have it again.

    Attributes:
        replay: The schedule, for ``explore(body, replay=...)``.
        schedules: How many were run until one failed.

    Example:
        >>> from backoff_ticker.testing import ScheduleFailure, explore
        >>> def body():
        ...     raise ValueError("in any schedule")
        >>> try:
        ...     explore(body)
        ... except ScheduleFailure as failure:
        ...     print(failure.schedules, str(failure).splitlines()[0])
        1 body ended with ValueError: in any schedule
    """


@dataclass(frozen=True)
class Exploration:
    """What ``explore()`` has run; as a text, one sentence.

    Attributes:
        schedules: How many, none of which failed.
        complete: Whether those were all with at most ``preemptions`` preemptions.
        preemptions: As asked for; of a replay, those that it has.
        drawn: How many of them were drawn by the seed.
        estimate: About how many there are.
        chance: The least probability with which each drawn one shows a fault of depth
            ``preemptions + 1``.
        watched: Whether a thread or task but that of ``body`` came to a watched line that may touch
            what they share.

    Example:
        >>> from backoff_ticker.testing import explore
        >>> import threading
        >>> def body():
        ...     items = []
        ...     thread = threading.Thread(target=lambda: items.append("item"))
        ...     thread.start()
        ...     thread.join()
        >>> print(explore(body))
        all 3 schedules with at most 2 preemptions
    """

    schedules: int
    complete: bool
    preemptions: int
    drawn: int
    estimate: float
    chance: float
    watched: bool

    def __str__(self) -> str:
        which = f"with at most {counted(self.preemptions, 'preemption')}"
        which += " (that watched the body alone)" * (not self.watched)
        if self.complete:
            found = self.schedules - self.drawn
            return f"{f'all {found:,} schedules' if found > 1 else 'the one schedule'} {which}"
        rounded = float(f"{self.estimate:.1g}")
        about = f"{rounded:,.0f}" if rounded < _BIG else f"10^{round(log10(rounded))}"
        text = f"{self.schedules:,} of about {about} schedules {which}"
        if self.drawn:
            text += (
                f", {self.drawn:,} of them drawn: each shows a fault of depth "
                f"{self.preemptions + 1} with a probability of at least {self.chance:.1g}"
            )
        return text


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
    ``schedules``, or of the first 2,000, that rest is drawn by ``seed``; see ``Exploration``.

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

    With pytest, the marker ``@pytest.mark.explore(preemptions=1)`` has a test run like this, as the
    ``body``; the options are the same. It takes no fixture that is made for this test alone, but
    for those of pytest itself: all schedules would share it. The fixture ``explore`` is this
    function.

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
    if not callable(body):
        raise TypeError(f"body must be a callable, not {safe_repr(body)}")
    as_count("preemptions", preemptions)
    if schedules is not None:
        as_count("schedules", schedules, 1)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"seed must be an int, not {safe_repr(seed)}")
    if as_number("time_limit", time_limit) <= 0:
        raise ValueError(f"time_limit must be more than 0 seconds, not {time_limit!r}")
    given = None if replay is None else from_text(replay)
    one, whose = True, [body if watch is None else watch]
    if isinstance(watch, Iterable) and not isinstance(watch, (str, os.PathLike)):
        one, whose = False, [*watch]
    choices = {
        "timeouts": timeouts,
        "cancel_tasks": cancel_tasks,
        "task_order": task_order,
        "interrupts": interrupts,
    }
    for name, value in choices.items():
        if name != "cancel_tasks" or not callable(value):
            as_flag(name, value)
    names = ", ".join(map(_name, whose))
    asked = [
        _name(body),
        *[f"watch={names}" if one else f"watch=[{names}]"] * (watch is not None),
        *[f"seed={seed}"] * (seed != 0),
        *(
            f"{name}={_name(value) if callable(value) else value}"
            for name, value in choices.items()
            if value
        ),
    ]
    explorer = _Explorer(body, _watched(whose), seed, asked, **choices)
    search = partial(explorer.search, preemptions, schedules, time_limit)
    outcome = explorer.outcome(search if given is None else partial(explorer.replay, given))
    if not outcome.watched:
        warnings.warn(
            f"explore() watched {names}, of which no thread or task but the body's own reached a "
            "line: name the modules under test, as in watch=stock",
            RuntimeWarning,
            stacklevel=2,
        )
    return outcome


def _name(thing: object) -> str:
    """Return how a caller is likely to name a file, module, function or class."""
    if isinstance(thing, (str, os.PathLike)):
        return repr(os.fspath(thing))
    name: str = getattr(thing, "__qualname__", "") or getattr(thing, "__name__", "")
    name = name.rpartition("<locals>.")[2]
    return name if name.replace(".", "_").isidentifier() else "..."


def _watched(watch: list[Any]) -> Callable[[str], bool]:
    files = {_real(file) for each in watch for file in _files_of(each)}
    if not files:
        raise ValueError("watch must name at least one file")
    folders = tuple(f"{each}{os.sep}" for each in files if Path(each).is_dir())

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


_patches = Patches()
after_fork(_patches.forget_users)
_busy: list[None] = [None]
"""Emptied by the exploration that runs."""


class _Explorer:
    """Runs one schedule after another.

    Attributes:
        schedules: How many it has run.
    """

    def __init__(
        self,
        body: Callable[[], object],
        watched: Callable[[str], bool],
        seed: int,
        asked: list[str],
        **choices: Any,
    ) -> None:
        self.schedules: int = 0
        self._body = body
        self._context = copy_context()
        self._seed = seed
        self._asked = asked  # the arguments, as texts
        self._choices = choices  # for each schedule
        self._points = Points(watched, self._visit)
        self._decisions = 1  # the most that a schedule has had
        self._members = 1
        self._passed = -1  # with how many preemptions, at most, all schedules have passed
        self._runs = 0
        self._effort = 0
        self._cut = False
        self._reached = False
        self._refused: TypeError | None = None
        self._locks: list[Any] = []

    def outcome(self, work: Callable[[], Exploration]) -> Exploration:
        """Do the work in a thread of its own, where no signal interrupts it; return its outcome.

        If this thread is interrupted, the other one puts everything back, whatever happens here.
        """
        __tracebackhide__ = True  # for pytest
        if kernel_here() is not None:
            raise RuntimeError("explore() in a VirtualClock: leave it, time passes by itself here")
        future: Future[Exploration] = Future()
        thread = threading.Thread(target=self._work, args=(work, future), daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                thread.join(0.1)  # an interrupt does not end a wait on Windows
            error = future.exception()
        except BaseException:
            self._cut = True
            try:
                _wait_for(future)
            finally:
                _wait_for(future)  # a second interrupt
            raise
        if error is not None:
            raise error.with_traceback(None)  # that of the other thread tells nothing
        return future.result()

    def _work(self, work: Callable[[], Exploration], future: Future[Exploration]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            with self._ready():
                outcome = work()
        except BaseException as error:  # raised in the thread that waits
            future.set_exception(error)
        else:
            future.set_result(outcome)

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Prepare the interpreter inside the block."""
        try:
            _busy.pop()
        except IndexError:
            raise RuntimeError("another exploration runs: one at a time") from None
        states, collects = [each.getstate() for each in _GENERATORS], gc.isenabled()
        try:
            with (
                self._points.reported(),
                _patches.installed(self._replacements),
                locks_replaced(self._points.watched, self._body) as self._locks,
            ):
                gc.disable()
                yield
        finally:
            if collects:
                gc.enable()
            for each, state in zip(_GENERATORS, states, strict=True):
                each.setstate(state)
            _busy.append(None)

    def _replacements(self) -> list[Any]:
        given = (*replacements(), *self._points.patches)
        return [(owner, name, lambda _, new=new: new) for owner, name, new in given]

    def search(self, preemptions: int, schedules: int | None, time_limit: float) -> Exploration:
        """Run schedules until one fails, all have run, or it is enough."""
        tree, until, chance = Tree(preemptions), monotonic() + time_limit, 1.0
        random_ = random.Random(self._seed)  # noqa: S311 - no secret
        self.run(following(()), ())  # what happens only once, such as imports, has happened then
        self.schedules = drawn = 0
        while (
            tree.left()
            and self.schedules != schedules
            and (monotonic() < until or not self.schedules)
        ):
            if 0 < (schedules or _FIRST) - self.schedules < tree.left():
                if not drawn:
                    chance = self._decisions**-preemptions / self._members
                self.run(drawing(random_, preemptions, self._decisions))
                drawn += 1
                continue
            self._passed = tree.bound - 1
            deviations = tree.next()
            tree.add(deviations, self.run(following(deviations), deviations))
        complete = not tree.left()
        about = tree.estimate()
        return Exploration(
            self.schedules, complete, preemptions, drawn, about, chance, self._reached
        )

    def replay(self, deviations: Deviations) -> Exploration:
        """Run one schedule."""
        schedule = self.run(following(deviations), deviations, told=True)
        return Exploration(1, False, schedule.preemptions, 0, 1.0, 0.0, self._reached)

    def run(
        self, choose: Choose, deviations: Deviations | None = None, *, told: bool = False
    ) -> Schedule:
        """Run one schedule, which has those deviations if they are known.

        Raises:
            ScheduleFailure: It failed.
            ScheduleStuck: It waits for what is not seen.
            ValueError: It does not fit.
        """
        self.schedules += 1
        schedule = self._run(choose, told=told)
        if schedule.failure and schedule.fits:
            raise self._failure(schedule) from shortened(schedule.error)
        if deviations not in {None, tuple(schedule.deviations)}:
            raise ValueError(
                "a schedule does not fit: the code or Python has changed, or body does not do the "
                "same each time"
            )
        return schedule

    def _failure(self, failed: Schedule) -> _Told:
        shown, note = failed, ""
        if not failed.stuck and failed.story is None:
            self._effort = _EFFORT
            deviations = self._fewer(failed.preemptions - 1) or tuple(failed.deviations)
            self._effort = _EFFORT
            deviations = shrunk(deviations, self._fails)
            shown = self._run(following(deviations), told=True)
            if not shown.failure:
                shown, note = failed, "It did not fail again: body does not do the same each time."
        replay = as_text(shown.deviations)
        marked = hasattr(self._body, "_has_explore_marker")  # by the plugin for pytest
        call = ", ".join([*self._asked[marked:], f"replay={replay!r}"])
        lines = [
            shown.failure,
            f"schedule {self.schedules:,}, shrunk to {counted(shown.preemptions, 'preemption')}:",
            f"  {'@pytest.mark.' * marked}explore({call})",
            note,
            told(shown.story or ()),
        ]
        kind = ScheduleStuck if failed.stuck else ScheduleFailure
        return kind("\n".join(filter(None, lines)), replay, self.schedules)

    def _fewer(self, preemptions: int) -> Deviations | None:
        """Return a schedule that fails with at most that many preemptions, if one is near."""
        if preemptions <= self._passed:
            return None
        tree, found = Tree(preemptions), None
        while tree.left() and self._effort > 0 and found is None:
            found = self._fails(tree.next(), tree)
        return found

    def _fails(self, deviations: Deviations, tree: Tree | None = None) -> Deviations | None:
        """Return the deviations of a schedule that fails; the tree learns of one that does not."""
        if self._effort <= 0:
            return None
        schedule = self._run(following(deviations))
        self._effort -= 1000 + schedule.steps
        if schedule.failure and schedule.fits:
            return tuple(schedule.deviations)
        if tree is not None:
            tree.add(deviations, schedule)
        return None

    def _run(self, choose: Choose, *, told: bool = False) -> Schedule:
        if self._cut:
            raise Abandoned
        for each in _GENERATORS:
            each.seed(self._seed)
        schedule = Schedule(choose, told=told, **self._choices)
        start_body(schedule, partial(self._context.copy().run, self._call, schedule))
        self._wait_for(schedule)
        for lock in self._locks:
            free(lock, schedule)
        if self._refused:
            raise self._refused
        self._decisions = max(self._decisions, len(schedule.decisions))
        self._members = max(self._members, len(schedule.members))
        self._runs += 1
        if self._runs % _COLLECTED == 0:
            gc.collect()
        return schedule

    def _call(self, schedule: Schedule) -> None:
        try:
            result = self._body()
        except KeyboardInterrupt:
            if self._choices["interrupts"] and not schedule.interrupts:
                return  # one has struck
            raise
        if isinstance(result, (Coroutine, Generator, AsyncGenerator)):
            self._refused = TypeError(
                f"body must do its work when it is called, not return {safe_repr(result)}; for a "
                "coroutine, call asyncio.run() in it"
            )
            if isinstance(result, Coroutine):
                result.close()

    def _visit(self, file: str, line: int) -> None:
        schedule = schedule_here()
        if schedule is not None:
            self._reached = self._reached or in_another(schedule)
            schedule.point(file, line)

    def _wait_for(self, schedule: Schedule) -> None:
        index, steps, since, end = 0, -1, 0.0, monotonic() + _TOO_LONG
        while index < len(schedule.members):
            if schedule.members[index].over.acquire(timeout=0.1):
                index += 1
            elif self._cut and not schedule.ended:
                schedule.fail("interrupted")
            elif monotonic() > end and not schedule.ended:
                schedule.stuck = True
                schedule.fail(
                    f"no end after {_TOO_LONG:g} s of real time: somebody waits in what explore() "
                    "does not replace, such as a time.sleep() that a default argument has kept"
                    f"{schedule.stacks()}"
                )
            elif steps != schedule.steps:
                steps, since = schedule.steps, monotonic()
            elif schedule.ended and monotonic() - since > _GRACE:
                return
            elif monotonic() - since > _STUCK_AFTER:
                name, since = schedule.running.name, monotonic()
                schedule.stuck = True
                schedule.fail(
                    f"{name} waits for what explore() does not see, such as a process, or a lock "
                    f"that was made before body was called{schedule.stacks()}"
                )


def _wait_for(future: Future[Exploration]) -> None:
    # Before 3.13, a thread counts as ended once a wait for its end was interrupted.
    while not future.cancel() and not future.done():
        sleep(0.01)
