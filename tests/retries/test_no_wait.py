"""``no_wait()``: retries in a test without their waits, with or without a virtual clock."""

import asyncio
import time

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    RetryAfter,
    current_attempt,
    retry_call,
    with_max_elapsed_time,
)
from backoff_ticker.testing import no_wait
from tests.helpers import PATIENCE
from tests.retries.faces import AND_HEDGES, BOTH, FACES, FOUR, Face, in_loop
from tests.retries.scripts import FIVE, TEN, ZERO, Recorded, Script, now

HOUR = ConstantBackOff(3600)


@pytest.mark.parametrize("name", list(FACES))
def test_on_the_systems_clock_hours_pass_at_once_and_count(name):
    told, notify, began = Recorded(), Recorded(), time.monotonic()
    script = Script(OSError, RetryAfter(1800), OSError, 7)
    with no_wait():
        assert FACES[name].run(script, HOUR, on_success=told, notify=notify) == 7
    assert [delay for *_, delay in notify.calls] == [3600, 1800, 3600]
    assert told.last.waited == pytest.approx(9000, abs=PATIENCE)
    assert 0 <= told.last.elapsed - 9000 < PATIENCE
    assert time.monotonic() - began < PATIENCE


@FOUR
def test_the_virtual_clock_stands_still(face):
    told = Recorded()
    script = Script(OSError, OSError, 7)
    with no_wait():
        assert face.run(script, HOUR, on_success=told) == 7
    assert script.times == [0, 0, 0]
    assert told.last[1:4] == (3, 7200, 7200)
    script = Script(OSError, 7)
    face.run(script, HOUR)
    assert script.times == [0, 3600]


@BOTH
def test_limits_of_time_end_a_run_as_they_would(face):
    four = ConstantBackOff(4)
    limited = with_max_elapsed_time(four, 10)
    for kind, options in [(DeadlineExceeded, {"timeout": 10}), (OSError, {"backoff": limited})]:
        script = Script(OSError)
        with no_wait():
            face.fails(kind, script, **{"backoff": four, **options})
        assert script.count == 3
    assert now() == 0


@FOUR
def test_a_skipped_wait_goes_no_further_than_the_deadline_of_a_token(face):
    script, gave_up = Script(OSError), Recorded()
    with no_wait(), pytest.raises(DeadlineExceeded):
        token = CancellationToken(timeout=7)
        face.run(script, FIVE, token=token, on_give_up=gave_up)
    assert script.count == 2
    assert (gave_up.last.waited, gave_up.last.elapsed) == (7, 7)


@BOTH
def test_only_runs_begun_in_the_block_are_concerned(face):
    script = Script(OSError, OSError, OSError, 7)
    inside = no_wait()

    def notify(error, delay):
        if script.count == 2:
            inside.__enter__()
        if script.count == 3:
            inside.__exit__(None, None, None)

    assert face.run(script, TEN, notify=notify) == 7
    assert script.times == [0, 10, 20, 30]


def test_what_is_no_retry_waits(clock):
    with no_wait():
        assert not CancellationToken().wait(5)
        in_loop(asyncio.sleep(5))
    assert now() == 10


@BOTH
def test_no_wait_decorates_functions_of_both_kinds(face):
    decorated = Face("decorated", no_wait()(face.main), in_loop=face.in_loop)
    assert decorated.run(Script(OSError, 7), FIVE) == 7
    assert now() == 0


def test_no_wait_decorates_no_generators():
    def generator():
        yield

    for wrong in (generator, Channel, 3, None):
        with pytest.raises(TypeError, match=r"no_wait\(\) decorates"):
            no_wait()(wrong)


# max_attempts


@AND_HEDGES
def test_of_its_own_limit_and_that_of_the_block_the_smaller_counts(face):
    for own, block, made in [(None, 2, 2), (3, 2, 2), (2, 3, 2), (3, 1, 1), (3, None, 3)]:
        for policy in (HOUR, ZERO):
            script = Script(OSError)
            with no_wait(max_attempts=block), pytest.raises(OSError) as caught:
                face.run(script, policy, max_attempts=own)
            assert script.count == made
            assert caught.value.__notes__[0].endswith(f": max_attempts is {made}")
    assert now() == 0


@BOTH
def test_of_blocks_inside_each_other_the_smallest_limit_counts(face):
    for outer, inner in [(2, 3), (3, 2), (2, None), (None, 2)]:
        script = Script(OSError)
        with no_wait(outer), no_wait(inner), pytest.raises(OSError):
            face.run(script, HOUR)
        assert script.count == 2


@FOUR
def test_a_retry_inside_takes_the_token_of_an_attempt_whose_time_is_limited(face):
    def inside():
        token = current_attempt().token
        return retry_call(Script(OSError, 7), ConstantBackOff(2), token=token)

    with no_wait():
        assert face.run(Script(OSError, inside), FIVE, timeout=20) == 7


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3"])
def test_a_limit_is_a_whole_number(value):
    with pytest.raises((TypeError, ValueError), match="max_attempts must be an int >= 1 or None"):
        no_wait(value)
    with pytest.raises(TypeError, match=r"max_attempts must be .*by @no_wait\(\)"):
        no_wait(print)


def test_an_open_circuit_is_not_waited_for(face):
    for delay in (1, 100):
        breaker, script = CircuitBreaker(ConstantBackOff(60), failures=2), Script(OSError)
        with no_wait(), pytest.raises(CircuitOpen) as caught:
            face.run(script, ConstantBackOff(delay), breaker=breaker)
        assert (script.count, caught.value.breaker) == (2, breaker)
        (note,) = caught.value.__notes__
        assert note.endswith(": the circuit is open, and no_wait() does not skip its time")
