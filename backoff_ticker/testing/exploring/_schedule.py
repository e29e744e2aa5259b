"""One schedule: whose turn it is, who waits for what, and the time.

Exactly one member runs. It hands the turn on itself: before a watched line (another may be chosen,
a *preemption*), where it waits, gives way or ends. Each time that more than one could run is a
*decision*; its *default* is that the member goes on, or else the next one by number. So a schedule
is told by its *deviations*: the decisions, by number, that took another member, and which.
"""

from __future__ import annotations

import _thread
import asyncio
import sys
from collections import Counter
from traceback import walk_stack
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ._story import stack_of, tasks_of, waited_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from ._story import Step

    Choose = Callable[[int, Sequence[Any], Any], Any]

LONGEST = 20_000  # steps after which a schedule counts as endless
PATIENCE = 1000  # steps of a member after which another has its turn: it may wait for that
SPIN = 20  # steps after which a member that gave way no longer counts as one that waits in a loop
OPTIONS = 1000  # the number of the first of several things, beside those of members


class Abandoned(SystemExit):
    """Ends a thread of a schedule that is over; asyncio and ``threading`` let it through."""


def _nobody() -> None:
    """Return who holds what nobody holds."""


class Member:
    """One thread of a schedule; number 0 is the body, the others come as they were started."""

    def __init__(self, number: int, name: str, *, daemon: bool) -> None:
        self.number: int = number
        self.name: str = name
        self.daemon: bool = daemon
        self.ident: int = 0
        self.go: _thread.LockType = _thread.allocate_lock()  # released when it may run
        self.over: _thread.LockType = _thread.allocate_lock()  # when nothing of it runs any more
        self.go.acquire()
        self.over.acquire()
        self.done: bool = False
        self.abandoned: bool = False  # it ended because the schedule was over
        self.what: str = ""  # that it waits for
        self.ready: Callable[[], bool] | None = None  # is that there? None: it does not wait
        self.holder: Callable[[], Member | None] = _nobody  # who has that, if known
        self.deadline: float | None = None
        self.interrupted: bool = False  # its wait ends with an interrupt
        self.gave_way: bool = False  # it waits for what the others do, in a loop: they come first
        self.steps: int = SPIN  # since it gave way last; more than SPIN are progress for the others

    def waits(self, stack: Iterable[tuple[FrameType, int]]) -> str:
        """Return what it waits for, and who holds that, as part of a sentence."""
        if self.ready is None:
            return "can run"
        if self.what != "a lock":
            return f"waits for {self.what}"
        what, holder = f"waits for {waited_for(stack, self.what)}", self.holder()
        return what if holder is None or holder is self else f"{what}, held by {holder.name}"


class Option(NamedTuple):
    """One of several things that could be taken."""

    number: int
    thing: Any


