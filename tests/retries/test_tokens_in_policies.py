"""Tokens inside policies count as if they were given to the run, however deep they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    DeadlineExceeded,
    chain,
    with_jitter,
    with_max_retries,
    with_token,
)
from backoff_ticker.testing import no_wait
from tests.retries.faces import ASYNC, FOUR, SYNC, ended_by_cancel
from tests.retries.made_policies import Wrapper, at
from tests.retries.scripts import Script, Takes, now

if TYPE_CHECKING:
    from backoff_ticker.testing import VirtualClock

PLACES = {
    "alone": lambda token: with_token(ConstantBackOff(10), token),
    "in limits": lambda token: with_max_retries(
        with_jitter(with_token(ConstantBackOff(10), token), 0), 9
    ),
    "in a chain": lambda token: chain(
        with_max_retries(ConstantBackOff(10), 99), with_token(ConstantBackOff(10), token)
    ),
    "in a class": lambda token: Wrapper(with_token(ConstantBackOff(10), token)),
    "deep in classes": lambda token: Wrapper(Wrapper(with_token(ConstantBackOff(10), token))),
}


@FOUR
def test_a_token_in_the_policy_ends_the_wait_at_once(face: Any, clock: VirtualClock) -> None:
    for place, policy in PLACES.items():
        token, last, began = CancellationToken(), OSError("last"), now()
        at(clock, began + 13, lambda: token.cancel(place))
        script = Script(OSError, last)
        error = ended_by_cancel(face, script, policy(token), token=CancellationToken())
        assert (error.cause, error.__cause__) == (place, last)
        assert (script.times, now()) == ([began, began + 10], began + 13)


@ASYNC
def test_a_token_in_the_policy_cuts_as_well(face: Any, clock: VirtualClock) -> None:
    for place, policy in PLACES.items():
        token, first, began = CancellationToken(), OSError("first"), now()
        at(clock, began + 13, lambda: token.cancel(place))
        script = Script(first, Takes(50, 7))
        error = ended_by_cancel(face, script, policy(token))
        assert (error.cause, error.__cause__) == (place, first)
        assert (script.times, now()) == ([began, began + 10], began + 13)


@ASYNC
def test_a_token_in_the_policy_cuts_the_first_attempt_too(face: Any, clock: VirtualClock) -> None:
    token = CancellationToken()
    at(clock, 3, token.cancel)
    error = ended_by_cancel(face, Script(Takes(50, 7)), PLACES["alone"](token))
    assert (error.__cause__, now()) == (None, 3)


@SYNC
def test_a_token_in_the_policy_cancelled_meanwhile_ends_it(face: Any, clock: VirtualClock) -> None:
    for place in ("alone", "in limits", "in a class"):
        token, last = CancellationToken(), OSError("last")
        at(clock, now() + 3, token.cancel)
        script = Script(Takes(5, last))
        error = ended_by_cancel(face, script, PLACES[place](token))
        assert error.__cause__ is last
        assert script.count == 1


@FOUR
def test_a_deadline_in_the_policy_counts_skipped_waits(face: Any, clock: VirtualClock) -> None:
    for place, policy in PLACES.items():
        token, last = CancellationToken().child(timeout=25), OSError("last")
        script = Script(OSError, OSError, last)
        with no_wait(), pytest.raises(DeadlineExceeded) as caught:
            face.run(script, policy(token))
        assert (caught.value.__cause__, script.count, place) == (last, 3, place)
