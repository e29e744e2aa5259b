"""Trees of tokens: children and ``any_of``, who cancels whom, and who keeps whom alive."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import CancellationToken, DeadlineExceeded, any_of
from backoff_ticker.testing import VirtualClock
from tests.effort import rounds
from tests.helpers import PATIENCE, in_thread, wait_until_collected

if TYPE_CHECKING:
    from collections.abc import Callable


def children(token: CancellationToken) -> int:
    """How many entries for children ``token`` holds."""
    return len(token._cells.get("children", ()))


def chain(length: int) -> list[CancellationToken]:
    tokens = [CancellationToken()]
    for _ in range(length):
        tokens.append(tokens[-1].child())
    return tokens


def test_a_cancel_goes_down_with_its_cause_and_not_up() -> None:
    root = CancellationToken()
    left, right = root.child(), root.child()
    leaf = left.child()
    cause = ValueError("why")
    assert left.cancel(cause) is True
    assert [token.cancelled for token in (root, left, right, leaf)] == [False, True, False, True]
    assert leaf.cause is cause
    assert root.cancel("root") is True
    assert [token.cause for token in (root, left, right, leaf)] == ["root", cause, "root", cause]


def test_a_cancelled_descendant_cannot_be_cancelled_again() -> None:
    root = CancellationToken()
    leaf = root.child().child()
    root.cancel("root")
    assert leaf.cancel("leaf") is False
    assert leaf.cause == "root"


def test_the_child_of_a_cancelled_token_is_born_cancelled() -> None:
    root = CancellationToken()
    root.cancel("root")
    for child in (root.child(), root.child(timeout=60), any_of(CancellationToken(), root)):
        assert (child.cancelled, child.cause) == (True, "root")
        assert child.cancel() is False
        assert child.wait() is True


def test_a_chain_of_2000_is_cancelled_from_its_root_and_freed() -> None:
    tokens = chain(2_000)
    leaf = tokens[-1]
    runs: list[str] = []
    leaf.on_cancel(lambda: runs.append("leaf"))
    assert tokens[0].cancel("root") is True
    assert all(token.cancelled for token in tokens)
    assert (leaf.cause, runs) == ("root", ["leaf"])
    links = [weakref.ref(token) for token in tokens]
    del tokens, leaf
    wait_until_collected(*links)


def test_a_chain_lives_as_long_as_its_leaf() -> None:
    tokens = chain(2_000)
    leaf = tokens[-1]
    root = weakref.ref(tokens[0])
    del tokens
    gc.collect()
    top = root()
    assert top is not None
    top.cancel()
    assert leaf.cancelled is True


def allocated_by(run: Callable[[], object]) -> int:
    """Return the bytes that ``run`` leaves behind."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        run()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def test_dropped_children_and_removed_callbacks_leave_nothing_with_their_parent() -> None:
    root = CancellationToken()
    root.child().on_cancel(print).remove()
    count = rounds(3_000, 20_000)

    def churn() -> None:
        for _ in range(count):
            root.child().on_cancel(print).remove()

    # What threads of other tests make meanwhile counts, too; what is left behind is so each time.
    assert min(allocated_by(churn) for _ in range(3)) < count
    alive = [root.child() for _ in range(count)]
    assert children(root) == count
    del alive
    assert children(root) == 0
    assert root.cancel() is True


def test_a_child_is_collected_without_the_garbage_collector() -> None:
    root = CancellationToken()
    child = root.child()
    link = weakref.ref(child)
    gc.disable()
    try:
        del child
        assert link() is None
    finally:
        gc.enable()


def test_the_loser_of_two_cancels_returns_only_when_every_descendant_is_cancelled(
    clock: VirtualClock,
) -> None:
    """The winner is held up half-way down: at a child whose deadline it reads."""
    root = CancellationToken(clock=clock)
    tree = [root.child(), root.child(timeout=60), root.child(), root.child()]
    tree += [token.child() for token in tree]
    runs: list[str] = []
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


def test_a_cancel_that_was_cut_short_is_completed_by_the_next() -> None:
    class Interrupting(VirtualClock):
        armed = False

        def monotonic(self) -> float:
            if self.armed:
                self.armed = False
                raise KeyboardInterrupt
            return super().monotonic()

    with Interrupting() as clock:
        root = CancellationToken(clock=clock)
        tree = [root.child(timeout=60), root.child(), root.child().child()]
        waits = [in_thread(token.wait) for token in tree]
        clock.settle()
        runs: list[str] = []
        tree[-1].on_cancel(lambda: runs.append("ran"))
        clock.armed = True
        with pytest.raises(KeyboardInterrupt):
            root.cancel("first")
        assert root.cancel("second") is False
        assert [token.cause for token in tree] == ["first"] * len(tree)
        assert [wait.result(PATIENCE) for wait in waits] == [True] * len(tree)
        assert runs == ["ran"]


