"""Cancels of a token and of the task, and waits that a timer measures."""

import asyncio
from contextlib import nullcontext

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    RetryAfter,
    chain,
    retry_call,
    retry_call_async,
    with_jitter,
    with_max_retries,
    with_token,
)
from backoff_ticker.testing import no_wait
from tests.helpers import turns
from tests.policies.policy_doubles import Wrapper
from tests.retries.faces import ALL_ASYNC, BOTH, FOUR, IN_ASYNCIO, SYNC, ended_by_cancel, in_loop
from tests.retries.scripts import ONE, TEN, ZERO, Recorded, Script, Takes, at, cancelled_token, now
from tests.tickers.made_policies import Scripted
from tests.tickers.made_timers import Failing, Fake, Instant

PLACES = {
    "alone": lambda token: with_token(TEN, token),
    "in limits": lambda token: with_max_retries(with_jitter(with_token(TEN, token), 0), 9),
    "in a chain": lambda token: chain(with_max_retries(TEN, 99), with_token(TEN, token)),
    "in a token": lambda token: with_token(with_token(TEN, token), CancellationToken()),
    "around a token": lambda token: with_token(with_token(TEN, CancellationToken()), token),
    "in a class": lambda token: Wrapper(with_token(TEN, token)),
    "deep in classes": lambda token: Wrapper(Wrapper(with_token(TEN, token))),
}
"""Policies with a token inside, which counts as if it were given to the run."""


def test_a_cancel_ends_the_wait_at_once_wherever_the_token_is(face, clock):
    for place, policy in {"option": lambda _: TEN, **PLACES}.items():
        token, errors, began = CancellationToken(), [OSError(1), OSError(2)], now()
        at(clock, began + 13, lambda: token.cancel(place))
        script, of_run = Script(*errors), token if place == "option" else CancellationToken()
        error = ended_by_cancel(face, script, policy(token), token=of_run)
        assert (error.cause, error.__cause__) == (place, errors[1])
        assert (errors[1].__cause__, errors[1].__context__) == (None, None)
        assert (script.times, now()) == ([began, began + 10], began + 13)
        assert clock.pending() == []


@BOTH
def test_a_cancel_at_the_very_end_of_a_wait_comes_first(face, clock):
    token, script = CancellationToken(), Script(OSError, 7)
    at(clock, 10, token.cancel)  # before the wait asks for the same moment
    ended_by_cancel(face, script, TEN, token=token)
    assert (script.times, now()) == ([0], 10)


@SYNC
def test_in_a_thread_an_attempt_runs_to_its_end(face, clock):
    token, last = CancellationToken(), OSError("last")
    at(clock, 13, token.cancel)
    script = Script(OSError, Takes(10, last))
    error = ended_by_cancel(face, script, TEN, token=token)
    assert error.__cause__ is last
    assert now() == 20
    token = CancellationToken()
    at(clock, 25, token.cancel)
    assert face.run(Script(Takes(10, 7)), token=token) == 7
    assert now() == 30


@ALL_ASYNC
@pytest.mark.parametrize("limits", [{}, {"timeout": 60}, {"attempt_timeout": 60}], ids=str)
def test_a_coroutine_that_runs_is_cut(face, clock, limits):
    token, first = CancellationToken(), OSError("first")
    at(clock, 13, lambda: token.cancel("enough"))
    script = Script(first, Takes(50, 7))
    error = ended_by_cancel(face, script, TEN, token=token, **limits)
    assert (error.cause, error.__cause__) == ("enough", first)
    assert (script.times, now()) == ([0, 10], 13)
    token = CancellationToken()
    at(clock, 20, token.cancel)
    error = ended_by_cancel(face, Script(Takes(50, 7)), token=token, **limits)
    assert (error.__cause__, now()) == (None, 20)


@pytest.mark.parametrize("place", ["option", "policy"])
def test_a_token_cancelled_before_cuts_nothing(face, place):
    token, policy = cancelled_token("before"), Scripted(then=1.0)
    options = {"token": token} if place == "option" else {"backoff": with_token(policy, token)}
    assert face.run(Script(Takes(5, 7)), **options) == 7
    assert now() == 5
    last = OSError()
    script = Script(Takes(5, last))
    error = ended_by_cancel(face, script, **{"backoff": policy, **options})
    assert (error.cause, error.__cause__) == ("before", last)
    assert (script.times, now(), policy.asked) == ([5], 10, 0)


@FOUR
def test_a_token_cancelled_as_the_first_attempt_begins_lets_it_begin(face):
    token, script = CancellationToken(), Script(7)
    assert face.run(script, token=token, on_attempt=lambda _: token.cancel()) == 7
    assert script.count == 1


