"""When keys fall due, who gets them, and how it ends: in threads and in event loops."""

import math
from datetime import timedelta

import pytest

from backoff_ticker import (
    CLOSED,
    CancellationToken,
    Channel,
    ConstantBackOff,
    Schedule,
    ScheduleClosed,
    WouldBlock,
    select,
    with_token,
)
from tests.channels.ends import error, still_waits, value
from tests.helpers import Flag, LoopThread, collect_garbage, in_thread
from tests.schedules.workers import schedule_of, take_all
from tests.stress.tools import run_silently
from tests.tickers.test_forced_races import Disturbing


def nothing_is_due(schedule):
    with pytest.raises(WouldBlock, match="no key is due"):
        schedule.receive_nowait()


# Adding and removing


@pytest.mark.parametrize("delay", [0, 2.5, timedelta(seconds=3)])
def test_a_key_comes_after_its_delay_and_tells_when_it_was_due(workers, clock, delay):
    schedule = Schedule()
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    assert schedule.add("a", delay)
    waiting = workers.receive(schedule)
    if seconds:
        still_waits(clock, waiting)
        clock.advance(seconds)
    job = value(waiting)
    assert (job.key, job.due) == ("a", 1000 + seconds)
    assert (job.lateness, job.missed, job.failures) == (0, 0, 0)


@pytest.mark.parametrize(("first", "second", "due"), [(5, 2, 2), (2, 5, 2), (5, 0, 0), (3, 3, 3)])
def test_a_key_that_waits_falls_due_at_the_earlier_of_two_times_and_once(
    workers, clock, first, second, due
):
    schedule = Schedule()
    assert [schedule.add("a", first), schedule.add("a", second)] == [True, False]
    assert len(schedule) == 1
    assert workers.keys_until(schedule, 20) == [("a", due)]


def test_an_earlier_key_wakes_the_worker_that_waits_for_a_later_one(workers, clock):
    schedule = Schedule()
    schedule.add("late", 60)
    waiting = workers.receive(schedule)
    still_waits(clock, waiting)
    schedule.add("early", 1)
    clock.advance(1)
    assert value(waiting).key == "early"


def test_keys_that_are_due_at_once_come_in_the_order_in_which_they_were_added(workers):
    schedule = Schedule()
    for key in "cab":
        schedule.add(key)
    assert [key for key, _ in workers.keys_until(schedule, 0)] == ["c", "a", "b"]


@pytest.mark.parametrize("every", [None, 100])
@pytest.mark.parametrize("end", ["succeed", "fail", "retry_in"])
@pytest.mark.parametrize(("delays", "again"), [([0], 5), ([8], 8), ([9, 7], 7)])
def test_a_key_added_while_a_worker_has_it_comes_once_more_and_wakes_who_waits(
    workers, clock, delays, again, end, every
):
    """From now at the earliest: a time that passes meanwhile makes it due as the work ends."""
    schedule = schedule_of("a", every=every, backoff=ConstantBackOff(50))
    schedule.add("other", 40)
    job = workers.take(schedule)
    assert [schedule.add("a", delay) for delay in delays] == [False] * len(delays)
    waiting = workers.receive(schedule)
    clock.advance(5)
    still_waits(clock, waiting)
    getattr(job, end)(*[50] * (end == "retry_in"))
    clock.advance(again - 5)
    got = value(waiting)
    assert (got.key, got.due, got.failures) == ("a", 1000 + again, int(end == "fail"))
    got.succeed()
    assert take_all(schedule) == []
    assert ("a" in schedule) is (every is not None)


@pytest.mark.parametrize(("every", "over", "shares"), [(8, None, 2), (8, 4, 1), (None, None, 0)])
def test_add_all_spreads_keys_evenly_and_leaves_those_there_at_their_earlier_time(
    workers, clock, every, over, shares
):
    schedule = Schedule(every=every, token=CancellationToken())
    schedule.add("d", 0.5)
    schedule.add_all(iter("abcd"), over)
    expected = [("d", min(0.5, 3 * shares)), *((k, n * shares) for n, k in enumerate("abc"))]
    assert sorted(workers.keys_until(schedule, 3.9 if shares == 1 else 7)) == sorted(expected)


def test_each_key_has_an_interval_of_its_own_and_is_spread_over_it(workers, clock):
    asked = []
    schedule = Schedule(every=lambda key: asked.append(key) or timedelta(seconds=key))
    schedule.add_all([4, 10])
    assert asked == [4, 10]
    times = [(4, 0), (4, 4), (10, 5), (4, 8), (4, 12), (10, 15)]
    assert workers.keys_until(schedule, 15.5) == times
    assert asked == [4, 10]


