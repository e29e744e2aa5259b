"""A thread, or the event loop that runs in it, as a virtual clock sees it."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._timers import VirtualTimer

PARTICIPANT = "_backoff_ticker_participant"
"""The attribute of a thread that names its participant; None: it is to be none."""


class State(Enum):
    """What a participant does."""

    QUEUED = "waits for its turn"
    RUNNING = "runs"
    PARKED = "waits on the clock"
    HELD = "is held by a trap"
    AWAY = "waits for something else, as it said"
    DRIVING = "waits for a step of the clock"
    ENDED = "has ended"


class Participant:
    """One thread of execution.

    Its own thread waits for ``turn``; all else is changed by the kernel, with the kernel's lock.

    Attributes:
        name: For reports.
        ident: Its thread; None before that has begun.
        home: The kernel that it belongs to, where others have to know.
        counted: Whether time waits for it. The thread that drives a clock by hand is not counted.
        native: Its thread, as the system numbers it.
        state: What it does.
        what: What it waits for, for reports.
        parker: Where it waits; None: in its event loop.
        last_turn: The number of its last turn, among all of the clock.
        has_news: Tells whether the real descriptors of its event loop are ready, while it waits.
        works_idle: Whether it works in real time, though it said that it is idle.
        polls: How often in a row its wait was over before it began.
        timer: What ends its wait.
        woken: Whether somebody called into its event loop since that last looked.
        timed_out: Whether the last wait ended because its time had come.
        error: What its wait is to raise.
        break_select: Ends the wait of its event loop for real descriptors.
        begun: Whether its thread is there.
        stalled_at: When it was last told that nothing can end its wait.
        stalls: How often in a row, at that time.
        at_end: To call once it has ended.
    """

    __slots__ = (
        "at_end",
        "begun",
        "break_select",
        "counted",
        "error",
        "has_news",
        "home",
        "ident",
        "last_turn",
        "name",
        "native",
        "parker",
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
        self.counted: bool = counted
        self.home: object = home
        self.state: State = State.RUNNING
        self.what: str = ""
        self.parker: object = None
        self.last_turn: int = 0
        self.polls: int = 0
        self.native: int | None = None
        self.timer: VirtualTimer | None = None
        self.woken: bool = False
        self.timed_out: bool = False
        self.error: BaseException | None = None
        self.break_select: Callable[[], object] | None = None
        self.has_news: Callable[[], object] | None = None
        self.works_idle: bool = False
        self.at_end: list[Callable[[], object]] = []
        self.begun: bool = False
        self.stalled_at: int | None = None
        self.stalls: int = 0
        self.turn: threading.Lock = threading.Lock()
        self.turn.acquire()

    def grant(self) -> None:
        """Let its thread go on."""
        break_select = self.break_select
        try:
            self.state = State.RUNNING  # no call before the release: an interrupt can come at any
            self.turn.release()
        except RuntimeError:
            pass  # granted already
        if break_select is not None:
            break_select()

    def __repr__(self) -> str:
        return f"<Participant {self.name!r} {self.state.value}>"


def start_untracked(thread: threading.Thread) -> None:
    """Start a thread that does not become a participant by that."""
    vars(thread)[PARTICIPANT] = None
    thread.start()
