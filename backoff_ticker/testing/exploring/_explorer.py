"""Runs the schedules of one exploration, and tells the first that fails."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from itertools import chain
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ..._process import after_fork
from ..._random import _shared
from ..._validation import counted, safe_repr
from ..standard_library._patches import Patches
from ._made_before import locks_replaced
from ._outcome import Exploration, ScheduleFailure, ScheduleStuck
from ._points import Points
from ._schedule import Abandoned, Schedule
from ._search import Tree, drawing, following, shrunk
from ._standard_library import free, in_another, replacements, schedule_here, start_body
from ._story import as_text, shortened, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._schedule import Choose
    from ._search import Deviations

# In real seconds
_STUCK_AFTER = 10.0  # without a step: a member waits for what a schedule does not see
_TOO_LONG = 30.0  # a schedule counts as endless; 20,000 steps take one or two
_GRACE = 2.0  # for which the threads of a schedule that is over may go on

# In schedules
_FIRST = 2000  # some of them drawn, after which those that are left are run in order
_DRAWN = 10  # every tenth, while more than _FIRST are left: the order comes to them late
_COLLECTED = 500  # after which garbage is collected; never inside of one

# How much may be done to find a failure with fewer preemptions, and as much to shrink it: each
# schedule counts as its steps and 1,000 more.
_EFFORT = 1_000_000

_GENERATORS: tuple[Any, ...] = (random, _shared)

_patches = Patches()
after_fork(_patches.forget_users)
_alone = threading.Lock()  # held by the exploration that runs


class Explorer:
    """Runs one schedule after another."""

    def __init__(
        self,
        body: Callable[[], object],
        watched: Callable[[str], bool],
        seed: int,
        asked: list[str],
        **choices: Any,
    ) -> None:
        self.schedules: int = 0  # that have run
        self._body = body
        self._context = copy_context()
        self._seed = seed
        self._asked = asked  # the arguments, as texts
        self._choices = choices  # for each schedule
        self._points = Points(watched, self._visit)
        self._locks: list[Any] = []  # that were made before
        self._decisions = 1  # the most that a schedule has had
        self._members = 1
        self._tree: Tree  # of those that have not been run in order
        self._runs = 0
        self._effort = 0
        self._cut = False
        self._reached = False
        self._refused: TypeError | None = None

    # The thread of the exploration

    def outcome(self, work: Callable[[], Exploration]) -> Exploration:
        """Do the work in a thread of its own, where no signal interrupts it; return its outcome.

        If this thread is interrupted, the other one puts everything back first.
        """
        __tracebackhide__ = True  # for pytest
        future: Future[Exploration] = Future()
        thread = threading.Thread(target=self._work, args=(work, future), daemon=True)
        try:
            thread.start()
            while not future.done():
                thread.join(0.1)  # an interrupt does not end a wait on Windows
        except BaseException:
            self._cut = True
            while not future.cancel() and not future.done():
                sleep(0.01)
            raise
        error = future.exception()
        if error is not None:
            raise error.with_traceback(None)  # that of the other thread tells nothing
        return future.result()

    def _work(self, work: Callable[[], Exploration], future: Future[Exploration]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            with self._ready():
                outcome = work()
            future.set_result(outcome)
        except BaseException as error:  # raised in the thread that waits
            future.set_exception(error)

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Prepare the interpreter inside the block."""
        if not _alone.acquire(blocking=False):
            raise RuntimeError("another exploration runs: one at a time")
        states = [generator.getstate() for generator in _GENERATORS]
        collects = gc.isenabled()
        try:
            with (
                self._points.reported(),
                _patches.installed(chain(replacements(), self._points.patches)),
                locks_replaced(self._points.watched, self._body) as self._locks,
            ):
                gc.disable()
                yield
        finally:
            if collects:
                gc.enable()
            for generator, state in zip(_GENERATORS, states, strict=True):
                generator.setstate(state)
            _alone.release()

    # Which schedules are run

    def search(self, preemptions: int, schedules: int | None, time_limit: float) -> Exploration:
        """Run schedules until one fails, all have run, or it is enough."""
        self._tree = tree = Tree(preemptions)
        until, chance = monotonic() + time_limit, 1.0
        random_ = random.Random(self._seed)  # noqa: S311 - no secret
        self.run(following(()), ())  # what happens only once, such as imports, has happened then
        self.schedules = drawn = 0
        while tree.left() and self.schedules != schedules:
            if self.schedules and monotonic() >= until:
                break
            rest, left = (schedules or _FIRST) - self.schedules, tree.left()
            late = rest <= 0 and left > _FIRST and self.schedules % _DRAWN == 0
            if late or 0 < rest < left:
                if not drawn:
                    chance = self._decisions**-preemptions / self._members
                self.run(drawing(random_, preemptions, self._decisions))
                drawn += 1
                continue
            deviations = tree.next()
            tree.add(deviations, self.run(following(deviations), deviations))
        complete = not tree.left()
        return Exploration(
            self.schedules, complete, preemptions, drawn, tree.estimate(), chance, self._reached
        )

    def replay(self, deviations: Deviations) -> Exploration:
        schedule = self.run(following(deviations), deviations, told=True)
        return Exploration(1, False, schedule.preemptions, 0, 1.0, 0.0, self._reached)

    def run(
        self, choose: Choose, deviations: Deviations | None = None, *, told: bool = False
    ) -> Schedule:
        """Run one schedule; raise how it failed, or that it has other deviations than those."""
        self.schedules += 1
        schedule = self._run(choose, told=told)
        if schedule.failure:
            raise self._failure(schedule) from shortened(schedule.error)
        if deviations not in {None, tuple(schedule.deviations)}:
            raise ValueError(
                "a schedule does not fit: the code or Python has changed, or body does not do the "
                "same each time"
            )
        return schedule

    # A failure

    def _failure(self, failed: Schedule) -> ScheduleFailure | ScheduleStuck:
        shown, note = failed, ""
        if not failed.stuck and failed.story is None:
            self._effort = _EFFORT
            deviations = self._fewer(failed.preemptions) or tuple(failed.deviations)
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
        """Return a schedule that fails with fewer preemptions, if one is near."""
        tree, failing = self._tree, None
        while tree.left() and tree.bound < preemptions and self._effort > 0 and failing is None:
            failing = self._fails(tree.next(), tree)
        return failing

    def _fails(self, deviations: Deviations, tree: Tree | None = None) -> Deviations | None:
        """Return the deviations of a schedule that fails; the tree learns of one that does not."""
        if self._effort <= 0:
            return None
        schedule = self._run(following(deviations))
        self._effort -= 1000 + schedule.steps
        if schedule.failure:
            return tuple(schedule.deviations)
        if tree is not None:
            tree.add(deviations, schedule)
        return None

    # One schedule

    def _run(self, choose: Choose, *, told: bool = False) -> Schedule:
        if self._cut:
            raise Abandoned
        for generator in _GENERATORS:
            generator.seed(self._seed)
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
        if schedule is not None and hasattr(schedule, "running"):  # else Thread.start() is theirs
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
                schedule.get_stuck(
                    f"no end after {_TOO_LONG:g} s of real time: somebody waits in what explore() "
                    "does not replace, such as a time.sleep() that a default argument has kept"
                )
            elif steps != schedule.steps:
                steps, since = schedule.steps, monotonic()
            elif schedule.ended and monotonic() - since > _GRACE:
                return
            elif monotonic() - since > _STUCK_AFTER:
                since = monotonic()
                schedule.get_stuck(
                    f"{schedule.running.name} waits for what explore() does not see, such as a "
                    "process, or a lock that was made before body was called"
                )
