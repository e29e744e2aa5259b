"""What a policy returns is checked, on each way to run it, and the error names the policy."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from backoff_ticker import AsyncTicker, Ticker, delays
from tests.helpers import SetClock
from tests.test_validation import DURATIONS, HUGE, NEGATIVE, NO_NUMBERS, NOT_FINITE, show

BAD_ANSWERS = [*NO_NUMBERS, None, timedelta, *NOT_FINITE, *NEGATIVE]


class Answering:
    """A policy that always gives the same answer."""

    def __init__(self, answer):
        self.answer = answer

    def next_backoff(self):
        return self.answer

    def reset(self):
        pass

    def __repr__(self):
        return "Answering()"


def first_of_delays(policy):
    return next(delays(policy))


def second_of_a_ticker(policy):
    ticker = Ticker(policy, clock=SetClock())
    assert ticker.receive().number == 1
    return ticker.receive()


def second_of_an_async_ticker(policy):
    ticker = AsyncTicker(policy, clock=SetClock())

    async def receive():
        assert (await ticker.receive()).number == 1
        return await ticker.receive()

    return asyncio.run(receive())


@pytest.mark.parametrize("ask", [first_of_delays, second_of_a_ticker, second_of_an_async_ticker])
@pytest.mark.parametrize("answer", BAD_ANSWERS, ids=show)
def test_a_bad_answer_is_an_error_that_names_the_policy(ask, answer):
    bad_type = answer is None or any(answer is value for value in (*NO_NUMBERS, timedelta))
    with pytest.raises(TypeError if bad_type else ValueError) as caught:
        ask(Answering(answer))
    message = str(caught.value)
    assert message.startswith("what Answering() returns must be ")
    assert ", a timedelta or STOP, not " in message
    if not (isinstance(answer, int) and abs(answer) >= HUGE):
        assert f"not {answer!r}" in message


@pytest.mark.parametrize("answer", DURATIONS, ids=show)
def test_a_good_answer_is_a_delay_on_both_faces(clock, face, answer):
    ticker = face.ticker(Answering(answer), clock=clock)
    face.receive(ticker)
    expected = answer.total_seconds() if isinstance(answer, timedelta) else float(answer)
    clock.advance(min(expected, 1e15))
    if expected <= 1e15:
        tick = face.receive(ticker)
        assert (tick.delay, type(tick.delay)) == (expected, float)
    else:
        with pytest.raises(TimeoutError):
            face.receive(ticker, 0)
