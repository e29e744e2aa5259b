"""One schedule: whose turn it is, who waits for what, and the time.

Exactly one member runs. It hands the turn on itself: before a watched line (another may be chosen,
a *preemption*), where it waits, gives way or ends. Each time that more than one could run is a
*decision*; its *default* is that the member goes on, or else the next one by number. So a schedule
is told by its *deviations*: the decisions, by number, that took another member, and which.
"""

from __future__ import annotations

import _thread
import sys
from traceback import walk_stack
from typing import TYPE_CHECKING, NoReturn

from ._story import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType

    from ._story import Step

    Choose = Callable[[int, Sequence["Member"], "Member"], "Member | None"]

LONGEST = 20_000
"""Steps after which a schedule counts as endless."""

PATIENCE = 1000
"""Steps of one member after which another has its turn, as it may wait for that in a loop."""

SPIN = 20
"""Steps after which a member that gave way no longer counts as one that waits in a loop."""


class Abandoned(SystemExit):
    """Ends a thread of a schedule that is over; asyncio and ``threading`` let it through."""


class Member:
    """One thread of a schedule.

    Attributes:
        number: From 0, which is the body, in the order in which they were started.
        go: Released when it may run.
        over: Released when nothing of it runs any more.
        what: What it waits for; ``ready`` says whether it is there, and ``deadline`` until when.
        gave_way: Whether it waits for what the others do, in a loop: they come first.
        in_a_row: Its steps since it had its turn or gave way.
        since_it_gave_way: Its steps since then; more than ``SPIN`` are progress for the others.
    """

    def __init__(self, number: int, name: str, *, daemon: bool) -> None:
        self.number: int = number
        self.name: str = name
        self.daemon: bool = daemon
        self.ident: int | None = None
        self.go: _thread.LockType = _thread.allocate_lock()
        self.over: _thread.LockType = _thread.allocate_lock()
        self.go.acquire()
        self.over.acquire()
        self.done: bool = False
        self.what: str = ""
        self.ready: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.gave_way: bool = False
        self.in_a_row: int = 0
        self.since_it_gave_way: int = SPIN


