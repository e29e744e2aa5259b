"""The error at the end, its note, cause and context; what is returned instead of it."""

import dataclasses
import re
from functools import partial

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    Permanent,
    RejectedResult,
    RetryAfter,
    StopBackOff,
    configure,
)
from tests.helpers import sleep
from tests.retries.faces import AND_HEDGES, BOTH, CALLS, on_faces
from tests.retries.scripts import ONE, TEN, Recorded, Script, Takes, cancelled_token, spent_budget
from tests.retries.test_hooks import caused_by
from tests.tickers.made_policies import Scripted


def notes_of(error):
    return list(getattr(error, "__notes__", []))


def failing_in_a_handler(error):
    """Return a function that raises ``error`` while it handles another one."""

    def fail(*_):
        try:
            raise KeyError("inside")
        except KeyError:
            raise error  # noqa: B904 - the point

    return fail


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    """Whose attributes cannot be set."""

    code: int


@pytest.mark.parametrize("last", [OSError, FrozenError])
def test_the_error_raised_has_one_note_that_tells_how_it_ended(face, last):
    errors = [OSError(1), OSError(2), last(3)]
    caught = face.fails(last, Script(*errors), ONE, max_attempts=3)
    (note,) = notes_of(caught)
    assert re.match(r"gave up after 3 attempts in 2\.0 s: max_attempts is 3", note)
    assert "\n" not in note
    assert [notes_of(error) for error in errors] == [[], [], [note]]


GAVE_UP = {
    "permanent": (Permanent(OSError()), {}),
    "max_attempts": (OSError, {"max_attempts": 2}),
    "max_attempts of a rejected result": (1, {"max_attempts": 2, "until": lambda seen: seen > 1}),
    "max_elapsed_time": (OSError, {"max_elapsed_time": 5}),
    "exhausted": (OSError, {"backoff": StopBackOff()}),
    "deadline": (OSError, {"timeout": 5}),
    "budget": (OSError, {"budget": spent_budget()}),
}


@BOTH
def test_every_ending_leaves_one_note(face):
    seen = set()
    for step, options in [*GAVE_UP.values(), (OSError, {"token": cancelled_token()})]:
        caught = face.fails(Exception, Script(step), **{"backoff": TEN, **options})
        (note,) = notes_of(caught)
        assert re.match(r"gave up after \d attempts? in \d+\.0 s: \S", note)
        seen.add(note)
    assert len(seen) >= len(GAVE_UP)


@AND_HEDGES
def test_an_error_not_named_at_the_first_attempt_passes_as_it_is(face):
    error, hook = FileNotFoundError(404), Recorded()
    for on in (ConnectionError, lambda error: False, {ConnectionError: True}):
        with configure(on_give_up=hook, notify=hook):
            assert face.fails(FileNotFoundError, Script(error), on=on) is error
        assert (notes_of(error), error.__cause__, error.__context__) == ([], None, None)
    assert hook.calls == []


@BOTH
def test_the_same_error_again_has_its_note_replaced(face):
    error = OSError()
    error.add_note("gave up after lunch")
    seen = []
    for made, last in [(3, 2), (1, 0), (2, 1)]:
        assert face.fails(OSError, Script(error), ONE, max_attempts=made, timeout=60) is error
        users, ours = notes_of(error)
        assert users == "gave up after lunch"
        assert re.match(rf"gave up after {made} attempts? in {last}\b", ours)
        seen.append(ours)
    assert len(set(seen)) == 3


@AND_HEDGES
def test_a_note_is_left_off_where_the_retry_or_the_process_says_so(face):
    for own, of_process, has_note in [
        *[(None, True, True), (None, False, False), (True, False, True), (False, True, False)]
    ]:
        with configure(notes=of_process), pytest.raises(OSError) as caught:
            face.run(Script(OSError), ONE, max_attempts=2, note=own)
        assert len(notes_of(caught.value)) == has_note


@pytest.mark.parametrize(
    ("make", "why"), [(Permanent, "permanent"), (partial(RetryAfter, 1), "the policy stopped")]
)
def test_an_error_inside_a_marker_has_its_note_its_cause_and_its_place(face, make, why):
    def fail():
        try:
            raise KeyError("cause")
        except KeyError as cause:
            raise make(FrozenError(1)) from cause

    with pytest.raises(FrozenError) as caught:
        face.run(Script(fail), StopBackOff())
    assert isinstance(caught.value.__cause__, KeyError)
    assert why in caught.value.__notes__[0]
    assert any(entry.name == "fail" for entry in caught.traceback)
    caught = face.fails(OSError, Script(failing_in_a_handler(make(OSError()))), StopBackOff())
    assert isinstance(caught.__context__, KeyError)


@on_faces("call", "async call", "loop")
def test_the_last_hook_that_fails_is_blamed_and_its_error_is_not_its_own_cause(face):
    own = LookupError("same")
    for last, blamed in [(Recorded(), "on_retry"), (Recorded(own), "on_give_up")]:
        hooks = {"on_retry": Recorded(own), "on_give_up": last}
        assert face.fails(LookupError, Script(OSError), ONE, **hooks) is own
        assert isinstance(own.__cause__, OSError)
        assert notes_of(own)[0].endswith(f"{blamed} failed")


@on_faces("call", "decorator")
def test_the_errors_own_context_stays_where_a_retry_runs_in_a_handler(face):
    fail = failing_in_a_handler(OSError("last"))
    try:
        raise LookupError("outside")
    except LookupError:
        caught = face.fails(OSError, Script(fail), StopBackOff())
    assert isinstance(caught.__context__, KeyError)


