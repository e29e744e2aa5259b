"""A participant: a thread, or the event loop that runs in it, from the clock's point of view."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ...clock import TimerHandle

PARTICIPANT = "_backoff_ticker_participant"
"""The attribute of a thread that holds its participant; None: the thread is not tracked."""


class State(Enum):
    """What a participant is doing. The docstring of ``_kernel`` shows the transitions."""

    QUEUED = "waits for its turn"
    RUNNING = "runs"
    PARKED = "waits on the clock"
    HELD = "is held by a trap"
    EXTERNAL = "waits for something else, as it said"
    DRIVING = "waits for a step of the clock"
    ENDED = "has ended"


class ParkingPlace:
    """The kernel's half of a parker.

    Attributes:
        what: The name of the wait in reports.
        gives_up: Whether a driver's wait that nothing can end returns, instead of raising.
        permit: Whether an early ``unpark()`` has already ended the next wait.
        participant: The participant that waits here.
    """

    __slots__ = ("gives_up", "participant", "permit", "what")

    def __init__(self, what: str, *, gives_up: bool) -> None:
        self.what: str = what
        self.gives_up: bool = gives_up
        self.permit: bool = False
        self.participant: Participant | None = None


class Participant:
    """One thread of execution.

    Its own thread blocks on ``turn`` only. Commands of the kernel change everything else.

    Attributes:
        name: Its name in reports.
        ident: The identifier of its thread; None before the thread runs.
        native: The identifier of its thread in the operating system.
        home: The kernel that it belongs to, for code that knows only the thread.
        counted: Whether time waits for it. False for the thread that drives a clock manually.
        helper: Whether another package than the user's started its thread.
        daemon: Whether its thread is a daemon thread that the code under test has started.
        begun: Whether its thread runs.
        state: What it is doing.
        turn: A locked lock; released when the participant may run.
        last_turn: The number of its latest turn, among all turns of the clock.
        at_end: Callbacks to call at its end.

        what: What it waits for, in reports.
        place: Where it waits; None while it waits in its event loop.
        timer: The timer that ends its wait.
        timed_out: Whether the latest wait ended because its time had come.
        error: The error that its wait raises.
        polls: How many waits in a row were over before they began.

        woken: Whether a call arrived for its event loop since the loop last looked.
        break_select: Ends the loop's wait for file descriptors.
        has_news: Returns whether file descriptors of the loop are ready; None: it watches none.
        loop_tasks: Returns the tasks of the event loop that it runs.

        works_idle: Whether it computes inside an ``idle()`` block.
        stalled_at: The time of the latest deadlock error that it got.
        stalls: How many deadlock errors in a row it got at that time.
    """

    __slots__ = (
        "at_end",
        "begun",
        "break_select",
        "counted",
        "daemon",
        "error",
        "has_news",
        "helper",
        "home",
        "ident",
        "last_turn",
        "loop_tasks",
        "name",
        "native",
        "place",
        "polls",
        "stalled_at",
        "stalls",
        "state",
        "timed_out",
        "timer",
        "turn",
        "what",
        "woken",
        "works_idle",
    )

    def __init__(
        self, name: str, *, ident: int | None = None, counted: bool = True, home: object = None
    ) -> None:
        self.name: str = name
        self.ident: int | None = ident
        self.native: int | None = None
        self.home: object = home
        self.counted: bool = counted
        self.helper: bool = False
        self.daemon: bool = False
        self.begun: bool = False
        self.state: State = State.RUNNING
        self.turn: threading.Lock = threading.Lock()
        self.turn.acquire()
        self.last_turn: int = 0
        self.at_end: list[Callable[[], object]] = []
        self.what: str = ""
        self.place: ParkingPlace | None = None
        self.timer: TimerHandle | None = None
        self.timed_out: bool = False
        self.error: BaseException | None = None
        self.polls: int = 0
        self.woken: bool = False
        self.break_select: Callable[[], object] | None = None
        self.has_news: Callable[[], object] | None = None
        self.loop_tasks: Callable[[], list[asyncio.Task[object]]] | None = None
        self.works_idle: bool = False
        self.stalled_at: int | None = None
        self.stalls: int = 0

    def __repr__(self) -> str:
        return f"<Participant {self.name!r} {self.state.value}>"


def start_untracked(thread: threading.Thread) -> None:
    """Start a thread without making it a participant."""
    vars(thread)[PARTICIPANT] = None
    thread.start()
