"""What follows the work of a key: failures, delays, who is told, and jobs that are dropped."""

import asyncio
import logging
import sys
from datetime import timedelta

import pytest

from backoff_ticker import (
    STOP,
    Cancelled,
    ConstantBackOff,
    DeadlineExceeded,
    ExponentialBackOff,
    Permanent,
    RetryAfter,
    Schedule,
    with_max_retries,
)
from tests.helpers import collect_garbage
from tests.schedules.workers import Told, fail, schedule_of, take_all

HOUR = 3600.0


@pytest.fixture
def told():
    return Told()


def due_in(clock, schedule):
    """Return in how many seconds the key "a" is due; None: it has left."""
    entry = schedule._keys.entries["a"] if "a" in schedule else None
    return entry and round(entry.due - clock.monotonic(), 6)


# The end of a block


def test_after_a_success_a_key_without_a_grid_leaves_and_its_failures_begin_anew(workers, told):
    schedule = schedule_of("a", backoff=ConstantBackOff(0), **told.hooks)
    for _ in "ab":
        workers.work_once(schedule, lambda job: job.fail())
    job = workers.work_once(schedule)
    assert (repr(schedule), schedule.failing) == ("<Schedule open, 0 keys>", 0)
    assert (job.failures, len(schedule), schedule.add("a")) == (2, 0, True)
    assert workers.work_once(schedule).failures == 0
    assert told.ends == []