def test_a_removed_key_does_not_come_and_may_come_anew_later(workers, clock):
    schedule = Schedule()
    schedule.add("a", 1)
    assert [schedule.remove("a"), schedule.remove("a"), "a" in schedule] == [True, False, False]
    assert schedule.add("a", 9)
    assert workers.keys_until(schedule, 20) == [("a", 9)]


@pytest.mark.parametrize("again", [None, 0, 30])
@pytest.mark.parametrize("end", ["succeed", "fail", "leave", "retry_in"])
def test_a_key_removed_while_a_worker_has_it_does_not_come_unless_it_is_added_anew(
    workers, clock, end, again
):
    """Then its failures begin anew, and so does its grid; never do two workers have it."""
    schedule = schedule_of("a", every=100, backoff=ConstantBackOff(20))
    workers.work_once(schedule, lambda job: job.fail())
    clock.advance(20)
    job = workers.take(schedule)
    assert (schedule.remove("a"), "a" in schedule, schedule.failing) == (True, False, 0)
    if again is not None:
        assert schedule.add("a", again)
        assert "a" in schedule
    clock.advance(7)
    nothing_is_due(schedule)
    getattr(job, end)(*[1] * (end == "retry_in"))
    assert (schedule.in_flight, schedule.failing) == (0, 0)
    failures = []
    times = workers.keys_until(schedule, 130, lambda job: failures.append(job.failures))
    first = {None: math.inf, 0: 0, 30: 23}[again]
    assert times == [("a", at) for at in ((first, {0: 93}.get(again, 123)) if times else ())]
    assert (again is None) == (times == [])
    assert failures == [0] * len(times)


def test_len_in_in_flight_and_failing(workers, clock):
    schedule = Schedule(every=10)
    schedule.add_all("abc", over=0)
    jobs = [workers.take(schedule) for _ in "ab"]
    assert [len(schedule), schedule.in_flight, schedule.failing, "a" in schedule] == [3, 2, 0, True]
    jobs[0].fail()
    assert [schedule.in_flight, schedule.failing, bool(schedule)] == [1, 1, True]
    clock.advance(10)
    job = workers.take(schedule)
    assert (job.key, schedule.failing) == ("c", 1)
    workers.take(schedule).succeed()
    assert (schedule.failing, schedule.in_flight, len(schedule)) == (0, 2, 3)
    assert repr(schedule) == "<Schedule open, 3 keys>"
    assert "z" not in schedule
    assert bool(Schedule())


# The grid


def test_a_grid_begins_at_the_first_due_time_and_nothing_moves_it(workers, clock):
    """Neither slow work, failures, ``retry_in()`` nor an earlier add do."""
    schedule = Schedule(every=10, backoff=ConstantBackOff(3))
    schedule.add("a", 2)
    missed = []
    work = [
        lambda _: None,
        lambda job: job.fail(),  # at 12, again at 15, before the next time of the grid
        lambda _: None,
        lambda job: job.retry_in(25),  # at 22, again at 47: 32 and 42 are left out
        lambda _: schedule.add("a", 4),  # at 47, again at 51
        lambda _: None,
        lambda _: None,  # at 52
    ]

    def act(job):
        missed.append(job.missed)
        work.pop(0)(job)

    times = [at for _, at in workers.keys_until(schedule, 55, act)]
    assert times == [2, 12, 15, 22, 47, 51, 52]
    assert missed == [0, 0, 0, 0, 2, 0, 0]


def test_times_of_the_grid_that_the_work_has_outlasted_are_left_out_and_counted(workers, clock):
    schedule = schedule_of("a", every=10)
    for lasts, due, missed in [(34, 0, 0), (5, 40, 3), (10, 50, 0), (0, 60, 0)]:
        clock.advance(max(0, 1000 + due - clock.monotonic()))
        job = workers.take(schedule)
        assert (job.due, job.missed, job.lateness) == (1000 + due, missed, 0)
        clock.advance(lasts)
        job.succeed()


def test_a_worker_that_comes_late_gets_one_job_and_then_the_grid(workers, clock):
    schedule = schedule_of("a", every=10)
    clock.advance(25)
    job = workers.take(schedule)
    assert (job.due, job.lateness, job.missed) == (1000, 25, 0)
    job.succeed()
    clock.advance(5)
    assert (workers.take(schedule).missed, clock.monotonic()) == (2, 1030)


