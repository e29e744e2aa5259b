"""A ticker runs its own copy of a policy, and is cancelled by the token of the policy."""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Pace,
    chain,
    with_max_retries,
    with_token,
)
from backoff_ticker.testing import VirtualClock
from tests.tickers.made_policies import Counting, reason_of


class Plain:
    """Holds a policy in an attribute, and hands on its token."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def held(self) -> Any:
        return self.inner

    @property
    def token(self) -> Any:
        return getattr(self.held(), "token", None)

    def next_backoff(self) -> Any:
        return self.held().next_backoff()

    def reset(self) -> None:
        self.held().reset()


class Slotted(Plain):
    """Holds it in a slot with a private name."""

    __slots__ = ("__secret",)

    def __init__(self, inner: Any) -> None:
        self.__secret = inner

    def held(self) -> Any:
        return self.__secret


@dataclass(frozen=True)
class Frozen(Plain):
    inner: Any

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    inner: Any

    @property
    def token(self) -> Any:
        return getattr(self.inner, "token", None)

    def next_backoff(self) -> Any:
        return self.inner.next_backoff()

    def reset(self) -> None:
        self.inner.reset()


@dataclass
class InList(Plain):
    inner: Any
    parts: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts.append(self.inner)
        self.inner = None

    def held(self) -> Any:
        return self.parts[0]


def holding(name: str, put: Any, get: Any) -> type[Plain]:
    """Return a class of wrappers that hold a policy by ``put(policy)``, found by ``get``."""

    def init(self: Any, inner: Any) -> None:
        self.inner = put(inner)

    return type(name, (Plain,), {"__init__": init, "held": lambda self: get(self.inner)})


class Pair(NamedTuple):
    label: str
    policy: Any


WRAPPERS = {
    "plain": Plain,
    "slots": Slotted,
    "frozen": Frozen,
    "frozen slots": FrozenSlots,
    "dataclass list": InList,
    "tuple": holding("InTuple", lambda it: ("x", it), lambda held: held[1]),
    "dict": holding("InDict", lambda it: {"x": it}, lambda held: held["x"]),
    "namedtuple": holding("InPair", lambda it: Pair("x", it), lambda held: held.policy),
    "defaultdict": holding(
        "InDefault", lambda it: defaultdict(list, {"x": it}), lambda held: held["x"]
    ),
    "max retries": lambda inner: with_max_retries(inner, 10**6),
    "token": lambda inner: with_token(inner, CancellationToken()),
}
EVERY_WRAPPER = pytest.mark.parametrize("wrapper", WRAPPERS)


def take(ticker: Any, clock: VirtualClock, count: int) -> list[float]:
    """Take ``count`` ticks as they fall due; return their delays."""
    delays = [ticker.receive_nowait().delay]
    for delay in range(1, count):
        clock.advance(delay)
        delays.append(ticker.receive_nowait().delay)
    return delays


@EVERY_WRAPPER
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_two_tickers_share_a_wrapped_policy_and_no_state(
    face: Any, clock: VirtualClock, wrapper: str, depth: int
) -> None:
    innermost = shared = Counting()
    for _ in range(depth):
        shared = WRAPPERS[wrapper](shared)
    innermost.last = 70
    first, second = face.ticker(shared, clock=clock), face.ticker(shared, clock=clock)
    assert take(first, clock, 4) == [0, 1, 2, 3]
    assert take(second, clock, 4) == [0, 1, 2, 3]
    assert innermost.last == 70


def test_wrappers_of_every_kind_inside_one_another(face: Any, clock: VirtualClock) -> None:
    innermost = shared = Counting()
    for wrapper in WRAPPERS.values():
        shared = wrapper(shared)
    first, second = face.ticker(shared, clock=clock), face.ticker(shared, clock=clock)
    assert take(first, clock, 4) == take(second, clock, 4) == [0, 1, 2, 3]
    assert innermost.last == 0


@EVERY_WRAPPER
def test_the_copy_is_reset_and_is_what_backoff_shows(
    face: Any, clock: VirtualClock, wrapper: str
) -> None:
    policy = WRAPPERS[wrapper](Counting())
    ticker = face.ticker(policy, clock=clock)
    assert type(ticker.backoff) is type(policy)
    assert ticker.backoff is not policy
    take(ticker, clock, 3)
    assert policy.next_backoff() == 1
    assert ticker.backoff.next_backoff() == 4


def test_a_policy_held_twice_is_one_policy_in_the_copy(face: Any, clock: VirtualClock) -> None:
    class Alternating:
        def __init__(self, inner: Any) -> None:
            self.both = [inner, inner]
            self.third = inner
            self.turn = 0

        def next_backoff(self) -> Any:
            self.turn += 1
            return (*self.both, self.third)[self.turn % 3].next_backoff()

        def reset(self) -> None:
            self.turn = 0
            self.third.reset()

    assert take(face.ticker(Alternating(Counting()), clock=clock), clock, 6) == [0, 1, 2, 3, 4, 5]


def test_policies_that_hold_each_other_are_copied(face: Any, clock: VirtualClock) -> None:
    outer = Plain(Counting())
    outer.inner.owner = outer
    ticker = face.ticker(outer, clock=clock)
    assert ticker.backoff.inner.owner is ticker.backoff
    assert take(ticker, clock, 3) == [0, 1, 2]
    assert outer.inner.last == 0


@pytest.mark.parametrize("wrapper", ["plain", "dict", "frozen", "max retries"])
def test_a_policy_that_returns_itself_from_copy_is_shared(
    face: Any, clock: VirtualClock, wrapper: str
) -> None:
    class Shared(Counting):
        def __copy__(self) -> Shared:
            return self

        def reset(self) -> None:
            """Goes on."""

    shared = Shared()
    policy = WRAPPERS[wrapper](shared)
    first, second = face.ticker(policy, clock=clock), face.ticker(policy, clock=clock)
    first.receive_nowait()
    second.receive_nowait()
    assert shared.last == 2


def test_a_class_with_its_own_copy_is_taken_at_its_word(face: Any) -> None:
    class Own(Plain):
        def __copy__(self) -> Own:
            return type(self)(copy.copy(self.inner))

    policy = Own(Counting())
    ticker = face.ticker(policy)
    ticker.receive_nowait()
    assert (ticker.backoff.inner.last, policy.inner.last) == (1, 0)


def test_a_policy_that_cannot_be_copied_is_refused(face: Any) -> None:
    class Stubborn(Counting):
        def __copy__(self) -> Any:
            raise LookupError

    with pytest.raises(TypeError, match=r"backoff.*copied"):
        face.ticker(Stubborn())


def test_an_error_of_reset_is_the_constructors(face: Any) -> None:
    class Unresettable(Counting):
        def reset(self) -> None:
            raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        face.ticker(Unresettable())


# The token inside


@EVERY_WRAPPER
@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("pace", list(Pace))
def test_a_token_at_any_depth_wakes_a_reader_at_once(
    face: Any, clock: VirtualClock, wrapper: str, depth: int, pace: Pace
) -> None:
    token = CancellationToken()
    policy: Any = with_token(ConstantBackOff(300), token)
    for _ in range(depth):
        policy = WRAPPERS[wrapper](policy)
    ticker = face.ticker(policy, clock=clock, pace=pace)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    token.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED
    assert clock.monotonic() == 1000


@pytest.mark.parametrize("which", range(4))
def test_each_of_several_tokens_ends_it(face: Any, clock: VirtualClock, which: int) -> None:
    tokens = [CancellationToken() for _ in range(4)]
    policy: Any = ConstantBackOff(300)
    for token in tokens[1:]:
        policy = Plain(with_token(policy, token))
    ticker = face.ticker(policy, token=tokens[0], clock=clock)
    face.receive(ticker)
    waiting = [face.start_receive(ticker) for _ in range(3)]
    clock.settle()
    tokens[which].cancel()
    assert [reason_of(future) for future in waiting] == [CloseReason.CANCELLED] * 3


def test_the_policy_of_a_run_has_its_token_where_it_is_used_elsewhere(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken()
    first = face.ticker(with_token(ConstantBackOff(300), token), clock=clock)
    ticker = face.ticker(Plain(first.backoff), clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    token.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED


def test_a_token_in_a_later_part_of_a_chain_counts_from_the_beginning(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken()
    policy = chain(ConstantBackOff(300), with_token(ConstantBackOff(1), token))
    ticker = face.ticker(policy, clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    token.cancel()
    assert reason_of(waiting) is CloseReason.CANCELLED


def test_a_token_with_a_deadline_on_another_clock_is_refused(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken(VirtualClock()).child(timeout=100)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(ConstantBackOff(1), token=token, clock=clock)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(with_token(ConstantBackOff(1), token), clock=clock)
    ticker = face.ticker(ConstantBackOff(1), clock=clock)
    with pytest.raises(ValueError, match=r"token.*clock"):
        ticker.reset(Plain(with_token(ConstantBackOff(1), token)))