@FOUR
@pytest.mark.parametrize("on", [None, Recorded(True)], ids=["default", "function"])
def test_an_operation_that_obeys_the_cancel_ends_the_run_as_cancelled_whatever_on_says(face, on):
    token, told, gave_up = CancellationToken(), Cancelled("told"), Recorded()
    script = Script(lambda: token.cancel("enough") and told)
    error = ended_by_cancel(face, script, ONE, token=token, on=on, on_give_up=gave_up)
    assert (error.cause, error.__cause__) == ("enough", told)
    assert script.count == 1
    assert gave_up.last.reason == "cancelled"
    assert on is None or on.calls == []


@IN_ASYNCIO
def test_a_cancel_of_the_task_wins(face, clock):
    for step in (Takes(50, 7), OSError):
        token = CancellationToken()

        async def main():
            running = face.main(Script(step), TEN, token=token)
            task = asyncio.ensure_future(running)
            await asyncio.sleep(3)
            token.cancel()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()

        in_loop(main())


@pytest.mark.parametrize("way", ["token", "max_attempts", "no_wait"])
def test_failures_without_a_delay_let_the_loop_run(clock, way):
    script = Script(OSError)
    options = {"max_attempts": 64 * 50} if way == "max_attempts" else {"token": CancellationToken()}
    policy = ConstantBackOff(3600) if way == "no_wait" else ZERO

    async def main():
        running = asyncio.ensure_future(retry_call_async(script.in_loop, policy, **options))
        await turns(20)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with no_wait() if way == "no_wait" else nullcontext():
        in_loop(main())
    assert 0 < script.count < 64 * 25
    assert now() == 0


@pytest.mark.parametrize("face", ["async call"], indirect=True)
def test_an_operation_is_not_called_where_a_cancel_of_the_task_comes_first(face):
    script, token = Script(OSError), CancellationToken()

    def cancel(outcome):
        if outcome.attempts == 2:
            asyncio.current_task().cancel()

    face.fails(asyncio.CancelledError, script, ONE, token=token, on_attempt=cancel)
    assert script.count == 1


@FOUR
def test_a_timer_measures_the_waits_and_no_time_passes(face):
    timer, script = Instant(), Script(OSError, RetryAfter(60), OSError, 7)
    assert face.run(script, Scripted(1.5, 0.0, 1e6), timer=timer) == 7
    assert script.times == [0, 0, 0, 0]
    assert face.run(Script(OSError, OSError, 7), ZERO, timer=timer) == 7
    assert timer.delays == [1.5, 60, 1e6, 0, 0]


@BOTH
def test_a_wait_lasts_until_the_timer_fires(face, clock):
    """What it sent before its start is dropped."""
    timer, script = Fake(), Script(OSError, OSError, 7)
    timer.fire()
    at(clock, 4, timer.fire)
    at(clock, 5000, timer.fire)
    assert face.run(script, TEN, timer=timer) == 7
    assert script.times == [0, 4, 5000]
    assert timer.delays == [10, 10]


@BOTH
@pytest.mark.parametrize("limit", ["token", "timeout"])
def test_a_cancel_and_the_timeout_end_the_wait_for_a_timer_and_stop_it(face, clock, limit):
    timer, token, script = Fake(), CancellationToken(), Script(OSError, 7)
    at(clock, 4, token.cancel)
    face.fails(Cancelled, script, ONE, timer=timer, **{limit: {"token": token}.get(limit, 4)})
    assert (script.times, now()) == ([0], 4)
    assert timer.stops >= 1


@BOTH
def test_a_timer_whose_channel_is_closed_ends_the_run(face):
    timer = Fake()
    timer.c.close()
    face.fails(RuntimeError, Script(OSError), ONE, timer=timer, match="the channel of .* is closed")


@FOUR
@pytest.mark.parametrize("kind", [LookupError, KeyboardInterrupt])
def test_what_a_timer_raises_ends_the_run(face, kind):
    own, gave_up = kind(), Recorded()
    script = Script(OSError, 7)
    assert face.fails(kind, script, TEN, timer=Failing(own, start=1), on_give_up=gave_up) is own
    assert (script.count, len(gave_up.calls)) == (1, isinstance(own, Exception))


def test_a_timer_is_stopped_before_another_run_may_start_it(clock):
    refused = []

    class Asking(Instant):
        def stop(self):
            with pytest.raises(RuntimeError, match="another run") as caught:
                retry_call(Script(OSError), ONE, timer=self)
            refused.append(caught.value)

    assert retry_call(Script(OSError, 7), ONE, timer=Asking()) == 7
    assert len(refused) == 1