@pytest.mark.parametrize("every", [0.1, 1 / 3, 1e-3])
def test_a_grid_of_fractions_drifts_and_misses_nothing(workers, clock, every):
    schedule = schedule_of("a", every=every)
    for number in range(1000):
        clock.advance_to(1000 + number * every)
        job = schedule.receive_nowait()
        assert (job.due, job.missed) == (pytest.approx(1000 + number * every, abs=1e-9), 0)
        job.succeed()


# Waiting, ends


def test_a_wait_runs_out_of_time(workers, clock):
    schedule = Schedule()
    schedule.add("a", 10)
    for timeout in (2.5, timedelta(seconds=2.5)):
        waiting = workers.receive(schedule, timeout)
        still_waits(clock, waiting)
        clock.advance(2.5)
        assert repr(error(waiting)) == "TimeoutError('no key was due within 2.5 s')"
    nothing_is_due(schedule)
    clock.advance(5)
    assert take_all(schedule) == ["a"]


def test_several_workers_get_a_key_each_as_they_fall_due(workers, clock):
    schedule = Schedule()
    waiting = [workers.receive(schedule) for _ in "abcd"]
    still_waits(clock, *waiting)
    schedule.add_all("abc", over=3)
    clock.settle()
    for count in (1, 2, 3):
        assert sum(future.done() for future in waiting) == count
        clock.advance(1)
    assert sorted(value(future).key for future in waiting if future.done()) == ["a", "b", "c"]
    schedule.close()


def test_a_key_does_not_wait_for_a_loop_that_is_blocked(clock):
    """Whoever waits first in each loop, and in all threads, watches the time."""

    schedule, flag, loop = Schedule(), Flag(), LoopThread(debug=False)
    first = loop.submit(schedule.receive_async())
    clock.settle()
    second = in_thread(schedule.receive)
    clock.settle()
    schedule.add("a", 1)
    loop.loop.call_soon_threadsafe(flag.wait)
    clock.advance(1)
    with value(second) as job:
        assert job.key == "a"
    flag.set()
    still_waits(clock, first)
    loop.close()


@pytest.mark.parametrize("how", ["close", "cancel", "deadline", "token of a policy"])
def test_an_end_ends_all_iterations_and_jobs_under_way_go_on(workers, clock, how):
    token = CancellationToken(clock=clock).child(timeout=20 if how == "deadline" else None)
    given = {"token": token}
    if how == "token of a policy":
        given = {"backoff": with_token(ConstantBackOff(1), token)}
    schedule = Schedule(every=10, **given)
    schedule.add_all("ab", over=60)
    job = workers.take(schedule)
    waiting = [workers.receive(schedule), workers.work(schedule, print)]
    still_waits(clock, *waiting)
    if how == "deadline":
        clock.advance(20)
    else:
        schedule.close() if how == "close" else token.cancel()
    assert type(error(waiting[0])) is ScheduleClosed
    assert value(waiting[1]) is None
    clock.advance(60)
    for refused in (
        schedule.receive_nowait,
        lambda: schedule.add("c"),
        lambda: schedule.add_all("c"),
    ):
        with pytest.raises(ScheduleClosed, match="the schedule is closed"):
            refused()
    assert (schedule.closed, schedule.in_flight) == (True, 1)
    job.succeed()
    assert (schedule.in_flight, len(schedule)) == (0, 2)
    assert (schedule.remove("a"), len(schedule)) == (True, 1)
    schedule.close()


def test_a_token_outlives_its_schedules_and_keeps_nothing_of_them(clock):
    token = CancellationToken(clock=clock)
    for _ in "ab":
        schedule = Schedule(token=token, clock=clock)
        with pytest.raises(TimeoutError):
            schedule.receive(0)
        waiting = in_thread(schedule.receive)
        clock.settle()
        schedule.close()
        assert type(error(waiting)) is ScheduleClosed
        assert not token.cancelled
        del schedule, waiting
    collect_garbage()
    assert not token._state.children


def test_drain_waits_until_no_worker_has_a_job(workers, clock):
    schedule = Schedule(every=10)
    assert value(workers.drain(schedule)) is True
    schedule.add_all("ab", over=0)
    jobs = [workers.take(schedule) for _ in "ab"]
    schedule.close()
    late, waiting = workers.drain(schedule, 5), workers.drain(schedule)
    jobs.pop().succeed()
    still_waits(clock, late, waiting)
    clock.advance(5)
    assert value(late) is False
    assert value(workers.drain(schedule, 0)) is False
    still_waits(clock, waiting)
    jobs.pop().leave()
    assert value(waiting) is True


