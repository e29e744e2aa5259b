"""Deadlines of tokens: the earliest counts, every look sees it, the clock calls back."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CancellationToken, DeadlineExceeded, any_of
from backoff_ticker.testing import VirtualClock
from tests.helpers import PATIENCE, LoopThread, in_thread, wait_until_collected

if TYPE_CHECKING:
    from collections.abc import Callable


def raises(token: CancellationToken) -> bool:
    try:
        token.raise_if_cancelled()
    except DeadlineExceeded:
        return True
    return False


def calls_back(token: CancellationToken) -> bool:
    runs: list[str] = []
    token.on_cancel(lambda: runs.append("ran")).remove()
    return runs == ["ran"]


LOOKS: dict[str, Callable[[CancellationToken], bool]] = {
    "cancelled": lambda token: token.cancelled,
    "cause": lambda token: isinstance(token.cause, DeadlineExceeded),
    "raise_if_cancelled": raises,
    "wait": lambda token: token.wait(0),
    "wait_async": lambda token: asyncio.run(token.wait_async(0)),
    "child": lambda token: isinstance(token.child().cause, DeadlineExceeded),
    "any_of": lambda token: isinstance(any_of(CancellationToken(), token).cause, DeadlineExceeded),
    "on_cancel": calls_back,
    "repr": lambda token: repr(token) == "<CancellationToken cancelled: DeadlineExceeded>",
}


MAKERS: dict[str, Callable[..., CancellationToken]] = {
    "child": lambda clock, *limits: CancellationToken(clock=clock).child(*limits),
    "made": lambda clock, timeout=None, deadline=None: CancellationToken(
        timeout=timeout, deadline=deadline, clock=clock
    ),
}
either_way = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@either_way
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("depth", [0, 2])
def test_every_look_sees_a_deadline_that_has_passed(
    clock: VirtualClock, look: Any, depth: int, make: Any
) -> None:
    token = make(clock, 5)
    for _ in range(depth):
        token = token.child()
    clock.advance(4.999)
    assert look(token) is False
    clock.advance(0.001)
    assert look(token) is True


@either_way
@pytest.mark.parametrize(
    ("parent", "timeout", "deadline", "expected"),
    [
        (None, None, None, None),
        (None, 5, None, 1005.0),
        (None, None, 1007, 1007.0),
        (None, 5, 1007, 1005.0),
        (None, 9, 1007, 1007.0),
        (3, 5, 1007, 1003.0),
        (6, 5, 1007, 1005.0),
        (8, 9, 1007, 1007.0),
        (8, None, None, 1008.0),
        (None, timedelta(seconds=1.5), None, 1001.5),
        (8, None, -3, -3.0),
    ],
)
def test_the_earliest_of_the_parents_deadline_timeout_and_deadline_counts(
    clock: VirtualClock, parent: Any, timeout: Any, deadline: Any, expected: Any, make: Any
) -> None:
    if parent is None:
        assert make(clock, timeout, deadline).deadline == expected
    token = make(clock, parent)
    assert token.child(timeout=timeout, deadline=deadline).deadline == expected
    assert token.child(timeout=timeout, deadline=deadline).child().deadline == expected


def test_a_token_made_with_a_deadline_is_the_root_of_its_tree(clock: VirtualClock) -> None:
    token = CancellationToken(timeout=5, clock=clock)
    child, seen = token.child(), []
    token.on_cancel(lambda: seen.append(clock.monotonic()))
    waiting = in_thread(child.wait)
    with token as same:
        assert same is token
        token.disarm()
    clock.advance(5)
    assert waiting.result(PATIENCE) is True
    assert seen == [1005.0]
    with pytest.raises(AttributeError):
        token.cancelled = False  # type: ignore[misc]


def test_the_parameters_of_a_token_are_keywords(clock: VirtualClock) -> None:
    with pytest.raises(TypeError):
        CancellationToken(clock)  # type: ignore[misc]


def test_a_subclass_gets_deadlines_by_its_children(clock: VirtualClock) -> None:
    class Own(CancellationToken):
        pass

    with pytest.raises(TypeError, match="Own cannot have a timeout or deadline"):
        Own(timeout=5)
    child = Own(clock=clock).child(timeout=5)
    clock.advance(5)
    assert child.cancelled


def test_a_childs_deadline_leaves_its_parent_alone(clock: VirtualClock) -> None:
    parent = CancellationToken(clock=clock).child(timeout=9)
    child = parent.child(timeout=5)
    clock.advance(5)
    assert (child.cancelled, parent.cancelled, parent.deadline) == (True, False, 1009.0)


def test_the_remaining_time_runs_down_and_is_never_negative(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    seen = []
    for _ in range(4):
        seen.append(token.remaining())
        clock.advance(2)
    assert seen == [5.0, 3.0, 1.0, 0.0]
    assert CancellationToken(clock=clock).child(deadline=-1).remaining() == 0.0
    assert CancellationToken(clock=clock).remaining() is None


def test_a_cancel_before_the_deadline_wins_and_stays(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    assert token.cancel("before") is True
    clock.advance(10)
    assert token.cause == "before"


@pytest.mark.parametrize("upwards", [0, 1, 2])
def test_a_cancel_after_a_passed_deadline_loses_though_nobody_looked(
    clock: VirtualClock, upwards: int
) -> None:
    """Cancelling an ancestor without a deadline wins there, and is too late below."""
    tokens = [CancellationToken(clock=clock).child()]
    tokens.append(tokens[0].child(timeout=5))
    tokens.append(tokens[1].child())
    clock.advance(5)
    target = tokens[2 - upwards]
    assert target.cancel("late") is (upwards == 2)
    assert isinstance(tokens[2].cause, DeadlineExceeded)
    assert isinstance(tokens[1].cause, DeadlineExceeded)
    assert tokens[0].cause == ("late" if upwards == 2 else None)


def test_the_cause_of_a_passed_deadline_stays_the_same_object(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=0)
    assert isinstance(token.cause, DeadlineExceeded)
    assert token.cause is token.cause
    with pytest.raises(DeadlineExceeded) as caught:
        token.raise_if_cancelled()
    assert caught.value is not token.cause


def test_a_deadline_wakes_threads_and_coroutines_that_wait(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    child = token.child()
    loop = LoopThread()
    waits: list[Any] = [in_thread(token.wait), in_thread(child.wait, 60)]
    waits += [loop.submit(token.wait_async()), loop.submit(child.wait_async(60))]
    clock.advance(4.999)
    assert [wait.done() for wait in waits] == [False] * 4
    clock.advance(0.001)
    assert [wait.result(PATIENCE) for wait in waits] == [True] * 4
    assert len(clock.pending()) == 0
    loop.close()
    assert loop.errors == []


def test_a_timeout_before_the_deadline_is_a_timeout(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    wait = in_thread(token.wait, 3)
    clock.advance(3)
    assert wait.result(PATIENCE) is False


def test_a_timeout_that_ends_with_the_deadline_finds_it_cancelled(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    wait = in_thread(token.wait, 5)
    clock.advance(5)
    assert wait.result(PATIENCE) is True


def test_a_deadline_calls_back_once_without_anybody_looking(clock: VirtualClock) -> None:
    root = CancellationToken(clock=clock)
    token = root.child(timeout=5)
    below = token.child()
    runs: list[str] = []
    token.on_cancel(lambda: runs.append("token"))
    below.on_cancel(lambda: runs.append("below"))
    root.on_cancel(lambda: runs.append("root"))
    clock.advance(4.999)
    assert runs == []
    clock.advance(0.001)
    assert runs == ["token", "below"]
    assert (root.cancelled, len(clock.pending())) == (False, 0)
    clock.advance(60)
    token.cancel()
    assert runs == ["token", "below"]


def test_a_callback_that_ran_or_was_removed_leaves_no_timer(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    removed = token.on_cancel(lambda: None)
    token.child().on_cancel(lambda: None)
    assert len(clock.pending()) == 2
    assert removed.remove() is True
    assert len(clock.pending()) == 1
    token.cancel()
    assert len(clock.pending()) == 0


def test_all_callbacks_on_a_deadline_share_one_timer(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    runs: list[int] = []
    handles = [token.on_cancel(lambda number=number: runs.append(number)) for number in range(100)]
    assert len(clock.pending()) == 1
    assert [handle.remove() for handle in handles[1:]] == [True] * 99
    assert len(clock.pending()) == 1
    assert handles[0].remove() is True
    assert len(clock.pending()) == 0
    for number in range(100):
        token.on_cancel(lambda number=number: runs.append(number))
    assert len(clock.pending()) == 1
    clock.advance(5)
    assert (runs, len(clock.pending())) == (list(range(100)), 0)


def test_a_callback_that_comes_as_the_last_other_is_removed_has_a_timer(
    clock: VirtualClock,
) -> None:
    """Between the removal and the end of the timer, in another thread."""
    runs: list[str] = []

    class Timer:
        def __init__(self, timer: Any) -> None:
            self.timer = timer

        def cancel(self) -> bool:
            if not runs:
                runs.append("cancelled")
                token.on_cancel(lambda: runs.append("called"))
            return bool(self.timer.cancel())

    class MeddledClock:
        def __getattr__(self, name: str) -> Any:
            return getattr(clock, name)

        def call_at(self, when: float, callback: Any) -> Any:
            return Timer(clock.call_at(when, callback))

    token = CancellationToken(clock=MeddledClock()).child(timeout=5)  # type: ignore[arg-type]
    assert token.on_cancel(lambda: None).remove() is True
    clock.advance(5)
    assert runs == ["cancelled", "called"]
    assert len(clock.pending()) == 0


def test_a_callback_that_is_removed_as_its_timer_is_made_leaves_no_timer(
    clock: VirtualClock,
) -> None:
    """By another thread."""

    class MeddledClock:
        def __getattr__(self, name: str) -> Any:
            return getattr(clock, name)

        def call_at(self, when: float, callback: Any) -> Any:
            made = clock.call_at(when, callback)
            for handle in [*token._cells["callbacks"]]:
                handle.remove()
            return made

    token = CancellationToken(clock=MeddledClock()).child(timeout=5)  # type: ignore[arg-type]
    token.on_cancel(lambda: None)
    assert clock.pending() == []


def test_a_callback_without_a_scheduler_is_not_registered(clock: VirtualClock) -> None:
    class NoThreads:
        def __getattr__(self, name: str) -> Any:
            return getattr(clock, name)

        def call_at(self, when: float, callback: Any) -> Any:
            raise RuntimeError("can't start new thread")

    token = CancellationToken(clock=NoThreads()).child(timeout=5)  # type: ignore[arg-type]
    runs: list[str] = []
    with pytest.raises(RuntimeError, match="can't start"):
        token.on_cancel(lambda: runs.append("called"))
    token.cancel()
    assert runs == []


def test_a_token_without_callbacks_and_waiters_arms_no_timer(clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=5).child()
    assert (token.cancelled, token.remaining(), len(clock.pending())) == (False, 5.0, 0)


def test_a_callback_on_a_deadline_keeps_its_token_until_it_ran(clock: VirtualClock) -> None:
    root = CancellationToken(clock=clock)
    runs: list[str] = []
    token = root.child(timeout=5)
    token.on_cancel(lambda: runs.append("ran"))
    link = weakref.ref(token)
    del root, token
    gc.collect()
    assert link() is not None
    clock.advance(5)
    wait_until_collected(link)
    assert runs == ["ran"]


def test_a_dropped_token_with_a_deadline_is_collected(clock: VirtualClock) -> None:
    root = CancellationToken(clock=clock)
    link = weakref.ref(root.child(timeout=5))
    wait_until_collected(link)


def test_a_callback_added_after_the_deadline_runs_at_once_in_the_calling_thread() -> None:
    """The clock's own thread would be first if the callback were given to it."""

    class Eager(VirtualClock):
        def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
            if when <= self.monotonic() and loop is None:
                in_thread(callback).result(PATIENCE)
            return super().call_at(when, callback, loop=loop)

    with Eager() as clock:
        token = CancellationToken(clock=clock).child(timeout=5)
        clock.advance(5)
        runs: list[threading.Thread] = []
        token.on_cancel(lambda: runs.append(threading.current_thread()))
        assert runs == [threading.current_thread()]


