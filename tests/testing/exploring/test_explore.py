"""``explore()`` finds what is wrong, and nothing else; a failure can be had again."""

import asyncio
import math
import pickle
import queue
import random
import re
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from pathlib import Path

import pytest

from backoff_ticker.testing import ScheduleFailure, ScheduleStuck, VirtualClock, explore, exploring
from backoff_ticker.testing.exploring import _explorer
from tests import effort
from tests.helpers import collect_garbage
from tests.testing.exploring import bodies

pytestmark = pytest.mark.filterwarnings("ignore:explore:RuntimeWarning")  # that watched too little


def failure_of(body, **options):
    with pytest.raises(ScheduleFailure) as raised:
        explore(body, **options)
    return raised.value


def story_of(failure):
    """Return a failure without the number of its schedule."""
    return re.sub(r"^schedule .*, shrunk", "shrunk", str(failure), flags=re.MULTILINE)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("body", bodies.WRONG, ids=lambda body: body.__name__)
def test_a_wrong_program_is_reported_and_replayed(body):
    failure = failure_of(body)
    assert re.match(bodies.WRONG[body], str(failure))
    for _ in range(effort.rounds(1, 20)):
        assert story_of(failure_of(body, replay=failure.replay)) == story_of(failure)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("body", bodies.RIGHT, ids=lambda body: body.__name__)
def test_a_right_program_is_not_reported(body):
    assert explore(body, schedules=effort.rounds(30 if effort.has_lock() else 15, 2000)).schedules


@pytest.mark.parametrize(
    ("body", "option", "told"),
    [
        (bodies.event_within_a_time, "timeouts", ""),
        (bodies.cancelled_slots, "cancel_tasks", r"\n    \(Task-\d is cancelled\)"),
        (bodies.first_task_first, "task_order", r"\n    \(Task-4 goes first\)\n"),
        (bodies.worker_that_is_not_always_told, "interrupts", r"\n    \(is interrupted\)\n"),
    ],
)
def test_what_else_may_happen_if_it_is_asked_for(body, option, told):
    assert explore(body, preemptions=1).complete
    failure = failure_of(body, **{option: True})
    assert re.search(told, str(failure))
    assert f"explore({body.__name__}, {option}=True, replay=" in str(failure)
    again = failure_of(body, **{option: True}, replay=failure.replay)
    assert story_of(again) == story_of(failure)


def test_a_right_program_stands_what_else_may_happen():
    assert explore(bodies.cancelled_semaphore, cancel_tasks=True).complete
    assert explore(bodies.cancelled_semaphore, task_order=True).complete
    assert explore(bodies.loop_and_threads, task_order=True, schedules=50).schedules
    assert explore(bodies.worker_that_is_told, interrupts=True, schedules=100).schedules


def test_only_tasks_that_a_function_names_are_cancelled():
    def may_be(task):
        names.add(task.get_name())
        return task.get_name() in allowed

    names, allowed = set(), set()
    whole = explore(bodies.cancelled_slots)
    outcome = explore(bodies.cancelled_slots, cancel_tasks=may_be)
    assert (outcome.complete, outcome.schedules) == (True, whole.schedules)
    assert names == {"Task-2", "Task-3", "Task-4"}  # and not that of main()
    allowed.add("Task-3")
    failure = failure_of(bodies.cancelled_slots, cancel_tasks=may_be)
    assert set(re.findall(r"(Task-\d) is cancelled", str(failure))) == {"Task-3"}
    assert "explore(cancelled_slots, cancel_tasks=may_be, replay=" in str(failure)
    assert "may_be(" not in str(failure).replace("def may_be(", "")
    failure_of(bodies.cancelled_slots, cancel_tasks=may_be, replay=failure.replay)


@pytest.mark.parametrize("interrupts", [False, True])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_body_that_exits_has_failed(kind, interrupts):
    def body():
        raise kind(7)

    text = str(failure_of(body, interrupts=interrupts))
    assert text.startswith(f"body ended with {kind.__name__}: 7\n")
    assert explore(lambda: bodies.run(body), interrupts=interrupts).complete


def test_the_body_may_handle_errors_of_its_threads(monkeypatch):
    seen = []

    def body():
        monkeypatch.setattr(threading, "excepthook", lambda raised: seen.append(raised.exc_type))
        bodies.thread_that_raises()
        monkeypatch.undo()

    assert explore(body).complete
    assert set(seen) == {IndexError}


