"""One schedule of a model: whose turn it is, who waits, and why it ended."""

from __future__ import annotations

import faulthandler
import linecache
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backoff_ticker.waiting import _claim
from tests.channels.explorer_waits import ScheduledClock, gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from tests.channels.explorer_waits import Gate, ScheduledParker

LONGEST = 20_000
"""Steps after which a schedule counts as endless."""

PATIENT = 1000
"""Steps after which a thread that goes round and round gives way to the others."""


class Abandoned(BaseException):
    """Ends a thread of a schedule that has failed."""


class Member:
    """One thread of a schedule."""

    def __init__(self, name: str, body: Callable[[], object]) -> None:
        self.name = name
        self.body = body
        self.go: Gate
        self.steps = 0
        self.rested = 0  # the step at which it gave way last
        self.done = False
        self.unwinding = False
        self.spins = False
        self.parker: ScheduledParker | None = None
        self.deadline: float | None = None

    def can_run(self) -> bool:
        if self.done or (self.spins and not _claim._CLAIMS[0]):
            return False
        return self.parker is None or self.parker.permit or self.deadline is not None


class Schedule:
    """What a model is given: threads to name, a clock, and a count that only grows.

    Attributes:
        taken: Which of the threads that could go on did, at each point; 0 is the usual one.
        story: Each step, if it is kept: who, the file, the line.
    """

    def __init__(
        self,
        choices: dict[int, int],
        bound: int,
        seed: int,
        rate: float | None,
        *,
        keep_story: bool,
    ) -> None:
        self.choices = choices
        self.bound = bound
        self.seed = seed
        self.clock = ScheduledClock(self)
        self.members: list[Member] = []
        self.running: Member
        self.taken: list[int] = []
        self.widths: list[int] = []
        self.preemptions = 0
        self.steps = 0
        self.failure: str | None = None
        self.story: list[tuple[str, str, int]] | None = [] if keep_story else None
        self._stamp = 0
        self._ended = False
        self._rate = rate
        self._random = random.Random(seed)
        self._control = gate()

    def thread(self, name: str, body: Callable[..., object], *arguments: Any) -> None:
        """Have a thread run ``body(*arguments)``."""
        self.members.append(Member(name, lambda: body(*arguments)))

    def stamp(self) -> int:
        """Return a number greater than all before."""
        self._stamp += 1
        return self._stamp

    def run(self, patience: float) -> None:
        self._pass_turn(self.members)
        self._await_control(patience)
        self._ended = True
        for member in self.members:
            if not member.done:
                self.running = member
                member.go.release()
                self._await_control(patience)

    def _await_control(self, patience: float) -> None:
        if not self._control.acquire(timeout=patience):
            faulthandler.dump_traceback(all_threads=True)
            raise AssertionError(f"{self.running.name} waits for what the explorer cannot see")

    # Called by the thread whose turn it is

    def point(self, frame: FrameType) -> None:
        """Here another thread may be switched to."""
        me = self.running
        if self._ended:
            if me.unwinding:
                return
            me.unwinding = True
            raise Abandoned
        me.steps += 1
        self.steps += 1
        if self.steps > LONGEST:
            self._fail(f"no end after {LONGEST} steps")
        self._give_way(me)
        if self.story is not None:
            line = frame.f_lineno or frame.f_code.co_firstlineno
            self.story.append((me.name, frame.f_code.co_filename, line))

    def _give_way(self, me: Member) -> None:
        tired = me.steps - me.rested >= PATIENT
        # Before its first step it is as if it had not been switched to.
        if (self.preemptions >= self.bound or me.steps == 1) and not tired:
            return
        others = [each for each in self.members if each is not me and each.can_run()]
        if not others:
            return
        if tired:
            me.rested = me.steps
            self._deliver(me, self._choose(others))
            return
        chosen = self._choose([me, *others], preempts=True)
        if chosen is not me:
            self.preemptions += 1
            self._deliver(me, chosen)

    def spin(self) -> None:
        """Let another thread run, as this one waits for a claim."""
        me = self.running
        if self._ended:
            me.unwinding = True
            raise Abandoned
        me.spins = True
        able = [each for each in self.members if each.can_run()]
        if not able:
            self._fail(f"{me.name} waits for a claim that nobody gives back")
        chosen = self._choose(able)
        if chosen is not me:
            self._deliver(me, chosen)
        me.spins = False

    def wait(self, parker: ScheduledParker, deadline: float | None) -> None:
        """Let the others run until this thread is unparked or chosen to be out of time."""
        me = self.running
        if self._ended:
            me.unwinding = True
            raise Abandoned
        me.parker, me.deadline = parker, deadline
        others = [each for each in self.members if each is not me and each.can_run()]
        able = [*others, me] if me.can_run() else others
        if not able:
            self._fail(f"nobody can go on: {self._waiting()}")
        chosen = self._choose(able)
        if chosen is not me:
            self._deliver(me, chosen)
        me.parker = None
        if deadline is not None and not parker.permit:
            self.clock.now = max(self.clock.now, deadline)

    def end(self, error: BaseException | None) -> None:
        """The body of this thread has ended."""
        me = self.running
        me.done = True
        if error is not None and self.failure is None:
            self.failure = f"{me.name} ended with {error!r}"
        able = [each for each in self.members if each.can_run()]
        if self._ended or self.failure is not None or not able:
            if any(not each.done for each in self.members) and self.failure is None:
                self.failure = f"nobody can go on: {self._waiting()}"
            self._control.release()
        else:
            self._pass_turn(able)

    def _waiting(self) -> str:
        waits = [each for each in self.members if not each.done and each.parker is not None]
        return ", ".join(f"{each.name} waits in {each.parker.what}" for each in waits)  # type: ignore[union-attr]

    def _fail(self, failure: str) -> None:
        self.failure = self.failure or failure
        me = self.running
        self._control.release()
        me.go.acquire()
        me.unwinding = True
        raise Abandoned

    def _pass_turn(self, able: list[Member]) -> None:
        self.running = self._choose(able)
        self.running.go.release()

    def _deliver(self, me: Member, chosen: Member) -> None:
        self.running = chosen
        chosen.go.release()
        me.go.acquire()
        if self._ended:
            me.unwinding = True
            raise Abandoned

    # Choices

    def _choose(self, able: list[Member], *, preempts: bool = False) -> Member:
        if len(able) == 1:
            return able[0]
        at = len(self.taken)
        if self._rate is None:
            choice = self.choices.get(at, 0)
        elif preempts and self._random.random() >= self._rate:
            choice = 0
        else:
            choice = self._random.randrange(int(preempts), len(able))
        assert choice < len(able), "the model is not deterministic"
        self.taken.append(choice)
        self.widths.append(len(able))
        return able[choice]

    def given(self) -> dict[int, int]:
        """Return the choices that were not the usual ones."""
        return {at: choice for at, choice in enumerate(self.taken) if choice}

    def following(self) -> dict[int, int] | None:
        """Return the choices of the next schedule, depth first; None after the last."""
        for at in range(len(self.taken) - 1, -1, -1):
            if self.taken[at] + 1 < self.widths[at]:
                kept = {number: choice for number, choice in self.given().items() if number < at}
                return {**kept, at: self.taken[at] + 1}
        return None

    def told_story(self) -> str:
        """Return the steps as a text: a line each, blank lines where the thread changes."""
        rows, before = [], None
        for step in self.story or ():
            if step == before:
                continue
            name, file, line = step
            if before is not None and before[0] != name:
                rows.append("")
            source = linecache.getline(file, line).strip()
            rows.append(f"    {name:12} {f'{Path(file).name}:{line}':24} {source}")
            before = step
        return "\n".join(rows)
