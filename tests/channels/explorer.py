"""An explorer of thread schedules, for real code on real threads.

Exactly one thread of a model runs at a time. Wherever a watched file touches what may be shared,
another can be switched to. The first schedule does so only where a thread waits or ends; each of
the others also a few times in between, at moments of chance, which are the same in each run.

All objects of a model have the same claim: which ones share one would otherwise depend on their
addresses, and a claim that is taken inside another shows as a thread that waits for itself. A
thread that finds the claim taken gives way.
"""

import dis
import faulthandler
import functools
import gc
import linecache
import queue
import random
import sys
import threading
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from backoff_ticker._random import shared_random
from backoff_ticker.waiting import _claim
from tests.channels.explorer_waits import ScheduledClock
from tests.stress.places import PACKAGE

PATIENCE = 20.0
"""Real seconds after which a schedule hangs for a reason unknown to the explorer."""

LONGEST = 20_000
"""Steps after which a schedule counts as endless."""

SWITCHES = 2
"""How many switches a schedule has where no thread has to wait."""

WATCHED = tuple(f"{PACKAGE}/{folder}/" for folder in ("cancellation", "channels", "waiting"))

TOUCHING = (
    *("BINARY", "CALL", "COMPARE_OP", "CONTAINS_OP", "DELETE", "FOR_ITER", "LIST_EXTEND"),
    *("LOAD_ATTR", "POP_JUMP", "STORE_ATTR", "STORE_S", "TO_BOOL", "UNARY_NOT", "UNPACK"),
)
"""How the names of instructions begin that may touch an object that other threads know."""


@functools.cache
def switch_points(code):
    """Return the offsets of the instructions before which a switch is possible."""
    steps = dis.get_instructions(code)
    return frozenset(each.offset for each in steps if each.opname.startswith(TOUCHING))


class ScheduleFailure(AssertionError):
    """A schedule went wrong; the message tells how, step by step."""


class Abandoned(BaseException):
    """Ends a thread of a schedule that has failed."""


class Member:
    """One thread of a schedule."""

    def __init__(self, name, body):
        self.name = name
        self.body = body
        self.go = queue.SimpleQueue()
        self.done = False
        self.spins = False
        self.parker = None
        self.deadline = None

    def can_run(self):
        if self.done or (self.spins and not _claim._CLAIMS[0]):
            return False
        return self.parker is None or self.parker.permit or self.deadline is not None