class Schedule:
    """Gives the members their turns; the options are those of ``explore()``."""

    def __init__(
        self,
        choose: Choose,
        *,
        told: bool,
        timeouts: bool,
        cancel_tasks: Any,
        task_order: bool,
        interrupts: bool,
    ) -> None:
        self._choose = choose  # from a decision's number, who can run, and the default
        self._timeouts = timeouts
        self.cancel_tasks: Any = cancel_tasks
        self.task_order: bool = task_order
        self.interrupts: bool = interrupts  # whether a wait of the body may still be interrupted
        self.now: float = 1000.0
        self.steps: int = 0
        self.members: list[Member] = []
        self.running: Member
        self.failure: str = ""  # what went wrong
        self.error: BaseException | None = None
        # For each the numbers that could be chosen beside the default, and whether to choose one is
        # a preemption.
        self.decisions: list[tuple[tuple[int, ...], bool]] = []
        self.deviations: list[tuple[int, int]] = []
        self.story: list[Step] | None = [] if told else None
        self.ended: bool = False  # whoever has its turn has to leave
        self.stuck: bool = False  # a member waits for what is not seen here
        self._numbers: Counter[str] = Counter()
        self._kinds: dict[tuple[tuple[int, ...], bool], tuple[tuple[int, ...], bool]] = {}

    @property
    def preemptions(self) -> int:
        return sum(self.decisions[number][1] for number, _ in self.deviations)

    def number(self, what: str) -> int:
        """Return 1, then 2, and so on."""
        self._numbers[what] += 1
        return self._numbers[what]

    def add(self, name: str, *, daemon: bool) -> Member:
        self.members.append(Member(len(self.members), name, daemon=daemon))
        return self.members[-1]

    def member(self, ident: int) -> Member | None:
        return next((member for member in self.members if member.ident == ident), None)

    # Called by the member whose turn it is

    def point(self, file: str = "", line: int = 0) -> None:
        """Let another member run first, if that is decided; then comes a line, if one is given."""
        me = self._step()
        others = self._able(me)
        if me.steps > PATIENCE:
            me.gave_way, me.steps = True, 0
            self._turn_to(me, self._next(others or [me]))
        else:
            if me.steps > SPIN:
                for member in self.members:
                    member.gave_way = False
            if others:
                self._turn_to(me, self._decide([me, *others], me, preemptive=True))
        if self.story is not None and file:
            task = asyncio.current_task() if asyncio._get_running_loop() else None
            who = f"{me.name}, {task.get_name()}" if task else me.name
            self.story.append((who, file, line))

    def give_way(self) -> None:
        """Let the others get on first."""
        me = self._step()
        me.gave_way, me.steps = True, 0
        self._hand_over(me)

    def wait(
        self,
        what: str,
        ready: Callable[[], bool],
        deadline: float | None = None,
        holder: Callable[[], Member | None] = _nobody,
    ) -> bool:
        """Let the others run until ``ready()`` or the deadline; return whether it is ready."""
        me = self._step()
        if ready() or (deadline is not None and deadline <= self.now):
            return ready()
        me.what, me.ready, me.deadline, me.gave_way = what, ready, deadline, False
        me.holder = holder
        if self.story is not None:
            called = waited_for(walk_stack(None), what) if what == "a lock" else what
            self.tell(f"waits for {called}")
        if self.interrupts and me.number == 0 and self.pick([False, True]):
            self.interrupts, me.interrupted = False, True
        else:
            self._hand_over(me)
        me.ready = me.deadline = None
        me.holder = _nobody
        if me.interrupted:
            me.interrupted = False
            self.tell("is interrupted")
            raise KeyboardInterrupt
        return ready()

    def pick(self, things: Sequence[Any]) -> Any:
        """Return the first of the things, or another, which counts as a preemption."""
        able = [Option(*numbered) for numbered in enumerate(things, OPTIONS)]
        return self._decide(able, able[0], preemptive=True).thing

    def tell(self, what: str) -> None:
        """Note what happens to the member that runs."""
        if self.story is not None:
            self.story.append((self.running.name, what, 0))

    def end(self, me: Member) -> None:
        """Hand the turn on for the last time, in a thread that is about to end."""
        me.done, me.abandoned = True, self.ended
        if self.ended:
            return
        self.tell("ends")
        if all(member.done or member.daemon for member in self.members):
            self._abandon()
        else:
            self._hand_over(me)

    def _step(self) -> Member:
        self._check()
        self.steps += 1
        self.running.steps += 1
        if self.steps > LONGEST:
            self._fail(
                f"no end after {LONGEST:,} steps: watch less if it has one, unless somebody waits "
                "in a loop for real time, as datetime.now() or a time.monotonic() that a default "
                f"argument has kept tells it{self.stacks()}"
            )
        return self.running

    def _hand_over(self, me: Member) -> None:
        able = self._able()
        while not able:
            due = self._due()
            if not due:
                left = " although the body has ended" * self.members[0].done
                self._fail(f"nobody can go on{left}{self._cycle()}{self.stacks()}")
            self.now = max(self.now, min(due))
            able = self._able()
        default = me if me in able else self._next(able)
        chosen = self._decide(able, default, preemptive=False)
        if self._timeouts:
            late = [member for member in self._able(chosen) if member not in able]
            chosen = self._decide([chosen, *late], chosen, preemptive=True)
        self._turn_to(me, chosen)

    def _due(self) -> list[float]:
        return [member.deadline for member in self.members if member.deadline is not None]

    def _able(self, but: Member | None = None) -> list[Member]:
        until = self.now
        if but is not None and self._timeouts:
            until = max(until, min(self._due(), default=until))
        found: list[Member] = []
        late: list[Member] = []
        for member in self.members:
            if member.done or member is but:
                continue
            ready, deadline = member.ready, member.deadline
            interrupts = self.interrupts and but is not None and member.number == 0
            is_due = deadline is not None and deadline <= until
            if ready is None or is_due or interrupts or ready():
                (late if member.gave_way else found).append(member)
        if found or not late or but is not None:
            return found
        # Those that gave way wait for nothing but the time, or for each other.
        due = self._due()
        self.now = max(self.now, min(due, default=self.now + 0.001))
        for member in late:
            member.gave_way = not due
        return self._able() if due else [self._next(late)]

    def _next(self, able: list[Member]) -> Member:
        last = self.running.number
        return next((member for member in able if member.number > last), able[0])

    def _decide(self, able: Sequence[Any], default: Any, *, preemptive: bool) -> Any:
        if len(able) == 1:
            return able[0]
        number = len(self.decisions)
        kind = tuple([one.number for one in able if one is not default]), preemptive
        self.decisions.append(self._kinds.setdefault(kind, kind))
        chosen = self._choose(number, able, default)
        if chosen is None:  # this is another program than the one that was to be run again
            self._abandon()
            raise Abandoned
        if chosen is not default:
            self.deviations.append((number, chosen.number))
        return chosen

    def _turn_to(self, me: Member, chosen: Member) -> None:
        if chosen.ready is not None and not chosen.ready():
            late = chosen.deadline is not None and chosen.deadline <= self.now
            if chosen.number == 0 and self.interrupts and not late:
                self.interrupts, chosen.interrupted = False, True
            else:
                self.now = max(self.now, chosen.deadline or 0)
        if chosen is not me:
            self.running = chosen
            chosen.go.release()
            if me.done:
                return
            me.go.acquire()
        self._check()

    def _cycle(self) -> str:
        """Return the members that wait for each other, as the end of a sentence."""
        for member in self.members:
            chain = [member]
            while (holder := chain[-1].holder()) and holder not in chain:
                chain.append(holder)
            if holder is member and len(chain) > 1:
                return ": " + " waits for ".join(one.name for one in [*chain, member])
        return ""

    # Failing

    def _check(self) -> None:
        if self.ended:
            raise Abandoned

    def _fail(self, failure: str) -> NoReturn:
        self.fail(failure)
        raise Abandoned

    def fail(self, failure: str, error: BaseException | None = None) -> None:
        """End the schedule, in any thread; the first failure counts."""
        if not self.ended:
            self.failure, self.error = failure, error
            self._abandon()

    def get_stuck(self, failure: str) -> None:
        """End the schedule, in which a member waits for what is not seen."""
        self.stuck = True
        self.fail(f"{failure}{self.stacks()}")

    def _abandon(self) -> None:
        self.ended = True
        for member in self.members:
            try:
                member.go.release()
            except RuntimeError:
                pass  # its turn has come already

    def stacks(self) -> str:
        """Return where each member is, as lines of a text."""
        frames = sys._current_frames()
        told = ""
        for member in self.members:
            if not member.done:
                stack = [*walk_stack(frames.get(member.ident))]
                told += f"\n  {member.name} {member.waits(stack)}{stack_of(reversed(stack))}"
                for name, awaited in tasks_of(stack):
                    told += f"\n  {member.name}, {name} waits for {awaited}"
        frames.clear()  # this frame is one of them: what all hold would stay
        return told