def test_an_error_without_a_text_is_a_failure():
    class Silent(Exception):
        def __str__(self):
            raise ValueError

    def body():
        raise Silent

    assert str(failure_of(body)).startswith("body ended with Silent: (its text fails with")


# What is told


def test_a_failure_tells_who_did_what_at_each_switch():
    failure = failure_of(bodies.lost_update)
    assert failure.schedules == 10
    rows = str(failure).splitlines()
    at = bodies.Account.deposit.__code__.co_firstlineno + 1
    begin = rows.index("  Thread-1 (deposit)")
    assert rows[begin : begin + 9] == [
        "  Thread-1 (deposit)",
        f"    bodies.py:{at}             self.balance += 1",
        "  Thread-2 (deposit)",
        f"    bodies.py:{at}             self.balance += 1",
        "    (ends)",
        "  Thread-1 (deposit)",
        f"    bodies.py:{at}             self.balance += 1 (continued)",
        "    (ends)",
        "  body",
    ]
    assert rows[-1].endswith("assert account.balance == 2")


@pytest.mark.parametrize("body", [bodies.task_that_hangs, bodies.pool_that_is_left])
def test_what_ends_with_its_schedule_is_no_news(caplog, body):
    failure_of(body)
    collect_garbage()
    assert caplog.messages == []


def test_a_finalizer_that_ends_with_its_schedule_is_no_news(monkeypatch):
    news = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: news.append(raised.exc_type))

    class Connection:
        def __init__(self, lock):
            self.lock = lock

        def __del__(self):
            self.lock.acquire()
            raise LookupError

    def use():
        Connection(threading.Lock())
        lock = threading.Lock()
        lock.acquire()
        try:
            lock.acquire()
        finally:
            Connection(lock)

    failure_of(lambda: bodies.run(use), watch=queue, replay="")
    assert news == [LookupError]


def test_a_failure_has_no_traceback_of_the_exploration():
    failure = failure_of(bodies.thread_that_raises)
    frames = [traceback.extract_tb(each.__traceback__) for each in (failure, failure.__cause__)]
    assert [each.name for each in frames[0]] == ["failure_of", "explore", "outcome"]
    assert [each.name for each in frames[1]] == ["<lambda>"]
    assert isinstance(failure.__cause__, IndexError)
    assert pickle.loads(pickle.dumps(failure)).replay == failure.replay
    hidden = [frame for frame, _ in traceback.walk_tb(failure.__traceback__)][1:]
    assert all(frame.f_locals["__tracebackhide__"] for frame in hidden)


def test_a_loop_for_a_real_clock_is_told():
    def wait(tell=time.monotonic):
        until = tell() + 60
        while tell() < until:
            pass

    told = str(failure_of(lambda: wait())).splitlines()[0]
    assert "a loop for real time, as datetime.now() or" in told


def test_a_deadlock_tells_where_each_thread_is():
    text = str(failure_of(bodies.two_locks))
    first, second = "Thread-1 (one_way)", "Thread-2 (other_way)"
    assert text.startswith(f"nobody can go on: {first} waits for {second} waits for {first}\n")
    assert f"\n  {first} waits for a lock, held by {second}\n    bodies.py:" in text
    assert "\n  body waits for the end of Thread-1 (one_way)\n    bodies.py:" in text


def waits_of_the_library():
    barrier, items, slots = threading.Barrier(2), queue.Queue(), threading.Semaphore(0)
    return {
        "Event.wait": threading.Event().wait,
        "Barrier.wait": barrier.wait,
        "Queue.get": items.get,
        "Semaphore.acquire": slots.acquire,
        "Future.result": Future().result,
    }


@pytest.mark.parametrize("name", waits_of_the_library())
def test_a_wait_is_told_by_what_waits(name):
    text = str(failure_of(lambda: bodies.run(waits_of_the_library()[name])))
    assert f" waits for {name}()\n" in text
    assert f"(waits for {name}())" in text


