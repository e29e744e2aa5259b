"""A ticker runs its own copy of a policy, and ends with the token inside it."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest

from backoff_ticker import (
    CancellationToken,
    CloseReason,
    ConstantBackOff,
    Pace,
    Ticker,
    ZeroBackOff,
    with_max_retries,
    with_token,
)
from backoff_ticker.testing import VirtualClock
from tests.helpers import PATIENCE
from tests.tickers.made_policies import Counting, reason_of


class Plain:
    """A wrapper of a user's that holds a policy in an attribute, and names its token."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @property
    def token(self) -> Any:
        return getattr(self.inner, "token", None)

    def next_backoff(self) -> Any:
        return self.inner.next_backoff()

    def reset(self) -> None:
        self.inner.reset()


@dataclass(frozen=True)
class Frozen(Plain):
    inner: Any


class InList(Plain):
    """Holds it in a list."""

    def __init__(self, inner: Any) -> None:
        self.parts = [inner]

    @property
    def inner(self) -> Any:  # type: ignore[override]
        return self.parts[0]


WRAPPERS: dict[str, Any] = {
    "plain": Plain,
    "frozen": Frozen,
    "list": InList,
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
@pytest.mark.parametrize("depth", [1, 2])
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


@pytest.mark.parametrize("wrapper", ["plain", "frozen", "max retries"])
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
@pytest.mark.parametrize("pace", [Pace.RECEIPT, Pace.RETURN])
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


def test_a_token_of_a_ticker_that_a_policy_reads_is_not_the_policys(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken()
    inner = Ticker(with_token(ZeroBackOff(), token))

    class Reading(Counting):
        def next_backoff(self) -> Any:
            next(inner, None)
            return super().next_backoff()

    ticker = face.ticker(Reading(), clock=clock)
    face.receive(ticker)
    waiting = face.start_receive(ticker)
    clock.settle()
    token.cancel()
    clock.advance(100)
    assert waiting.result(PATIENCE).number == 2


def test_a_token_with_a_deadline_on_another_clock_is_refused(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken(clock=VirtualClock()).child(timeout=100)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(ConstantBackOff(1), token=token, clock=clock)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(with_token(ConstantBackOff(1), token), clock=clock)
    with pytest.raises(ValueError, match=r"token.*clock"):
        face.ticker(ConstantBackOff(1), clock=clock).reset(with_token(ConstantBackOff(1), token))