def test_a_child_born_while_its_parent_is_cancelled_is_cancelled() -> None:
    born: list[CancellationToken] = []
    root = CancellationToken()
    parent = root.child()
    root.on_cancel(lambda: born.extend([root.child(), parent.child(), any_of(parent)]))
    root.cancel("root")
    assert [token.cause for token in born] == ["root"] * 3


def test_a_source_cancelled_while_any_of_looks_at_another_is_not_missed() -> None:
    class Cancelling(VirtualClock):
        looks = 0

        def monotonic(self) -> float:
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


def test_any_of_is_cancelled_with_the_first_of_its_tokens() -> None:
    for which in range(3):
        tokens = [CancellationToken() for _ in range(3)]
        either = any_of(*tokens)
        assert either.cancelled is False
        tokens[which].cancel(f"number {which}")
        tokens[which - 1].cancel("late")
        assert (either.cancelled, either.cause) == (True, f"number {which}")


def test_cancelling_any_of_cancels_none_of_its_tokens_but_its_children() -> None:
    one, two = CancellationToken(), CancellationToken()
    either = any_of(one, two)
    child = either.child()
    assert either.cancel("either") is True
    assert (one.cancelled, two.cancelled, child.cause) == (False, False, "either")


def test_any_of_cancelled_tokens_takes_the_cause_of_the_first_given() -> None:
    one, two = CancellationToken(), CancellationToken()
    two.cancel("two")
    one.cancel("one")
    assert any_of(CancellationToken(), one, two).cause == "one"


def test_any_of_one_token_twice_is_called_back_once() -> None:
    token = CancellationToken()
    either = any_of(token, token, any_of(token))
    runs: list[str] = []
    either.on_cancel(lambda: runs.append("ran"))
    token.cancel()
    assert (either.cancelled, runs) == (True, ["ran"])


def test_nested_diamonds_cost_no_more_than_their_tokens() -> None:
    """Depth 25 has 2**25 paths: walking them would take longer than a test may."""
    root = CancellationToken()
    runs: list[int] = []
    level = root
    levels = []
    for depth in range(25):
        level = any_of(level.child(), level.child())
        level.on_cancel(lambda depth=depth: runs.append(depth))
        levels.append(level)
    assert root.cancel("root") is True
    assert [token.cause for token in levels] == ["root"] * 25
    assert runs == list(range(25))


def test_a_cancel_in_a_diamond_reaches_what_is_below_it_only() -> None:
    root = CancellationToken()
    left, right = root.child(), root.child()
    bottom = any_of(left, right)
    leaf = bottom.child()
    right.cancel("right")
    assert (root.cancelled, left.cancelled) == (False, False)
    assert (bottom.cause, leaf.cause) == ("right", "right")


def test_any_of_holds_its_sources_and_they_do_not_hold_it() -> None:
    one, two = CancellationToken(), CancellationToken()
    either = any_of(one, two.child())
    sources = [weakref.ref(one), weakref.ref(two)]
    del one, two
    gc.collect()
    first, second = (link() for link in sources)
    assert first is not None
    assert second is not None
    link = weakref.ref(either)
    del either
    wait_until_collected(link)
    assert (children(first), children(second)) == (0, 0)


def test_any_of_nothing_and_any_of_something_else_are_type_errors() -> None:
    with pytest.raises(TypeError, match="at least one"):
        any_of()
    wrong: list[Any] = [None, "token", [CancellationToken()], threading.Event()]
    for value in wrong:
        with pytest.raises(TypeError, match="CancellationToken"):
            any_of(CancellationToken(), value)


def test_any_of_takes_the_earliest_deadline_and_its_clock(clock: VirtualClock) -> None:
    other = VirtualClock(5.0)
    root = CancellationToken(clock=clock)
    either = any_of(CancellationToken(clock=other), root.child(timeout=9), root.child(timeout=4))
    assert (either.deadline, either.clock) == (clock.monotonic() + 4, clock)
    clock.advance(4)
    assert isinstance(either.cause, DeadlineExceeded)


def test_deadlines_on_different_clocks_are_a_value_error(clock: VirtualClock) -> None:
    other = VirtualClock()
    with pytest.raises(ValueError, match="on one clock"):
        any_of(
            CancellationToken(clock=clock).child(timeout=1),
            CancellationToken(clock=other).child(timeout=1),
        )


def test_tokens_without_deadlines_may_have_different_clocks(clock: VirtualClock) -> None:
    one, two = CancellationToken(clock=clock), CancellationToken(clock=VirtualClock())
    either = any_of(one, two)
    two.cancel("two")
    assert (either.cause, either.deadline) == ("two", None)