def test_a_schedule_is_a_source_of_select_and_merge(workers, clock):
    schedule, channel = Schedule(), Channel(1)
    schedule.add("a", 10)
    selecting = workers.select(schedule, channel)
    still_waits(clock, selecting)
    clock.advance(10)
    source, job = value(selecting)
    assert (source, job.key) == (schedule, "a")
    job.retry_in(5)
    merging = workers.merge(schedule, channel)
    for act in (schedule.close, lambda: channel.send_nowait("item"), channel.close):
        clock.advance(5)
        act()
    (first, job), *others = value(merging)
    assert (first, job.key) == (schedule, "a")
    assert others == [(schedule, CLOSED), (channel, "item"), (channel, CLOSED)]
    job.leave()


def test_a_job_that_an_interrupted_select_has_taken_is_due_again_at_once(clock):

    def disturb():
        raise KeyboardInterrupt

    schedule = Schedule()
    schedule.add("a", 5)
    selecting = in_thread(select, schedule, Disturbing(disturb))
    clock.advance(5)
    assert type(error(selecting)) is KeyboardInterrupt
    assert (schedule.in_flight, take_all(schedule)) == (0, ["a"])


# Groups


def test_a_group_has_so_many_workers_at_once_and_delays_no_other(workers, clock):
    schedule = Schedule(every=10, group=lambda key: key[0], limit=2)
    schedule.add_all(["a1", "a2", "a3", "a4", "b1"], over=0)
    jobs = [workers.take(schedule) for _ in range(3)]
    assert [job.key for job in jobs] == ["a1", "a2", "b1"]
    waiting = workers.receive(schedule)
    clock.advance(3)
    still_waits(clock, waiting)
    jobs[0].fail()
    job = value(waiting)
    assert (job.key, job.lateness) == ("a3", 3)
    nothing_is_due(schedule)
    schedule.remove("a4")
    jobs[1].succeed()
    nothing_is_due(schedule)
    job.succeed()
    clock.advance(7)
    assert sorted(workers.take(schedule).key for _ in range(2)) == ["a1", "a2"]


def test_all_places_of_a_group_are_used_when_keys_that_had_got_them_are_removed(workers, clock):
    """Also where a key of another group, due before, has been given back."""
    schedule = Schedule(group=lambda key: key[0], limit=2)
    schedule.add_all(["b", "a1", "a2"])
    clock.advance(1)
    schedule.add_all(["a3", "a4", "a5", "a6", "a7"])
    jobs = [workers.take(schedule) for _ in range(3)]
    nothing_is_due(schedule)
    with pytest.raises(KeyboardInterrupt), jobs[0]:
        raise KeyboardInterrupt
    for job in jobs[1:]:
        job.succeed()
    assert schedule.remove("a3")
    assert schedule.remove("a4")
    for number in range(80):  # what is out of date is thrown away once
        schedule.add("later", 3600 - number)
    jobs = [workers.take(schedule).key for _ in range(3)]
    assert jobs == ["b", "a5", "a6"]
    nothing_is_due(schedule)


def test_a_key_that_came_early_takes_one_place_of_its_group_when_its_grid_is_back(workers, clock):
    schedule = Schedule(every=10, group=lambda _: "all", limit=2)
    for key, delay in [("early", 5), ("early", 1), ("long", 2), ("longer", 3), ("late", 6)]:
        schedule.add(key, delay)
    clock.advance(1)
    workers.take(schedule).succeed()  # "early", which is due at 5 again
    clock.advance(2)
    jobs = [workers.take(schedule) for _ in range(2)]
    clock.advance(3)
    nothing_is_due(schedule)
    for job in jobs:
        job.leave()
    assert [workers.take(schedule).key for _ in range(2)] == ["early", "late"]