def test_each_pending_task_is_told_with_what_it_awaits():
    async def main():
        event, lock = asyncio.Event(), asyncio.Lock()
        await lock.acquire()
        first = asyncio.create_task(event.wait())
        await asyncio.gather(first, asyncio.create_task(lock.acquire()))

    text = str(failure_of(lambda: asyncio.run(main())))
    assert re.search(
        r"\n  body, Task-1 waits for a future\n    test_explore.py:\d+ main: await", text
    )
    assert "\n  body, Task-2 waits for Event.wait()\n" in text
    assert "\n  body, Task-3 waits for Lock.acquire()\n" in text


@pytest.mark.parametrize(
    ("watch", "told"),
    [
        (bodies, "watch=tests.testing.exploring.bodies, "),
        ([queue, bodies.Account.deposit], "watch=[queue, Account.deposit], "),
        (iter([Path(bodies.__file__)]), f"watch=[{bodies.__file__!r}], "),
    ],
)
def test_the_line_that_replays_has_what_it_needs(watch, told):
    failure = failure_of(bodies.lost_update, watch=watch, seed=7, preemptions=1, timeouts=True)
    call = f"explore(lost_update, {told}seed=7, timeouts=True, replay={failure.replay!r})"
    assert f"\n  {call}\n" in str(failure)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("body", [bodies.check_then_act, bodies.cleared_event])
def test_the_same_seed_tells_the_same_story(body):
    stories = {str(failure_of(body, schedules=40, seed=5)) for _ in range(effort.rounds(5, 300))}
    assert len(stories) == 1


def test_a_set_of_tasks_has_the_same_order_each_time():
    orders, kept = set(), []

    async def main():
        kept.append(bytearray(random.SystemRandom().randrange(9999)))
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(9)]
        orders.add(tuple(map(tasks.index, asyncio.all_tasks() - {asyncio.current_task()})))
        kept.append(tasks)

    explore(lambda: bodies.run(lambda: asyncio.run(main()), list), preemptions=1)
    assert len(orders) == 1


def test_a_long_turn_and_a_deep_stack_are_cut():
    def waits_often():
        while True:
            time.sleep(1)

    def deep():
        deep()

    text = str(failure_of(waits_often))
    assert re.search(r"\n    \.\.\. [\d]{5} more\n", text)
    assert len(text.splitlines()) < 40
    text = str(failure_of(deep))
    assert re.search(r"\n    \.\.\. [\d]{3,} more calls\n", text)
    assert len(text.splitlines()) < 60


# How many there are


def test_all_schedules_are_run_in_order_of_their_preemptions():
    counts = [explore(bodies.update_with_a_lock, preemptions=n).schedules for n in range(3)]
    assert counts == sorted(set(counts))
    text = str(explore(bodies.update_with_a_lock))
    assert text == f"all {counts[2]} schedules with at most 2 preemptions"


def test_what_would_be_too_many_are_drawn():
    outcome = explore(bodies.bounded_queue, preemptions=4, schedules=30)
    assert (outcome.schedules, outcome.complete) == (30, False)
    assert 0 < outcome.drawn < 30
    assert 0 < outcome.chance < 1 < outcome.estimate
    assert re.fullmatch(
        r"30 of about \S+ schedules with at most 4 preemptions, \d+ of them drawn: each shows a "
        r"fault of depth 5 with a probability of at least \S+",
        str(outcome),
    )


def test_all_are_run_in_order_after_the_first_ones(monkeypatch):
    complete = explore(bodies.update_with_a_lock)
    monkeypatch.setattr(_explorer, "_FIRST", 20)
    outcome = explore(bodies.update_with_a_lock)
    assert outcome.drawn > 20  # of the later ones, too
    assert outcome.schedules - outcome.drawn == complete.schedules
    assert str(outcome) == str(complete)


def test_two_switches_are_found_without_an_option_after_the_first_schedules(monkeypatch):
    monkeypatch.setattr(_explorer, "_FIRST", 20)
    failure = failure_of(bodies.two_switches)
    assert len(failure.replay.split()) == 2
    assert failure.schedules > 20


def test_numbers_too_large_for_a_float():
    assert explore(bodies.polling, preemptions=3000, schedules=10).chance == 0
    outcome = explore(bodies.many_orders, preemptions=0, schedules=2)
    assert outcome.estimate == 1e300
    assert " of about 10^300 schedules" in str(outcome)


