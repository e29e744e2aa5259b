"""Trees of tokens, and their deadlines: who cancels whom, and who keeps whom alive."""

import asyncio
import threading
import weakref
from datetime import timedelta

import pytest

from backoff_ticker import CancellationToken, DeadlineExceeded, any_of
from backoff_ticker.testing import VirtualClock
from tests.helpers import PATIENCE, in_thread, wait_until_collected
from tests.stress.tools import children_of


def test_a_chain_of_2000_is_cancelled_from_its_root_and_freed():
    tokens = [CancellationToken()]
    for _ in range(2_000):
        tokens.append(tokens[-1].child())
    leaf = tokens[-1]
    runs = []
    leaf.on_cancel(lambda: runs.append("leaf"))
    assert tokens[0].cancel("root") is True
    assert all(token.cancelled for token in tokens)
    assert (leaf.cause, runs) == ("root", ["leaf"])
    links = [weakref.ref(token) for token in tokens]
    del tokens, leaf
    wait_until_collected(*links)


def test_dropped_children_leave_nothing_with_their_parent():
    root = CancellationToken()
    alive = [root.child() for _ in range(100)]
    assert children_of(root) == 100
    del alive
    assert children_of(root) == 0
    assert root.cancel() is True


def test_nested_diamonds_cost_no_more_than_their_tokens():
    """Depth 25 has 2**25 paths: walking them would take longer than a test may."""
    root = CancellationToken()
    runs = []
    level = root
    levels = []
    for depth in range(25):
        level = any_of(level.child(), level.child())
        level.on_cancel(lambda depth=depth: runs.append(depth))
        levels.append(level)
    assert root.cancel("root") is True
    assert [token.cause for token in levels] == ["root"] * 25
    assert runs == list(range(25))


def test_any_of_nothing_and_any_of_something_else_are_type_errors():
    with pytest.raises(TypeError, match="at least one"):
        any_of()
    for value in (None, "token", [CancellationToken()], threading.Event()):
        with pytest.raises(TypeError, match="CancellationToken"):
            any_of(CancellationToken(), value)


def test_any_of_takes_the_earliest_deadline_and_its_clock(clock):
    other = VirtualClock(5.0)
    root = CancellationToken(clock=clock)
    either = any_of(CancellationToken(clock=other), root.child(timeout=9), root.child(timeout=4))
    assert (either.deadline, either.clock) == (clock.monotonic() + 4, clock)
    clock.advance(4)
    assert isinstance(either.cause, DeadlineExceeded)


def test_deadlines_on_different_clocks_are_a_value_error(clock):
    other = VirtualClock()
    with pytest.raises(ValueError, match="on one clock"):
        any_of(
            CancellationToken(clock=clock).child(timeout=1),
            CancellationToken(clock=other).child(timeout=1),
        )


def test_tokens_without_deadlines_may_have_different_clocks(clock):
    one, two = CancellationToken(clock=clock), CancellationToken(clock=VirtualClock())
    either = any_of(one, two)
    two.cancel("two")
    assert (either.cause, either.deadline) == ("two", None)


# Deadlines: the earliest counts, every look sees it, the clock calls back


def raises(token):
    try:
        token.raise_if_cancelled()
    except DeadlineExceeded:
        return True
    return False


def calls_back(token):
    runs = []
    token.on_cancel(lambda: runs.append("ran")).remove()
    return runs == ["ran"]


LOOKS = {
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


MAKERS = {
    "child": lambda clock, *limits: CancellationToken(clock=clock).child(*limits),
    "made": lambda clock, timeout=None, deadline=None: CancellationToken(
        timeout=timeout, deadline=deadline, clock=clock
    ),
}
either_way = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


@either_way
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("depth", [0, 2])
def test_every_look_sees_a_deadline_that_has_passed(clock, look, depth, make):
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
        (3, 5, 1007, 1003.0),
        (8, 9, 1007, 1007.0),
        (8, None, None, 1008.0),
        (None, timedelta(seconds=1.5), None, 1001.5),
        (8, None, -3, -3.0),
    ],
)
def test_the_earliest_of_the_parents_deadline_timeout_and_deadline_counts(
    clock, parent, timeout, deadline, expected, make
):
    if parent is None:
        assert make(clock, timeout, deadline).deadline == expected
    token = make(clock, parent)
    assert token.child(timeout=timeout, deadline=deadline).deadline == expected
    assert token.child(timeout=timeout, deadline=deadline).child().deadline == expected


def test_a_subclass_gets_deadlines_by_its_children(clock):
    class Own(CancellationToken):
        pass

    with pytest.raises(TypeError, match="Own cannot have a timeout or deadline"):
        Own(timeout=5)
    child = Own(clock=clock).child(timeout=5)
    clock.advance(5)
    assert child.cancelled


def test_the_remaining_time_runs_down_and_is_never_negative(clock):
    token = CancellationToken(clock=clock).child(timeout=5)
    seen = []
    for _ in range(4):
        seen.append(token.remaining())
        clock.advance(2)
    assert seen == [5.0, 3.0, 1.0, 0.0]
    assert CancellationToken(clock=clock).child(deadline=-1).remaining() == 0.0
    assert CancellationToken(clock=clock).remaining() is None


def test_the_cause_of_a_passed_deadline_stays_the_same_object(clock):
    token = CancellationToken(clock=clock).child(timeout=0)
    assert isinstance(token.cause, DeadlineExceeded)
    assert token.cause is token.cause
    with pytest.raises(DeadlineExceeded) as caught:
        token.raise_if_cancelled()
    assert caught.value is not token.cause


def test_a_callback_that_is_removed_as_its_timer_is_made_leaves_no_timer(clock):
    """By another thread."""

    class MeddledClock:
        def __getattr__(self, name):
            return getattr(clock, name)

        def call_at(self, when, callback):
            made = clock.call_at(when, callback)
            for handle in [*token._state.callbacks]:
                handle.remove()
            return made

    token = CancellationToken(clock=MeddledClock()).child(timeout=5)
    token.on_cancel(lambda: None)
    assert clock.pending() == []


def test_a_callback_added_after_the_deadline_runs_at_once_in_the_calling_thread():
    """The clock's own thread would be first if the callback were given to it."""

    class Eager(VirtualClock):
        def call_at(self, when, callback, *, loop=None):
            if when <= self.monotonic() and loop is None:
                in_thread(callback).result(PATIENCE)
            return super().call_at(when, callback, loop=loop)

    with Eager() as clock:
        token = CancellationToken(clock=clock).child(timeout=5)
        clock.advance(5)
        runs = []
        token.on_cancel(lambda: runs.append(threading.current_thread()))
        assert runs == [threading.current_thread()]