def of_their_own(*_):
    raise LookupError("of their own")


async def awaited(*_):
    await sleep(0)
    raise LookupError("of their own")


@pytest.mark.parametrize("name", ["on", "notify", "on_retry", "policy", "until"])
def test_what_a_users_function_raises_ends_the_run_with_the_operations_error_as_cause(face, name):
    judges = name == "until"
    for fails in (of_their_own, awaited) if face.asynchronous else (of_their_own,):
        first, gave_up = OSError("first"), Recorded()
        script = Script(first, 7) if judges else Script(first)
        options = {"backoff": ONE, name: fails}
        if options.pop("policy", None):
            options["backoff"] = Scripted(LookupError("of their own"))
        caught = face.fails(LookupError, script, on_give_up=gave_up, match="their own", **options)
        assert (caught.__context__, caught.__cause__) == (first, first)
        assert notes_of(caught)[-1].endswith(f"{name} failed")
        assert script.count == 1 + judges
        assert [outcome.reason for _, outcome in gave_up.calls] == ["failed"]


def test_a_context_of_its_own_stays_and_leads_to_the_operations_error(face):
    fail = failing_in_a_handler(LookupError())
    caught = face.fails(LookupError, Script(OSError("first")), on=fail)
    assert caused_by(caught) == [LookupError, KeyError, OSError]


# ``fallback``


ASYNC_CALLS = on_faces("async call", "async decorator")


@CALLS
@pytest.mark.parametrize("reason", GAVE_UP)
def test_it_stands_for_the_error_whatever_the_reason(face, reason):
    """It is called after the hooks."""
    step, options = GAVE_UP[reason]
    options = {"backoff": TEN, **options}
    for value in (7, None, "", [1]):
        assert face.run(Script(step), fallback=value, **options) is value
    gave_up = Recorded()
    fallback = Recorded(lambda: len(gave_up.calls))
    assert face.run(Script(step), fallback=fallback, on_give_up=gave_up, **options) == 1
    assert fallback.last.reason == reason.partition(" ")[0]
    assert isinstance(fallback.last.last_error, (OSError, RejectedResult))
    assert face.run(Script(8), fallback=fallback, **options) == 8


@on_faces("call", "decorator", "async call", "async decorator", "hedge", "async hedge")
def test_an_error_that_on_does_not_retry_has_none_whichever_attempt_it_comes_at(face):
    fallback = Recorded(7)
    for on in (OSError, {OSError: True}, lambda error: type(error) is OSError):
        for errors in ([], [OSError], [OSError, OSError]):
            caught = face.fails(KeyError, Script(*errors, KeyError), ONE, on=on, fallback=fallback)
            notes = notes_of(caught)
            assert len(notes) == bool(errors)
            assert all(note.endswith(": on does not retry this error") for note in notes)
    face.fails(TypeError, Script(OSError, TypeError), ONE, fallback=fallback)
    assert fallback.calls == []


@CALLS
@pytest.mark.parametrize(
    ("kind", "step", "options"),
    [
        (Cancelled, OSError, {"token": cancelled_token()}),
        (KeyboardInterrupt, KeyboardInterrupt, {}),
        (LookupError, OSError, {"notify": Recorded(LookupError)}),
    ],
)
def test_a_cancel_an_interrupt_and_an_error_of_a_hook_have_none(face, kind, step, options):
    fallback = Recorded(7)
    face.fails(kind, Script(step), ONE, fallback=fallback, **options)
    assert fallback.calls == []


@CALLS
def test_a_cancel_of_another_token_has_none_at_any_attempt(face):
    for script in (Script(Cancelled("others")), Script(OSError, Cancelled("others"))):
        face.fails(Cancelled, script, ONE, max_attempts=3, fallback=7, match="others")
    options = {"on": (OSError, Cancelled), "max_attempts": 2}
    assert face.run(Script(Cancelled), ONE, fallback=7, **options) == 7


@CALLS
@pytest.mark.parametrize("awaits", [False, True])
def test_what_it_raises_passes_with_the_last_error_as_its_cause(face, awaits):
    own, last = LookupError("of the fallback"), OSError("last")

    async def fails(outcome):
        await sleep(1)
        raise own

    fallback = fails if awaits and face.asynchronous else Recorded(own)
    assert face.fails(LookupError, Script(last), max_attempts=1, fallback=fallback) is own
    assert own.__cause__ is last


@on_faces("call", "decorator", "hedge")
def test_in_a_thread_it_cannot_await(face):
    async def awaited(outcome):
        return outcome.attempts

    def fallback(outcome):
        return awaited(outcome)

    script, told = Script(OSError("last")), "fallback returned a coroutine"
    error = face.fails(TypeError, script, max_attempts=1, fallback=fallback, match=told)
    assert repr(error.__cause__) == "OSError('last')"


@CALLS
def test_it_may_raise_the_last_error_itself(face):
    last = OSError("last")

    def fallback(outcome):
        raise outcome.last_error or AssertionError

    for options in ({"timeout": 5}, {"max_attempts": 1}):
        caught = face.fails(OSError, Script(last), TEN, fallback=fallback, match="last", **options)
        assert caught is last
        assert (last.__cause__, last.__context__) == (None, None)


@ASYNC_CALLS
def test_a_cut_by_the_token_has_none_and_a_timeout_has_one(face):
    async def awaited(outcome):
        await sleep(1)
        return outcome.attempts + 6

    for fallback in (7, awaited):
        assert face.run(Script(Takes(50, 1)), timeout=5, fallback=fallback) == 7
    face.fails(Cancelled, Script(Takes(50, 1)), token=CancellationToken(timeout=5), fallback=7)