class Failing(VirtualClock):
    """A clock whose thread cannot be started."""

    def call_at(self, when: float, callback: Any, *, loop: Any = None) -> Any:
        raise RuntimeError("can't start new thread")


def test_a_callback_that_no_deadline_could_call_is_refused_and_never_called() -> None:
    root = CancellationToken(clock=Failing())
    token = root.child(timeout=5)
    runs: list[str] = []
    with pytest.raises(RuntimeError, match="can't start"):
        token.on_cancel(lambda: runs.append("ran"))
    link = weakref.ref(token)
    token.cancel()
    assert runs == []
    del token
    wait_until_collected(link)


def test_a_late_callback_on_a_deadline_needs_no_thread() -> None:
    token = CancellationToken(clock=Failing()).child(timeout=5)
    token.cancel()
    runs: list[str] = []
    token.on_cancel(lambda: runs.append("ran"))
    assert runs == ["ran"]


def test_callbacks_on_a_deadline_run_in_the_scheduler_thread_of_the_system_clock() -> None:
    names: list[str] = []
    done = threading.Event()
    token = CancellationToken().child(timeout=0.02)

    def callback() -> None:
        names.append(threading.current_thread().name)
        done.set()

    token.on_cancel(callback)
    assert done.wait(PATIENCE)
    assert names in (["backoff_ticker-scheduler"], [threading.current_thread().name])
    assert isinstance(token.cause, DeadlineExceeded)