def test_a_drawn_schedule_finds_a_fault_and_is_shrunk():
    failure = failure_of(bodies.lost_update, schedules=9, seed=3)
    assert 1 < failure.schedules < 10
    assert len(failure.replay.split()) == 1


def test_time_ends_the_search():
    outcome = explore(bodies.semaphore, preemptions=9, schedules=10**9, time_limit=0.2)
    assert not outcome.complete
    assert explore(bodies.semaphore, time_limit=1e-9).schedules == 1


# What is watched


def test_only_watched_files_are_switched_in():
    assert explore(bodies.lost_update, watch=queue).schedules < 5
    for watch in (bodies, [bodies], bodies.__file__, bodies.run, bodies.Account):
        assert failure_of(bodies.lost_update, watch=watch).replay
    assert failure_of(bodies.lost_update, watch=sys.modules["tests.testing"])


def test_a_watched_folder_may_hold_this_package():
    package = Path(_explorer.__file__).parents[2]
    assert explore(bodies.update_with_a_lock, watch=package).complete
    assert failure_of(bodies.lost_update, watch=[package.parent, bodies], schedules=99)


def test_a_watched_module_may_have_replaced_the_start_of_threads(monkeypatch, tmp_path):
    """As packages for tracing do: it starts the body's thread, too."""
    text = "def start(thread):\n    log.append(thread)\n    found(thread)\n    log.clear()\n"
    file = tmp_path / "tracing.py"
    file.write_text(text, "utf-8")
    names = {"found": threading.Thread.start, "log": []}
    exec(compile(text, str(file), "exec"), names)
    monkeypatch.setattr(threading.Thread, "start", names["start"])
    assert explore(bodies.update_with_a_lock, watch=[file, bodies], schedules=9).schedules


def test_a_watched_module_may_have_an_object_that_is_made_when_it_is_used(monkeypatch):
    class Lazy:
        @property
        def __class__(self):
            raise LookupError("no settings")

    monkeypatch.setitem(vars(bodies), "lazy", Lazy())
    assert explore(bodies.update_with_a_lock).complete


def test_equal_functions_of_two_files_have_places_of_their_own(tmp_path):
    def has_a_place(file, text):
        file.write_text(text, "utf-8")
        names = {}
        exec(compile(text, str(file), "exec"), names)
        return explore(lambda: bodies.run(names["get"]), watch=file).watched

    get = "made = 1\ndef get():\n    return made\n"
    reset = "def reset():\n    global made\n    made = None\n"
    assert not has_a_place(tmp_path / "constant.py", get)
    assert has_a_place(tmp_path / "changing.py", get + reset)


def test_a_first_try_that_forgets_watch_is_told():
    def body():  # its own lines are watched, those of its threads are not
        account = bodies.Account()
        bodies.run(account.deposit, account.deposit)

    with pytest.warns(RuntimeWarning, match=r"watched body, .* as in watch=stock$") as caught:
        outcome = explore(body)
    assert caught[0].filename == __file__
    assert str(outcome).endswith("(that watched the body alone)")
    assert not outcome.watched


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("body", [bodies.update_with_a_lock, bodies.cancelled_semaphore])
def test_a_watched_line_of_another_thread_or_task_is_enough(body):
    assert explore(body).watched
    assert explore(body, watch=bodies).watched


@pytest.mark.parametrize("watch", ["nowhere", "", [], [__file__, "nowhere"]])
def test_nothing_to_watch_is_refused(watch):
    with pytest.raises(ValueError, match="watch must name .*(exist, not '(nowhere)?'|one file)$"):
        explore(bodies.pool, watch=watch)


@pytest.mark.parametrize("watch", [5, [None], print, sys, {0: 1}])
def test_what_has_no_file_is_not_watched(watch):
    with pytest.raises(TypeError, match=r"watch \(by default body\) must be files, "):
        explore(bodies.pool, watch=watch)


def test_time_begins_anew_with_each_schedule():
    seen = set()

    def body():
        seen.add((time.monotonic(), time.perf_counter_ns(), time.time(), random.random()))
        bodies.run(lambda: time.sleep(1), lambda: time.sleep(1))

    explore(body)
    assert len(seen) == 1


