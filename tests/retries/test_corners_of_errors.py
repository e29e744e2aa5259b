"""Corners of the error that is raised: causes, contexts, places, notes."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from backoff_ticker import (
    ConstantBackOff,
    Permanent,
    RetryAfter,
    StopBackOff,
    ZeroBackOff,
    retry_call,
)
from tests.retries.faces import BOTH, on_faces
from tests.retries.scripts import Script


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    code: int


@BOTH
def test_a_frozen_error_has_its_note_its_cause_and_its_place(face):
    def fail():
        try:
            raise KeyError("cause")
        except KeyError as cause:
            raise Permanent(Frozen(1)) from cause

    with pytest.raises(Frozen) as caught:
        face.run(Script(fail))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "permanent" in caught.value.__notes__[0]
    assert any(entry.name == "fail" for entry in caught.traceback)


@BOTH
def test_an_error_inside_a_retry_after_keeps_its_cause_and_its_place(face):
    def fail():
        try:
            raise KeyError("header")
        except KeyError as cause:
            raise RetryAfter(1, OSError("busy")) from cause

    with pytest.raises(OSError, match="busy") as caught:
        face.run(Script(fail), StopBackOff())
    assert isinstance(caught.value.__cause__, KeyError)
    assert any(entry.name == "fail" for entry in caught.traceback)


@BOTH
def test_an_error_inside_a_permanent_keeps_its_context(face):
    def fail():
        try:
            raise KeyError("context")
        except KeyError:
            raise Permanent(OSError())  # noqa: B904 - the point

    with pytest.raises(OSError) as caught:
        face.run(Script(fail))
    assert isinstance(caught.value.__context__, KeyError)


@BOTH
def test_the_error_of_a_hook_that_has_a_cause_leads_to_the_operations_error_too(face):
    def hook(_):
        raise LookupError("hook") from KeyError("its cause")

    with pytest.raises(LookupError) as caught:
        face.run(Script(OSError("work")), ConstantBackOff(1), on_retry=hook)
    assert isinstance(caught.value.__cause__, KeyError)
    assert str(caught.value.__cause__.__context__) == "work"


@BOTH
def test_an_error_that_two_hooks_raise_is_not_its_own_cause(face):
    own = LookupError("same")

    def hook(_):
        raise own

    with pytest.raises(LookupError) as caught:
        face.run(Script(OSError("work")), ConstantBackOff(1), on_retry=hook, on_give_up=hook)
    assert caught.value is own
    assert isinstance(own.__cause__, OSError)


@on_faces("call", "async call", "loop")
def test_the_hook_that_failed_first_is_blamed(face):
    def hook(_):
        raise LookupError

    with pytest.raises(LookupError) as caught:
        face.run(Script(OSError), ConstantBackOff(1), on_retry=hook, on_give_up=lambda _: None)
    assert caught.value.__notes__[0].endswith("on_retry failed")


def test_a_users_note_that_begins_alike_stays(clock):
    error = OSError()
    error.add_note("gave up after lunch")
    with pytest.raises(OSError):
        retry_call(Script(error), StopBackOff())
    assert error.__notes__[0] == "gave up after lunch"
    assert len(error.__notes__) == 2


def test_markers_are_not_put_inside_each_other():
    for wrong in (Permanent(OSError()), RetryAfter(1)):
        with pytest.raises(TypeError, match="neither Permanent nor RetryAfter"):
            RetryAfter(1, wrong)


def test_errors_survive_pickling():
    for error in (Permanent(OSError(1)), RetryAfter(2, OSError(1))):
        twin = pickle.loads(pickle.dumps(error))
        assert (type(twin), str(twin)) == (type(error), str(error))


@on_faces("call", "decorator")
def test_the_errors_own_context_stays_where_a_retry_runs_in_a_handler(face):
    def fail():
        try:
            raise KeyError("inside")
        except KeyError:
            raise OSError("last")  # noqa: B904 - the point

    try:
        raise LookupError("outside")
    except LookupError:
        with pytest.raises(OSError) as caught:
            face.run(Script(fail), StopBackOff())
    assert isinstance(caught.value.__context__, KeyError)


@on_faces("loop", "async loop", "async loop, async with")
def test_a_frozen_error_in_a_loop_is_raised_as_it_is(face):
    for marked in (Permanent(Frozen(1)), RetryAfter(0, Frozen(1))):
        with pytest.raises(Frozen):
            face.run(Script(marked), ZeroBackOff(), max_attempts=1)


def test_a_note_that_cannot_be_read_changes_no_error(clock):
    class Closed(Exception):
        @property
        def __notes__(self):
            raise LookupError

    with pytest.raises(Closed):
        retry_call(Script(Closed), StopBackOff())
