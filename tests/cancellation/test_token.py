"""One token: its cause and errors, waits in threads and loops, the ``with`` block."""

import asyncio
import copy
import pickle
from datetime import timedelta

import pytest

from backoff_ticker import CancellationToken, Cancelled
from tests.helpers import PATIENCE, in_thread, waiters_of


def waiting(token):
    """How many wait for ``token``."""
    return len(waiters_of(token._wait_set()))


@pytest.mark.parametrize("cause", [None, "", "why", ValueError("why"), KeyboardInterrupt()])
def test_a_cause_is_an_exception_a_text_or_none(cause):
    token = CancellationToken()
    with pytest.raises(AttributeError, match="read-only"):
        token.cancelled = True
    assert token.cancel(cause) is True
    assert (token.cancelled, token.cause) == (True, cause)


@pytest.mark.parametrize("cause", [1, 0, False, b"why", ValueError, ["why"], object()])
def test_another_cause_is_refused_and_cancels_nothing(cause):
    token = CancellationToken()
    with pytest.raises(TypeError, match="cause must be"):
        token.cancel(cause)
    assert token.cancelled is False
    assert token.cancel("why") is True


def test_an_exception_as_the_cause_is_chained_to_a_fresh_error_each_time():
    token = CancellationToken()
    cause = ValueError("why")
    token.cancel(cause)
    raised = []
    for _ in range(2):
        with pytest.raises(Cancelled) as caught:
            token.raise_if_cancelled()
        assert type(caught.value) is Cancelled
        assert caught.value.cause is cause
        assert caught.value.__cause__ is cause
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert cause.__traceback__ is None


def test_a_wait_of_zero_seconds_only_checks(clock):
    token = CancellationToken(clock=clock)

    async def main():
        assert await token.wait_async(0) is False
        return await clock.advance_async(60)

    assert token.wait(0) is False
    assert asyncio.run(main()) == 0
    assert waiting(token) == 0


@pytest.mark.parametrize("timeout", [None, 5, 1e300, timedelta(days=400)])
def test_a_cancel_wakes_a_waiting_thread_and_a_waiting_coroutine(clock, loop, timeout):
    token = CancellationToken(clock=clock)
    thread = in_thread(token.wait, timeout)
    coroutine = loop.submit(token.wait_async(timeout))
    clock.settle()
    assert waiting(token) == 2
    assert token.cancel() is True
    assert (thread.result(PATIENCE), coroutine.result(PATIENCE)) == (True, True)
    clock.settle()
    assert (waiting(token), len(clock.pending())) == (0, 0)


@pytest.mark.parametrize("timeout", [5, timedelta(seconds=5)])
def test_a_wait_that_times_out_is_false_and_leaves_nothing(clock, loop, timeout):
    token = CancellationToken(clock=clock)
    waits = [in_thread(token.wait, timeout), loop.submit(token.wait_async(timeout))]
    clock.advance(4.999)
    assert [wait.done() for wait in waits] == [False, False]
    clock.advance(0.001)
    assert [wait.result(PATIENCE) for wait in waits] == [False, False]
    assert (waiting(token), len(clock.pending()), token.cancelled) == (0, 0, False)


def test_a_cancelled_wait_passes_the_cancelled_error_and_leaves_nothing(clock, loop):
    token = CancellationToken(clock=clock)
    passed = []

    async def wait():
        with pytest.raises(asyncio.CancelledError):
            await token.wait_async(5)
        passed.append(True)

    task = loop.submit(wait())
    clock.settle()
    assert (waiting(token), len(clock.pending())) == (1, 1)
    task.cancel()
    clock.settle()
    assert (passed, waiting(token), clock.pending()) == ([True], 0, [])


def test_a_cancel_between_the_registration_and_the_park_is_seen(clock):
    token = CancellationToken()
    with clock.trap("parker") as trap:
        waiting = in_thread(token.wait)
        call = trap.wait()
        token.cancel()
        call.release()
    assert waiting.result(PATIENCE) is True


def test_a_disarmed_block_does_not_cancel_and_the_next_one_is_armed_again():
    token = CancellationToken()
    with token:
        token.disarm()
    assert token.cancelled is False
    with pytest.raises(ValueError, match="body"), token:
        token.disarm()
        raise ValueError("body")
    assert token.cancelled is False
    with token:
        pass
    assert token.cancelled is True


def test_a_copy_of_a_token_is_the_token_and_none_can_be_pickled():
    for token in (CancellationToken(), CancellationToken().child(timeout=60)):
        assert copy.copy(token) is token
        assert copy.deepcopy([token]) == [token]
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(token)