def test_a_wait_that_is_not_seen_is_reported(monkeypatch):
    monkeypatch.setattr(_explorer, "_STUCK_AFTER", 0.3)
    early, shared = (threading.Lock(),), []  # in a tuple, where it cannot be replaced

    def hold():
        with early[0]:
            shared.append(1)
            shared.append(2)

    with pytest.raises(ScheduleStuck) as raised:
        explore(lambda: bodies.run(hold, hold))
    stuck = raised.value
    assert "waits for what explore() does not see" in str(stuck)
    assert re.search(r"\(hold\) can run\n    test_explore\.py:\d+ hold: with early", str(stuck))
    assert not isinstance(stuck, (ScheduleFailure, AssertionError))  # it may be no race
    assert pickle.loads(pickle.dumps(stuck)).replay == stuck.replay
    assert not early[0].locked()


def test_waits_in_real_time_end(monkeypatch):
    monkeypatch.setattr(_explorer, "_TOO_LONG", 0.3)
    shared, kept_sleep = [], [time.sleep]

    def hold():
        while True:
            kept_sleep[0](0.001)
            shared.append(1)

    with pytest.raises(ScheduleStuck) as failure:
        explore(lambda: bodies.run(hold, hold))
    failure = failure.value
    assert str(failure).startswith("no end after 0.3 s of real time: somebody waits in what")
    assert "hold: kept_sleep[0](0.001)" in str(failure) or "hold: shared" in str(failure)


# Mistakes


def test_a_body_that_would_not_run_is_refused():
    async def coroutine():
        raise ValueError

    def generator():
        yield

    async def generator_of_tasks():
        yield

    for body in (coroutine, generator, generator_of_tasks, lambda: coroutine()):
        with pytest.raises(TypeError, match=r"body must do its work .*, not return <"):
            explore(body)


def test_a_body_that_is_not_the_same_each_time_is_told():
    calls = []

    def body():
        calls.append(1)
        bodies.run(*[calls.copy] * (3 if len(calls) < 4 else 1))

    with pytest.raises(ValueError, match="body does not do the same each time"):
        explore(body)

    def fails_once():
        calls.append(1)
        assert len(calls) != 20

    calls.clear()
    calls.extend([1] * 18)
    assert "It did not fail again: body does not" in str(failure_of(fails_once))


def test_a_replay_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a schedule does not fit"):
        explore(bodies.lost_update, replay="3:9")
    with pytest.raises(ValueError, match="replay must be the text of a failure, .*, not 'x'"):
        explore(bodies.lost_update, replay="x")


OUT_OF_RANGE = {"preemptions": [-1], "schedules": [0], "time_limit": [0, math.inf]}
OF_ANOTHER_TYPE = {"preemptions": [True], "schedules": [1.5], "seed": ["x", None]}
OF_ANOTHER_TYPE |= {"time_limit": ["x"], "timeouts": ["no"], "cancel_tasks": [1]}
OF_ANOTHER_TYPE |= {"interrupts": [None], "task_order": [1], "replay": [5, b"1:2"]}
OF_ANOTHER_TYPE |= {"body": [None, 5, "x"]}


@pytest.mark.parametrize(
    ("kind", "options"), [(ValueError, OUT_OF_RANGE), (TypeError, OF_ANOTHER_TYPE)]
)
def test_what_is_out_of_range_or_of_another_type_is_refused(kind, options):
    for name, values in options.items():
        for value in values:
            with pytest.raises(kind, match=f"^{name} must be .*, not {value!r}"):
                explore(**{"body": bodies.pool, "watch": __file__, name: value})


def test_one_exploration_at_a_time():
    failure = failure_of(lambda: explore(bodies.pool))
    assert "another exploration runs" in str(failure)


@pytest.mark.parametrize("options", [{}, {"auto": True, "patch_time": True}])
def test_a_virtual_clock_is_refused(options):
    def clock_inside():
        with pytest.raises(RuntimeError, match="needs no VirtualClock"), VirtualClock(**options):
            pass
        with pytest.raises(RuntimeError, match="needs no VirtualClock"):
            VirtualClock(**options).run_async(asyncio.sleep(1))

    assert explore(clock_inside)
    with VirtualClock(**options), pytest.raises(RuntimeError, match="in a VirtualClock"):
        explore(bodies.pool)
    assert explore(bodies.pool, schedules=2)


def test_the_names_are_loaded_when_they_are_used():
    assert exploring.explore is explore
