"""Trees of tokens: children and ``any_of``, who cancels whom, and who keeps whom alive."""

import threading
import weakref

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


def test_the_loser_of_two_cancels_returns_only_when_every_descendant_is_cancelled(clock):
    """The winner is held up half-way down: at a child whose deadline it reads."""
    root = CancellationToken(clock=clock)
    tree = [root.child(), root.child(timeout=60), root.child(), root.child()]
    tree += [token.child() for token in tree]
    runs = []
    tree[-1].on_cancel(lambda: runs.append("ran"))

    with clock.trap("monotonic") as trap:
        won = in_thread(root.cancel, "winner")
        trap.wait()
        assert tree[-1].cancelled is False
        assert root.cancel("loser") is False
        assert [token.cause for token in tree] == ["winner"] * len(tree)
        assert runs == ["ran"]
        assert not won.done()
    assert won.result(PATIENCE) is True
    assert runs == ["ran"]


def test_a_cancel_that_was_cut_short_is_completed_by_the_next():
    class Interrupting(VirtualClock):
        armed = False

        def monotonic(self):
            if self.armed:
                self.armed = False
                raise KeyboardInterrupt
            return super().monotonic()

    with Interrupting() as clock:
        root = CancellationToken(clock=clock)
        tree = [root.child(timeout=60), root.child(), root.child().child()]
        waits = [in_thread(token.wait) for token in tree]
        clock.settle()
        runs = []
        tree[-1].on_cancel(lambda: runs.append("ran"))
        clock.armed = True
        with pytest.raises(KeyboardInterrupt):
            root.cancel("first")
        assert root.cancel("second") is False
        assert [token.cause for token in tree] == ["first"] * len(tree)
        assert [wait.result(PATIENCE) for wait in waits] == [True] * len(tree)
        assert runs == ["ran"]


def test_a_source_cancelled_while_any_of_looks_at_another_is_not_missed():
    class Cancelling(VirtualClock):
        looks = 0

        def monotonic(self):
            self.looks += 1
            if self.looks == 1:
                first.cancel("meanwhile")
            return super().monotonic()

    clock = Cancelling()
    first, second = CancellationToken(), CancellationToken(clock=clock).child(deadline=60)
    assert clock.looks == 0
    either = any_of(first, second)
    assert clock.looks > 0
    assert either.cause == "meanwhile"


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
