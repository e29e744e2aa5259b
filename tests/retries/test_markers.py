"""``Permanent`` and ``RetryAfter``: errors that say themselves what comes next."""

from datetime import timedelta

import pytest

from backoff_ticker import Permanent, RetryAfter, retry_call
from tests.retries.faces import BOTH, FOUR, check
from tests.retries.scripts import ONE, ZERO, Recorded, Script
from tests.tickers.made_policies import Counting


@FOUR
def test_the_error_inside_permanent_is_raised_as_it_was(face):
    cause = KeyError("cause")
    inner = OSError("gone")
    inner.__cause__ = cause
    gave_up = Recorded()
    script = Script(ValueError, Permanent(inner))
    assert face.fails(OSError, script, ONE, on_give_up=gave_up) is inner
    assert inner.__cause__ is cause
    assert inner.__context__ is None
    assert gave_up.last.reason == "permanent"
    assert gave_up.last.last_error is inner


@BOTH
def test_permanent_is_looked_for_along_causes_only(face):
    while_handling, in_the_context_of_a_cause = OSError(), ValueError()
    while_handling.__context__ = Permanent(KeyError("inner"))
    in_the_context_of_a_cause.__cause__ = while_handling
    script = Script(in_the_context_of_a_cause, while_handling, 7)
    assert face.run(script, ONE) == 7
    assert script.times == [0, 1, 2]


def test_permanent_ends_the_run_it_is_raised_in_and_no_other(clock):
    script = Script(Permanent(OSError()))
    with pytest.raises(OSError):
        retry_call(lambda: retry_call(script, ZERO), ONE, max_attempts=3)
    assert script.times == [0, 1, 2]


def wrapping():
    raise OSError from RetryAfter(50)


CASES = {
    "one wait": (
        ([OSError, RetryAfter(50, OSError()), OSError, 7], Counting(), {}),
        ([0, 1, 51, 54], 7),
    ),
    "longer than the default policy goes on": (([RetryAfter(3600), 7], None, {}), ([0, 3600], 7)),
    "no bound of the policy": (([OSError, 7], 90_000, {"max_retry_after": 60}), ([0, 90_000], 7)),
    "only the error itself": (([wrapping, KeyError, 7], 2, {"on": OSError}), ([0, 2], KeyError)),
    **{
        f"any on, {number}": (([RetryAfter(7, ValueError()), 7], 1, {"on": on}), ([0, 7], 7))
        for number, on in enumerate(
            [KeyError, (KeyError, OSError), {ValueError: False}, lambda _: False]
        )
    },
}


@BOTH
@pytest.mark.parametrize("case", CASES)
def test_retry_after_says_how_long_to_wait(face, case):
    check(face, CASES[case])


@BOTH
@pytest.mark.parametrize("inner", [OSError("busy"), None])
def test_all_hear_of_the_error_inside_retry_after(face, inner):
    told, marker = Recorded(), RetryAfter(50, inner)
    error, script = inner or marker, Script(marker)
    hooks = dict.fromkeys(("notify", "on_retry", "on_give_up"), told)
    assert face.fails(type(error), script, ONE, max_attempts=2, **hooks) is error
    notified, (_, retried), (_, gave_up) = told.calls
    assert notified == (0, error, 50.0)
    assert (retried.last_error, retried.delay) == (error, 50)
    assert (gave_up.last_error, gave_up.waited) == (error, 50)
    assert (error.__cause__, error.__context__) == (None, None)


@BOTH
def test_the_wait_that_an_error_or_on_asks_for_is_bounded(face):
    for asked, options, wait in [
        (21600, {}, 21600),
        (21600.5, {}, 21600),
        (10**9, {}, 21600),
        (timedelta(days=1), {}, 21600),
        (timedelta(seconds=2.5), {}, 2.5),
        *[(0, {}, 0), (0.0, {}, 0), (1, {}, 1)],
        (61, {"max_retry_after": 60}, 60),
        (59, {"max_retry_after": 60}, 59),
        (59, {"max_retry_after": 0}, 0),
        (61, {"max_retry_after": timedelta(minutes=1)}, 60),
        (10**7, {"max_retry_after": None}, 10**7),
    ]:
        for step, on in [(RetryAfter(asked), None), (OSError, lambda _, asked=asked: asked)]:
            script, notify = Script(step, 7), Recorded()
            face.run(script, ONE, on=on, notify=notify, **options)
            assert script.times[1] - script.times[0] == wait
            assert notify.calls[0][2] == wait


def test_a_bad_marker_is_named():
    negative, nan, inf = timedelta(seconds=-1), float("nan"), float("inf")
    bad = [
        *(((value,), TypeError, "seconds") for value in ("5", True, None)),
        *(((value,), ValueError, "seconds") for value in (-1, nan, inf, negative)),
        *(((1, value), TypeError, "error") for value in ("busy", ValueError, KeyboardInterrupt())),
        *(((1, value), TypeError, "neither") for value in (Permanent(OSError()), RetryAfter(1))),
    ]
    for arguments, kind, name in bad:
        with pytest.raises(kind, match=name):
            RetryAfter(*arguments)
    for nothing in (None, "gone", 7, ValueError):  # in Go, the first of them is a success
        with pytest.raises(TypeError, match="error"):
            Permanent(nothing)