class Schedule:
    """What a model is given: threads to name, a clock, and a count that only grows.

    Attributes:
        chances: How often a thread could have been switched away from.
        rate: How often it is.
    """

    def __init__(self, seed, rate):
        self.rate = rate
        self.chances = 0
        self.clock = ScheduledClock(self)
        self.failure = ""
        self._members = []
        self._switches = 0
        self._story = []
        self._stamp = 0
        self._ended = False
        self._random = random.Random(seed)

    def thread(self, name, body, *arguments):
        """Have a thread run ``body(*arguments)``."""
        self._members.append(Member(name, lambda: body(*arguments)))

    def stamp(self):
        """Return a number greater than all before."""
        self._stamp += 1
        return self._stamp

    def run(self, trace):
        threads = [
            threading.Thread(target=self._run, args=(member, trace), daemon=True)
            for member in self._members
        ]
        for thread in threads:
            thread.start()
        self._running = self._choose(self._members)
        self._running.go.put(None)
        for thread in threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                faulthandler.dump_traceback(all_threads=True)
                self.failure = f"{self._running.name} waits for what the explorer cannot see"
                self._abandon()

    def _run(self, me, trace):
        me.go.get()
        sys.settrace(trace)
        try:
            self._check()
            me.body()
        except Abandoned:
            pass
        except BaseException as error:
            self.failure = self.failure or f"{me.name} ended with {error!r}"
        finally:
            sys.settrace(None)  # CPython 3.12 crashes later on if a thread ends traced
        me.done = True
        able = self._able()
        if not able and not self.failure and not all(each.done for each in self._members):
            self.failure = f"nobody can go on: {self._waiting()}"
        if self.failure:
            self._abandon()
        elif able:
            self._running = self._choose(able)
            self._running.go.put(None)

    # Called by the thread whose turn it is

    def point(self, frame):
        """Here another thread may be switched to."""
        self._check()
        me = self._running
        others = self._able(but=me)
        if others:
            self.chances += 1
            if self._switches < SWITCHES and self._random.random() < self.rate:
                self._switches += 1
                self._turn_to(self._choose(others))
        code = frame.f_code
        self._story.append((me.name, code.co_filename, frame.f_lineno or code.co_firstlineno))
        if len(self._story) > LONGEST:
            self._fail(f"no end after {LONGEST} steps")

    def spin(self):
        """Let another thread run, as this one waits for a claim."""
        me = self._running
        me.spins = True
        self._let_go_on(f"{me.name} waits for a claim that nobody gives back")
        me.spins = False

    def wait(self, parker, deadline):
        """Let the others run until this thread is unparked or chosen to be out of time."""
        me = self._running
        me.parker, me.deadline = parker, deadline
        self._let_go_on(f"nobody can go on: {self._waiting()}")
        me.parker = None
        if deadline is not None and not parker.permit:
            self.clock.now = max(self.clock.now, deadline)

    def _let_go_on(self, failure):
        able = self._able()
        if not able:
            self._fail(failure)
        self._turn_to(self._choose(able))

    def _able(self, but=None):
        return [each for each in self._members if each is not but and each.can_run()]

    def _choose(self, able):
        return self._random.choice(able) if self.rate else able[0]

    def _turn_to(self, chosen):
        me = self._running
        if chosen is not me:
            self._running = chosen
            chosen.go.put(None)
            me.go.get()
        self._check()

    def _waiting(self):
        waits = [each for each in self._members if not each.done and each.parker is not None]
        return ", ".join(f"{each.name} waits in {each.parker.what}" for each in waits)

    # Failing

    def _check(self):
        if self._ended:
            self._leave()

    def _fail(self, failure):
        self.failure = failure
        self._abandon()
        self._leave()

    def _leave(self):
        frame = sys._getframe()
        while frame is not None:
            # An error out of a trace function ends the tracing of its thread. CPython 3.12 goes on
            # tracing the instructions of such a frame, by a null pointer.
            frame.f_trace_opcodes = False
            frame = frame.f_back
        raise Abandoned

    def _abandon(self):
        self._ended = True
        for each in self._members:
            each.go.put(None)

    def told_story(self):
        """Return the steps as a text: a line each, blank lines where the thread changes."""
        rows = []
        for before, step in pairwise([("", "", 0), *self._story]):
            name, file, line = step
            if step != before:
                rows += [""] * (name != before[0])
                source = linecache.getline(file, line).strip()
                rows.append(f"    {name:12} {f'{Path(file).name}:{line}':24} {source}")
        return "\n".join(rows)


def _trace_opcodes():
    """Have instructions traced from now on: CPython 3.12 asks before the first trace function."""
    sys._getframe().f_trace_opcodes = True


@contextmanager
def _exploring():
    """Have all changes under one claim, and no collection of garbage; yields the schedule."""
    current = []
    _trace_opcodes()
    kept = _claim._CLAIMS, _claim.let_other_threads_run
    _claim._CLAIMS = ({_claim.FREE: True},)
    _claim.let_other_threads_run = lambda: current[0].spin()
    gc.collect()
    gc.disable()
    try:
        yield current
    finally:
        _claim._CLAIMS, _claim.let_other_threads_run = kept
        shared_random.__self__.seed()
        gc.enable()


def explore(model, schedules, watch=WATCHED):
    """Run so many schedules of a model.

    Args:
        model: Sets the stage, names the threads with ``schedule.thread()``, and returns what
            checks the outcome once all have ended.
        schedules: How many.
        watch: How the names of the files begin in which threads can be switched.

    Raises:
        ScheduleFailure: One of them went wrong.
    """
    tracers = {}

    def enter(frame, event, argument):
        code = frame.f_code
        if not code.co_filename.startswith(watch):
            return None
        if id(code) not in tracers:
            tracers[id(code)] = code, tracer(code)
        frame.f_trace = step = tracers[id(code)][1]  # 3.13: needed before opcodes are traced
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return step

    def tracer(code):
        points = switch_points(code)

        def step(frame, event, argument):
            if event == "opcode" and frame.f_lasti in points:
                current[0].point(frame)
            return step

        return step

    chances = 0
    with _exploring() as current:
        for seed in range(schedules):
            rate = (0.5 + seed % 4) * SWITCHES / max(SWITCHES, chances) if seed else 0.0
            shared_random.__self__.seed(seed)
            current[:] = [schedule := Schedule(seed, rate)]
            check = model(schedule)
            schedule.run(enter)
            if not schedule.failure:
                try:
                    check()
                except Exception as error:
                    schedule.failure = f"{type(error).__name__}: {error}"
            if schedule.failure:
                story = schedule.told_story()
                raise ScheduleFailure(f"{schedule.failure}\nschedule {seed}\n{story}")
            chances = chances or schedule.chances
            if seed % 500 == 499:
                gc.collect()