def test_a_forked_child_has_the_keys_that_wait_and_all_places_of_groups():
    run_silently(
        """
schedule = Schedule(group=lambda key: key[0], limit=2, every=60)
schedule.add_all(["a1", "a2", "a3", "a4", "a5", "b1", "b2"], over=0)
held = [schedule.receive(0) for _ in range(4)]
assert sorted(job.key for job in held) == ["a1", "a2", "b1", "b2"]
waiting = threads(2, lambda: schedule.receive().succeed())
time.sleep(0.05)
def child():
    assert (len(schedule), schedule.in_flight, "a1" in schedule) == (3, 0, False)
    jobs = [schedule.receive(0) for _ in range(2)]
    assert [job.key for job in jobs] == ["a3", "a4"], jobs
    for job in held: job.succeed()
    assert schedule.in_flight == 2
    try: schedule.receive_nowait()
    except WouldBlock: pass
    else: raise AssertionError("more than two")
    for job in jobs: job.leave()
    with schedule.receive(0) as job: assert job.key == "a5"
    assert schedule.add("a1") and schedule.receive(5).leave() is None
    assert schedule.drain(5)
for _ in range(2): assert collect(fork(child)) == 0
for job in held: job.succeed()
for thread in waiting: thread.join(10)
assert not any(thread.is_alive() for thread in waiting)
del waiting, job
"""
    )


# Bad input, keys that raise


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"every": 0}, ValueError, r"every .*> 0.*not 0"),
        ({"every": -1}, ValueError, r"every .*-1"),
        ({"every": math.inf}, ValueError, "every .*inf"),
        ({"every": "5"}, TypeError, "every .*'5'"),
        ({"backoff": 5}, TypeError, "backoff .*5"),
        ({"on": "OSError"}, TypeError, "on .*'OSError'"),
        ({"on": {OSError: -1}}, ValueError, r"on\[OSError\] .*-1"),
        ({"on": BaseException}, TypeError, "on .*BaseException"),
        ({"token": True}, TypeError, "token .*True"),
        ({"clock": 5}, TypeError, "clock .*5"),
        ({"group": 5, "limit": 1}, TypeError, "group must be callable or None, not 5"),
        ({"notify": 5}, TypeError, "notify must be callable or None, not 5"),
        ({"on_give_up": 5}, TypeError, "on_give_up must be callable or None, not 5"),
        ({"group": len}, TypeError, "group and limit go together.*limit=None"),
        ({"limit": 1}, TypeError, "group and limit go together.*group=None, limit=1"),
        ({"group": len, "limit": 0}, ValueError, "limit .*0"),
        ({"group": len, "limit": 1.5}, TypeError, r"limit .*1\.5"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it_and_its_value(options, kind, message):
    with pytest.raises(kind, match=message):
        Schedule(**options)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda s: s.add("a", -1), ValueError, "delay .*-1"),
        (lambda s: s.add("a", "1"), TypeError, "delay .*'1'"),
        (lambda s: s.add([]), TypeError, "unhashable type: 'list'"),
        (lambda s: s.remove([]), TypeError, "unhashable type: 'list'"),
        (lambda s: s.add_all("ab", over=-1), ValueError, "over .*-1"),
        (lambda s: s.receive(-1), ValueError, "timeout .*-1"),
        (lambda s: s.receive(math.nan), ValueError, "timeout .*nan"),
        (lambda s: s.drain("x"), TypeError, "timeout .*'x'"),
        (lambda s: s.receive().retry_in(-1), ValueError, "seconds .*-1"),
        (lambda s: s.receive().retry_in(None), TypeError, "seconds .*None"),
        (lambda s: s.receive().fail("no"), TypeError, "error must be an Exception.*'no'"),
        (lambda s: s.receive().fail(KeyboardInterrupt()), TypeError, "error must be an Exception"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_wrong_input_is_an_error_that_names_it_and_its_value(call, kind, message):
    schedule = schedule_of("key")
    with pytest.raises(kind, match=message):
        call(schedule)
    assert [*map(schedule.__contains__, ["key", "a", "b"])] == [True, False, False]


def test_a_group_that_cannot_be_hashed_is_an_error_and_adds_no_key():
    schedule = Schedule(group=lambda key: [key], limit=1)
    with pytest.raises(TypeError, match=r"what group returns must be hashable, not \['a'\]"):
        schedule.add("a")
    assert len(schedule) == 0


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (0, ValueError, "what every returns .*0"),
        ("5", TypeError, "what every returns .*'5'"),
    ],
)
def test_a_wrong_interval_is_an_error_and_adds_no_key(answer, kind, message):
    schedule = Schedule(every=lambda key: answer if key == "c" else 5)
    with pytest.raises(kind, match=message):
        schedule.add("c")
    with pytest.raises(kind, match=message):
        schedule.add_all("abcd")
    assert [key in schedule for key in "abcd"] == [True, True, False, False]


def test_add_all_adds_the_keys_before_one_that_cannot_be_hashed(workers):
    schedule = Schedule()
    with pytest.raises(TypeError, match="unhashable"):
        schedule.add_all(["a", [], "b"])
    assert take_all(schedule) == ["a"]