class Schedule:
    """Gives the members their turns.

    Attributes:
        choose: Decides: given the number of the decision, who can run, and the default. None
            if what was to be chosen cannot run.
        now: Seconds.
        failure: What went wrong; empty if nothing did.
        decisions: For each one the numbers that could be chosen beside the default, and whether to
            choose one is a preemption.
        deviations: The decisions that were not the default.
        story: What the members did, if it is told.
        ended: Whether whoever has its turn has to leave.
        fits: Whether those that were to be chosen could run.
        stuck: Whether a member waits for what is not seen here.
    """

    def __init__(self, choose: Choose, *, told: bool) -> None:
        self.choose: Choose = choose
        self.now: float = 1000.0
        self.steps: int = 0
        self.members: list[Member] = []
        self.running: Member
        self.failure: str = ""
        self.error: BaseException | None = None
        self.decisions: list[tuple[tuple[int, ...], bool]] = []
        self.deviations: list[tuple[int, int]] = []
        self.story: list[Step] | None = [] if told else None
        self.ended: bool = False
        self.fits: bool = True
        self.stuck: bool = False
        self._kinds: dict[tuple[tuple[int, ...], bool], tuple[tuple[int, ...], bool]] = {}

    @property
    def preemptions(self) -> int:
        """How many of the deviations are preemptions."""
        return sum(self.decisions[number][1] for number, _ in self.deviations)

    def add(self, name: str, *, daemon: bool) -> Member:
        """Return a new member."""
        member = Member(len(self.members), name, daemon=daemon)
        self.members.append(member)
        return member

    # Called by the member whose turn it is

    def visit(self, code: CodeType, line: int) -> None:
        """Be about to run a line of watched code."""
        self.point()
        if self.story is not None:
            self.story.append((self.running.name, code.co_filename, line))

    def point(self) -> None:
        """Let another member run first, if that is decided."""
        self._check()
        me = self.running
        self.steps += 1
        me.in_a_row += 1
        if self.steps > LONGEST:
            self.fail(f"no end after {LONGEST:,} steps{self.stacks()}")
            self._leave()
        others = self._able(me)
        me.since_it_gave_way += 1
        if me.in_a_row > PATIENCE:
            me.gave_way, me.in_a_row, me.since_it_gave_way = True, 0, 0
            self._turn_to(me, self._next(others or [me]))
            return
        if me.since_it_gave_way > SPIN:
            for each in self.members:
                each.gave_way = False
        if others:
            self._turn_to(me, self._decide([me, *others], me, preemptive=True))

    def give_way(self) -> None:
        """Let the others get on first."""
        self._check()
        me = self.running
        me.gave_way, me.in_a_row, me.since_it_gave_way = True, 0, 0
        self.steps += 1
        if self.steps > LONGEST:
            self.fail(f"no end after {LONGEST:,} steps{self.stacks()}")
            self._leave()
        self._hand_over(me)

    def wait(self, what: str, ready: Callable[[], bool], deadline: float | None = None) -> bool:
        """Let the others run until ``ready()`` or the deadline; return whether it is ready."""
        self._check()
        if ready() or (deadline is not None and deadline <= self.now):
            return ready()
        me = self.running
        me.what, me.ready, me.deadline = what, ready, deadline
        me.gave_way = False
        if self.story is not None:
            self.story.append((me.name, f"waits for {what}", 0))
        self._hand_over(me)
        me.ready = me.deadline = None
        return ready()

    def end(self, me: Member) -> None:
        """Hand the turn on for the last time, in a thread that is about to end."""
        me.done = True
        if self.story is not None and not self.ended:
            self.story.append((me.name, "ends", 0))
        if self.ended:
            pass
        elif all(each.done or each.daemon for each in self.members):
            self._abandon()
        else:
            self._hand_over(me)

    def _hand_over(self, me: Member) -> None:
        able = self._able()
        while not able:
            due = [each.deadline for each in self.members if each.deadline is not None]
            if not due:
                left = " although the body has ended" if self.members[0].done else ""
                self.fail(f"nobody can go on{left}{self.stacks()}")
                if me.done:
                    return
                self._leave()
            self.now = max(self.now, min(due))
            able = self._able()
        default = me if me in able else self._next(able)
        self._turn_to(me, self._decide(able, default, preemptive=False))

    def _able(self, but: Member | None = None) -> list[Member]:
        now = self.now
        found: list[Member] = []
        late: list[Member] = []
        for each in self.members:
            if each.done or each is but:
                continue
            ready, deadline = each.ready, each.deadline
            if ready is None or (deadline is not None and deadline <= now) or ready():
                (late if each.gave_way else found).append(each)
        if found or not late or but is not None:
            return found
        # Those that gave way wait for nothing but the time, or for each other.
        due = [each.deadline for each in self.members if each.deadline is not None]
        self.now = max(now, min(due, default=now + 0.001))
        if due:
            for each in late:
                each.gave_way = False
            return self._able()
        return [self._next(late)]

    def _next(self, able: list[Member]) -> Member:
        last = self.running.number
        return next((each for each in able if each.number > last), able[0])

    def _decide(self, able: list[Member], default: Member, *, preemptive: bool) -> Member:
        if len(able) == 1:
            return able[0]
        number = len(self.decisions)
        others = tuple(each.number for each in able if each is not default)
        kind = others, preemptive
        self.decisions.append(self._kinds.setdefault(kind, kind))
        chosen = self.choose(number, able, default)
        if chosen is None:
            self.fits = False
            self.fail("a member was chosen that cannot run")
            self._leave()
        if chosen is not default:
            self.deviations.append((number, chosen.number))
        return chosen

    def _turn_to(self, me: Member, chosen: Member) -> None:
        if chosen is not me:
            me.in_a_row = 0
            self.running = chosen
            chosen.go.release()
            if me.done:
                return
            me.go.acquire()
        self._check()

    # Failing

    def _check(self) -> None:
        if self.ended:
            self._leave()

    def _leave(self) -> NoReturn:
        raise Abandoned

    def fail(self, failure: str, error: BaseException | None = None) -> None:
        """End the schedule; the first failure counts."""
        if not self.ended:
            self.failure, self.error = failure, error
            self._abandon()

    def _abandon(self) -> None:
        self.ended = True
        for each in self.members:
            try:
                each.go.release()
            except RuntimeError:
                pass  # its turn has come already

    def stacks(self) -> str:
        """Return where each member is, as lines of a text."""
        frames = sys._current_frames()
        told = ""
        for each in self.members:
            if not each.done:
                what = f"waits for {each.what}" if each.ready is not None else "can run"
                stack = reversed([*walk_stack(frames.get(each.ident or 0))])
                told += f"\n  {each.name} {what}{stack_of(stack)}"
        return told