@pytest.mark.parametrize(
    ("on", "error", "verdict"),
    [
        (None, OSError("e"), "swallowed"),
        *((None, kind("e"), "raised") for kind in (TypeError, AssertionError, NameError)),
        (OSError, TimeoutError("e"), "swallowed"),
        (OSError, ValueError("e"), "raised"),
        ((OSError, KeyError), KeyError("e"), "swallowed"),
        (OSError | KeyError, KeyError("e"), "swallowed"),
        ({OSError: True, TimeoutError: False}, TimeoutError("e"), "raised"),
        ({OSError: True, TimeoutError: False}, ConnectionError("e"), "swallowed"),
        (lambda error: str(error) == "e", ValueError("e"), "swallowed"),
        (lambda error: str(error) == "e", ValueError("f"), "raised"),
        *((on, Cancelled(), "neither") for on in (None, Exception, OSError, lambda _: False)),
        *((on, DeadlineExceeded(), "neither") for on in (None, Exception, TimeoutError)),
        *((on, DeadlineExceeded(), "swallowed") for on in (Cancelled, DeadlineExceeded)),
        ({Cancelled: True}, Cancelled(), "swallowed"),
        *((None, kind(), "neither") for kind in (KeyboardInterrupt, SystemExit, GeneratorExit)),
        (None, asyncio.CancelledError(), "neither"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_an_error_that_leaves_the_block(clock, told, on, error, verdict):
    """Named: a failure that is told and swallowed; another: one that is raised; a cancel: none."""
    schedule = schedule_of("a", every=10, backoff=ConstantBackOff(3), on=on, **told.hooks)
    clock.advance(1)
    job, raised = schedule.receive_nowait(), None
    try:
        with job:
            clock.advance(1)
            job.succeed()  # an error overrules it
            raise error
    except BaseException as caught:
        raised = caught
    assert raised is (None if verdict == "swallowed" else error)
    assert told.failures == ([("a", error, 3.0)] if verdict == "swallowed" else [])
    assert (schedule.in_flight, schedule.failing) == (0, int(verdict != "neither"))
    clock.advance(0 if verdict == "neither" else 3)
    job = schedule.receive_nowait()
    assert (job.failures, job.missed) == (int(verdict != "neither"), 0)
    job.leave()


@pytest.mark.parametrize("in_block", [True, False])
@pytest.mark.parametrize(
    ("say", "due", "failures"),
    [
        (lambda job: job.succeed(), 6, 0),  # 1012, the next time of the grid
        (lambda job: job.fail(), 3, 2),
        (lambda job: job.fail(OSError("e")), 3, 2),
        (lambda job: job.retry_in(0), 0, 1),
        (lambda job: job.retry_in(timedelta(seconds=25)), 25, 1),
        (lambda job: job.leave(), None, 0),
    ],
)
def test_a_job_is_told_how_its_work_ended(clock, told, in_block, say, due, failures):
    """In a block the last word counts at its end, without one the first at once; and only once."""
    schedule = Schedule(every=10, backoff=ConstantBackOff(3), **told.hooks)
    schedule.add("a", 2)
    clock.advance(2)
    schedule.receive_nowait().fail()
    clock.advance(3)
    job = schedule.receive_nowait()
    if in_block:
        with job:
            job.leave()
            say(job)
            assert (schedule.in_flight, repr(job)) == (1, "<Job due 1005.0, 'a'>")
            clock.advance(1)
    else:
        clock.advance(1)
        say(job)
    for act in (job.succeed, job.leave, job.fail, lambda: job.retry_in(9), job.__enter__().fail):
        act()
        with job:
            pass
        assert due_in(clock, schedule) == due
        assert schedule.failing == (failures > 0)
    assert repr(job) == "<Job ended, 'a'>"
    assert len(told.failures) == max(1, failures)


# What follows a failure


def fail_once(schedule, error=None):
    """Take the key that is due, and fail; with an error, in its block."""
    job = schedule.receive_nowait()
    if error is None:
        job.fail()
    else:
        with job:
            raise error
    return job


@pytest.mark.parametrize("every", [None, 100])
def test_a_key_that_fails_rests_as_its_policy_says_from_the_end_of_its_work(clock, told, every):
    """After so many failures in a row; each key counts for itself, anew after a success."""
    schedule = schedule_of("a", every=every, backoff=ExponentialBackOff(1, 0, 2), **told.hooks)
    schedule.add("b", HOUR)
    for rest in (1, 2, 4):
        with schedule.receive_nowait() as job:
            clock.advance(5)
            job.fail()
        clock.advance(rest - 0.001)
        assert take_all(schedule) == []
        clock.advance(0.001)
    assert [delay for *_, delay in told.failures] == [1, 2, 4]
    assert take_all(schedule) == ["a"]
    schedule.add("a")
    assert fail_once(schedule).failures == 0
    assert told.failures[-1] == ("a", None, 1)


def test_without_a_policy_the_grid_counts_or_the_default_one(clock, told):
    schedule = schedule_of("a", every=10, **told.hooks)
    clock.advance(4)
    fail_once(schedule)
    fail_once(schedule_of("b", **told.hooks))
    fail_once(schedule_of("c", every=10, **told.hooks), RetryAfter(7))
    of_default = pytest.approx(0.5, abs=0.25)
    assert [delay for *_, delay in told.failures] == [6, of_default, 7]


@pytest.mark.parametrize(
    ("error", "delays"),
    [
        (ConnectionError(), [7, 7, 7, None]),
        (TimeoutError(), [2, 4, 8, 16]),
        (OSError(), [3, 3, 3, None]),
        (RetryAfter(40), [40, 40, 40, None]),
        (RetryAfter(7 * HOUR, ValueError()), [6 * HOUR]),
        (Permanent(OSError()), [None]),
        (BlockingIOError(), [5, None]),
    ],
    ids=repr,
)
def test_an_error_may_have_a_delay_or_a_policy_of_its_own(clock, told, error, delays):
    on = {
        OSError: True,
        ConnectionError: 7,
        TimeoutError: ExponentialBackOff(2, 0, 2),
        BlockingIOError: with_max_retries(ConstantBackOff(5), 1),
    }
    backoff = with_max_retries(ConstantBackOff(3), 3)  # which may end the delays of errors, too
    schedule = schedule_of("a", backoff=backoff, on=on, **told.hooks)
    for delay in delays:
        fail_once(schedule, error)
        assert due_in(clock, schedule) == delay
        clock.advance(delay or 0)
    inner = error.error or error if isinstance(error, (RetryAfter, Permanent)) else error
    assert told.failures == [("a", inner, delay) for delay in delays if delay is not None]
    assert told.ends == [("a", inner)] * delays.count(None)


@pytest.mark.parametrize("on", [OSError, KeyError])
@pytest.mark.parametrize("asked_for", [False, True])
def test_a_key_that_is_given_up_leaves_and_comes_anew_if_it_was_asked_for(told, on, asked_for):
    error = OSError("e")
    schedule = Schedule(on=on, backoff=with_max_retries(ConstantBackOff(0), 1), **told.hooks)
    schedule.add("a")
    fail_once(schedule)
    try:
        with schedule.receive_nowait() as job:
            if asked_for:
                assert not schedule.add("a")
            raise error
    except OSError:
        assert on is KeyError
    assert told.ends == [("a", error)]
    assert (len(schedule), schedule.failing) == (asked_for, 0)
    if asked_for:
        assert fail_once(schedule).failures == 0
    assert job.failures == 1


# Policies with feedback


class Watched:
    """1, 2, ... s after failures in a row, as long as ``rest`` after a success; it is watched."""

    made = ()

    def __init__(self, rest=STOP):
        self.rest = rest
        self.made = []

    def __copy__(self):
        copy = Watched(self.rest)
        self.made.append(copy)
        return copy

    def reset(self):
        self.told, self.row = [], 0

    def next_backoff(self):
        return self.failure()

    def failure(self):
        self.told.append("failure")
        self.row += 1
        return float(self.row)

    def success(self):
        self.told.append("success")
        self.row = 0
        return self.rest


@pytest.mark.parametrize(
    ("every", "rest", "script", "dues"),
    [
        (None, 2.5, "ssffs", [2.5, 2.5, 1, 2, 2.5]),
        (None, STOP, "ffs", [1, 2, None]),
        *((10, rest, "ssffs", [9, 9, 1, 2, 4]) for rest in (2.5, STOP)),
    ],
)
def test_each_key_has_a_copy_of_a_feedback_policy_that_is_told_of_each_outcome(
    clock, every, rest, script, dues
):
    """After a success its answer counts where there is no grid, from the end of the work."""
    policy, found = Watched(rest), []
    schedule = Schedule(every=every, backoff=policy, notify=lambda *_: None)
    policy.made.clear()  # that was a copy that was tried
    schedule.add("a")
    schedule.add("b", HOUR)
    for letter in script:
        job = schedule.receive_nowait()
        clock.advance(1)
        job.succeed() if letter == "s" else job.fail()
        found.append(due_in(clock, schedule))
        clock.advance(found[-1] or 0)
    assert found == dues
    names = {"s": "success", "f": "failure"}
    assert [copy.told for copy in policy.made] == [[names[letter] for letter in script]]


def test_a_feedback_policy_hears_of_all_but_the_errors_of_another(clock, told):
    policy, on = Watched(4.0), {OSError: Watched(), KeyError: 7}
    schedule = schedule_of("a", backoff=policy, on=on, **told.hooks)
    for error, due in ((OSError(), 1), (None, 4), (KeyError(), 7)):
        fail_once(schedule, error) if error else schedule.receive_nowait().succeed()
        assert due_in(clock, schedule) == due
        clock.advance(due)
    assert policy.made[-1].told == ["success", "failure"]


# Who is told, and what fails


def test_without_hooks_the_log_warns_of_the_first_failure_in_a_row_and_of_the_end(caplog, clock):
    """In an outage a fleet of devices does not fill the log of warnings."""
    caplog.set_level(logging.DEBUG)
    schedule = schedule_of("a", backoff=ConstantBackOff(3))
    for error in (OSError("e"), OSError("f"), Permanent(OSError("g"))):
        fail_once(schedule, error)
        clock.advance(3)
    name = "backoff_ticker.schedule"
    assert caplog.record_tuples == [
        (name, logging.WARNING, "'a' failed, 1 in a row, and rests for 3 s: OSError('e')"),
        (name, logging.DEBUG, "'a' failed, 2 in a row, and rests for 3 s: OSError('f')"),
        (name, logging.WARNING, "'a' failed, 3 in a row, and leaves the schedule: OSError('g')"),
    ]


@pytest.mark.parametrize("hook", ["notify", "on_give_up"])
def test_a_hook_that_raises_is_raised_once_the_key_is_back(workers, hook):
    def broken(*_):
        assert schedule.in_flight == 0
        raise ZeroDivisionError

    backoff = with_max_retries(ConstantBackOff(0), int(hook == "notify"))
    schedule = schedule_of("a", backoff=backoff, **{hook: broken})
    with pytest.raises(ZeroDivisionError) as raised:
        workers.work_once(schedule, fail(error := OSError()))
    assert raised.value.__context__ is error
    assert take_all(schedule) == (["a"] if hook == "notify" else [])


class Broken(Watched):
    """Raises, or returns what is no delay."""

    def failure(self):
        raise ZeroDivisionError

    success = failure
    __copy__ = lambda self: self


class WithoutFeedback:
    def __init__(self, answer):
        self.next_backoff = answer

    def reset(self): ...


@pytest.mark.parametrize("every", [10, None])
@pytest.mark.parametrize(
    ("options", "succeeds", "kind"),
    [
        ({"backoff": WithoutFeedback(lambda: 1 / 0)}, False, ZeroDivisionError),
        ({"backoff": WithoutFeedback(lambda: -1)}, False, ValueError),
        ({"backoff": Broken()}, False, ZeroDivisionError),
        ({"backoff": Broken()}, True, ZeroDivisionError),
        ({"on": lambda _: 1 / 0}, False, ZeroDivisionError),
        ({"on": lambda _: -1}, False, ValueError),
    ],
    ids=lambda value: "" if isinstance(value, dict) else None,
)
def test_a_policy_or_rule_that_fails_is_raised_and_the_key_is_not_due_at_once(
    clock, every, options, succeeds, kind
):
    """But at the next time of its grid, else in a minute: no worker runs hot."""
    schedule = schedule_of("a", every=every, notify=lambda *_: None, **options)
    with pytest.raises(kind), schedule.receive_nowait():
        if not succeeds:
            raise OSError
    assert due_in(clock, schedule) == (every or 60)
    assert schedule.in_flight == 0


@pytest.mark.parametrize("answer", ["x", None, STOP])
def test_what_on_must_return_is_named(clock, answer):
    schedule = schedule_of("a", on=lambda _: answer)
    expected = f"what on returns must be a bool, seconds >= 0 or a timedelta, not {answer!r}"
    with pytest.raises(TypeError, match=expected), schedule.receive_nowait():
        raise OSError


# Jobs that are dropped


def drop(schedule):
    job = schedule.receive_nowait()
    with pytest.warns(ResourceWarning, match=r"'a'> was dropped before its end: use `with job:`"):
        del job
        collect_garbage()


def test_a_job_that_is_dropped_is_a_failure_that_the_next_worker_ends(workers, clock, told):
    """In a finalizer nothing of the user's runs; who waits for a key is woken."""
    schedule = schedule_of("a", backoff=ConstantBackOff(3), **told.hooks)
    waiting = workers.receive(schedule)
    clock.settle()
    with waiting.result() as job:
        job.retry_in(0)
    drop(schedule)
    assert (told.failures, schedule.in_flight) == ([], 0)
    waiting = workers.receive(schedule)
    clock.settle()
    assert told.failures == [("a", None, 3)]
    clock.advance(3)
    with waiting.result() as job:
        assert job.failures == 1


@pytest.mark.parametrize("is_made", [False, True])
def test_a_job_that_has_ended_is_dropped_in_silence(clock, told, is_made):
    """No code runs in its finalizer: Python would swallow a Ctrl-C there."""
    schedule = schedule_of("a", every=60, clock=clock, **told.hooks)
    job = schedule.receive_nowait()
    schedule.add("b", 30)  # who takes it, makes what is told of "a"
    job.succeed()
    if is_made:
        assert schedule.in_flight == 0
    assert bool(schedule._told) is not is_made
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code) if event == "call" else None)
    try:
        del job
    finally:
        sys.setprofile(None)
    assert called == []
    assert (schedule.in_flight, told.failures) == (0, [])


def test_a_job_that_is_dropped_once_its_end_was_told_is_no_failure(told):
    """An interrupt may come between the two."""
    schedule = schedule_of("a", every=60, **told.hooks)
    job = schedule.receive_nowait()
    schedule._told.append(job._hold)
    with pytest.warns(ResourceWarning, match="'a'"):
        del job
    assert take_all(schedule) == ["a"]
    assert (schedule.in_flight, told.failures) == (0, [])
