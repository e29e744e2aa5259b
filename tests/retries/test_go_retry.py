"""What retries have in common with Retry of cenkalti/backoff v4, and where they part from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    Permanent,
    StopBackOff,
    ZeroBackOff,
    delays,
    with_max_retries,
    with_token,
)
from tests.retries.faces import BOTH
from tests.retries.made_policies import cancelled_token
from tests.retries.scripts import START, Recorded, Script
from tests.tickers.made_policies import Scripted

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock


@BOTH
def test_n_retries_are_n_attempts_and_one(face: Any) -> None:
    for retries in (0, 1, 5):
        script = Script(ValueError)
        with pytest.raises(ValueError):
            face.run(script, with_max_retries(ZeroBackOff(), retries))
        assert script.count == retries + 1


@BOTH
def test_a_spent_policy_is_fresh_in_each_run_and_stays_spent_outside(face: Any) -> None:
    policy = with_max_retries(ZeroBackOff(), 2)
    assert list(delays(policy)) == [0, 0]
    assert [policy.next_backoff() for _ in range(2)] == [0, 0]
    for _ in range(2):
        script = Script(ValueError)
        with pytest.raises(ValueError):
            face.run(script, policy)
        assert script.count == 3
    assert policy.retries == 2


@BOTH
def test_a_policy_is_reset_once_in_each_run(face: Any) -> None:
    policy = Scripted(then=1.0)
    face.run(Script(OSError, OSError, OSError, 7), policy)
    assert (policy.resets, policy.asked) == (1, 3)


@BOTH
def test_without_a_policy_it_is_that_of_go(face: Any) -> None:
    told = Recorded()
    script = Script(*[OSError] * 6, 7)
    face.run(script, notify=told)
    reference = ExponentialBackOff(randomization_factor=0)
    for _, _, delay in told.calls:
        interval = reference.next_backoff()
        assert interval * 0.5 <= delay <= interval * 1.5
    waits = [after - before for before, after in zip(script.times, script.times[1:], strict=False)]
    assert waits == pytest.approx([delay for _, _, delay in told.calls])


@BOTH
def test_without_a_policy_it_ends_within_15_minutes(face: Any) -> None:
    script = Script(ValueError)
    with pytest.raises(ValueError):
        face.run(script)
    assert 900 - 90 <= script.times[-1] <= 900
    assert script.count > 15


# Permanent


@BOTH
def test_permanent_anywhere_in_the_chain_raises_the_error_inside(face: Any) -> None:
    inner = LookupError("gone")

    def fail() -> None:
        try:
            try:
                raise Permanent(inner)
            except Permanent as permanent:
                raise ValueError from permanent
        except ValueError as middle:
            raise RuntimeError from middle

    script = Script(fail)
    with pytest.raises(LookupError) as caught:
        face.run(script, ZeroBackOff())
    assert caught.value is inner
    assert script.count == 1


@BOTH
def test_permanent_beats_a_cancelled_token(face: Any) -> None:
    inner = ValueError()
    with pytest.raises(ValueError) as caught:
        face.run(Script(Permanent(inner)), ZeroBackOff(), token=cancelled_token())
    assert caught.value is inner


@pytest.mark.parametrize("nothing", [None, "gone", 7, ValueError])
def test_permanent_cannot_make_a_failure_a_success(nothing: Any) -> None:
    """In Go a permanent error without an error inside is one."""
    with pytest.raises(TypeError, match="error"):
        Permanent(nothing)


# Notify


@BOTH
def test_notify_is_told_the_error_and_the_delay_before_each_wait(face: Any) -> None:
    told, errors = Recorded(), [OSError(1), OSError(2), OSError(3)]
    face.run(Script(*errors, 7), Scripted(1, 2, 0), notify=told)
    assert told.calls == [(0, errors[0], 1.0), (1, errors[1], 2.0), (3, errors[2], 0.0)]
    assert [type(delay) for _, _, delay in told.calls] == [float] * 3


@BOTH
def test_notify_is_not_called_where_no_wait_follows(face: Any) -> None:
    told = Recorded()
    face.run(Script(7), ConstantBackOff(1), notify=told)
    for step, policy, options in [
        (Permanent(OSError()), ConstantBackOff(1), {}),
        (OSError, StopBackOff(), {}),
        (OSError, ConstantBackOff(1), {"on": ValueError}),
        (OSError, ConstantBackOff(1), {"max_attempts": 1}),
    ]:
        with pytest.raises(OSError):
            face.run(Script(step), policy, notify=told, **options)
    with pytest.raises(Cancelled):
        face.run(Script(OSError), ConstantBackOff(1), notify=told, token=cancelled_token())
    assert told.calls == []


@BOTH
def test_notify_is_called_before_a_wait_that_a_deadline_cuts(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken(clock=clock).child(timeout=0.03125)
    told, error = Recorded(), ValueError()
    with pytest.raises(DeadlineExceeded) as caught:
        face.run(Script(error, 7), ConstantBackOff(3600), token=token, notify=told)
    assert told.calls == [(0, error, 3600.0)]
    assert clock.monotonic() - START == 0.03125
    assert caught.value.__cause__ is error


# Tokens


@BOTH
def test_a_token_in_the_policy_ends_the_wait(face: Any, clock: VirtualClock) -> None:
    token = CancellationToken(clock=clock).child(timeout=4)
    script = Script(ValueError)
    with pytest.raises(DeadlineExceeded):
        face.run(script, with_max_retries(with_token(ConstantBackOff(3), token), 9))
    assert (script.times, clock.monotonic() - START) == ([0, 3], 4)


@BOTH
def test_a_cancelled_token_in_the_policy_still_lets_one_attempt_happen(face: Any) -> None:
    inner = Scripted(then=1.0)
    assert face.run(Script(7), with_token(inner, cancelled_token())) == 7
    script = Script(ValueError("first"))
    with pytest.raises(Cancelled) as caught:
        face.run(script, with_token(inner, cancelled_token("enough")))
    assert (script.count, inner.asked) == (1, 0)
    assert caught.value.cause == "enough"
    assert str(caught.value.__cause__) == "first"


@BOTH
def test_of_a_token_in_a_token_both_count(face: Any, clock: VirtualClock) -> None:
    """In Go the outer context replaces the inner one."""
    for first, second in [(4, 90), (90, 4)]:
        began = clock.monotonic()
        inner, outer = CancellationToken().child(timeout=first), CancellationToken()
        outer = outer.child(timeout=second)
        policy = with_token(with_token(ConstantBackOff(60), inner), outer)
        with pytest.raises(DeadlineExceeded):
            face.run(Script(ValueError), policy)
        assert clock.monotonic() - began == 4


@BOTH
def test_a_delay_is_not_compared_with_the_deadline_of_a_token(
    face: Any, clock: VirtualClock
) -> None:
    token = CancellationToken(clock=clock).child(timeout=5)
    told = Recorded()
    with pytest.raises(DeadlineExceeded):
        face.run(Script(ValueError), ConstantBackOff(10), token=token, notify=told)
    assert len(told.calls) == 1
    assert clock.monotonic() - START == 5
