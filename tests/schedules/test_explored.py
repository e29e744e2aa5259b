"""The state of a key under schedules of a few threads with few switches; faults are planted."""

import __future__

import ast
import inspect
import textwrap
from contextlib import suppress

import pytest

from backoff_ticker import ConstantBackOff, Schedule, ScheduleClosed, WouldBlock
from backoff_ticker.schedules import _core, _job, _keys
from backoff_ticker.testing import ScheduleFailure
from tests import effort
from tests.channels.schedules import WATCHED, explore_model
from tests.stress.places import PACKAGE

SCHEDULES = effort.rounds(5, 200)
WATCHED = [*WATCHED, f"{PACKAGE}/schedules"]


class Play:
    """A schedule that has the key "a", and what its workers have seen."""

    def __init__(self, **options):
        self.schedule = Schedule(backoff=ConstantBackOff(1), notify=lambda *_: None, **options)
        self.at_work, self.removed = [], []
        self.done = []  # each key that was worked on, with its failures before
        self.again = []  # keys that were added while a worker had them
        self._is_grouped = "limit" in options
        self.schedule.add("a")

    def work(self, count, act=lambda _: None):
        """Work on so many keys, for as long as it takes."""
        for _ in range(count):
            removed = self.removed.copy()
            try:
                job = self.schedule.receive()
            except ScheduleClosed:
                return
            assert job.key not in self.at_work, "two workers have a key"
            assert not (self._is_grouped and self.at_work), "two workers have a group"
            assert job.key not in removed, "it came after it was removed"
            self.at_work.append(job.key)
            try:
                with job:
                    act(job)
                    self.done.append((job.key, job.failures))
                    self.at_work.remove(job.key)
            except KeyboardInterrupt:
                pass

    def add_again(self):
        before = self.at_work.copy()
        self.schedule.add("a")
        if before and before == self.at_work:
            self.again.append("a")

    def remove_for_good(self):
        self.schedule.remove("a")
        self.removed.append("a")
        self.schedule.close()

    def work_and_be_interrupted(self):
        def act(job):
            if not self.again:
                self.again.append(job.key)
                self.at_work.remove(job.key)
                raise KeyboardInterrupt

        self.work(2, act)

    def end_what_was_taken(self):
        self.done.append("ended")
        self.job.succeed()

    def drain(self):
        assert self.schedule.drain()
        assert self.done, "drained, while a worker had a key"

    def take_in_vain(self):
        with suppress(WouldBlock):
            self.schedule.receive_nowait()

    def left(self):
        """Return the keys that are left, once all have fallen due."""
        schedule, keys = self.schedule, []
        assert schedule.in_flight == 0
        while len(schedule) and not schedule.closed:
            with schedule.receive(5) as job:
                keys.append(job.key)
        return keys


def works(count, act=lambda _: None):
    return lambda play: play.work(count, act)


def adds(*keys):
    return lambda play: [play.schedule.add(key) for key in keys]


MODELS = {
    "added while a worker has it": (
        {"worker": works(1), "other": Play.add_again},
        lambda p, left: p.done == [("a", 0)] and p.again <= left <= ["a"],
    ),
    "two workers, and a key that is added twice": (
        {"worker a": works(1), "worker b": works(1), "other": adds("b", "b")},
        lambda p, left: sorted(p.done) == [("a", 0), ("b", 0)] and left <= ["b"],
    ),
    "removed for good": (
        {"worker": works(2, lambda job: job.retry_in(0)), "other": Play.remove_for_good},
        lambda p, left: not len(p.schedule),
    ),
    "removed and added anew while its work fails": (
        {
            "worker": works(2, lambda job: job.failures or job.fail()),
            "other": lambda p: [p.schedule.remove("a"), p.schedule.add("a")],
        },
        lambda p, left: p.done[0] == ("a", 0) and left <= ["a"],
    ),
    "given back by a worker that is interrupted": (
        {"interrupted": Play.work_and_be_interrupted, "other": adds("b")},
        lambda p, left: {*p.done[:1]} <= {("a", 0), ("b", 0)} and len(p.done) + len(left) == 2,
    ),
    "of a group, one at a time": (
        {"worker a": works(1), "worker b": works(1), "other": adds("b")},
        lambda p, left: sorted(p.done) == [("a", 0), ("b", 0)],
    ),
    "drained": (
        {"worker": Play.end_what_was_taken, "draining": Play.drain, "other": Play.take_in_vain},
        lambda p, left: left == [],
    ),
    "taken, and ended while another looks": (
        {
            "worker": works(1),
            "ends": lambda p: p.job.retry_in(1),
            "looks": lambda p: p.schedule.remove("none"),
        },
        lambda p, left: p.done == [("a", 0)] and left == [],
    ),
    "taken, and asked for as it ends while another waits": (
        {"ends": lambda p: p.job.succeed(), "adds": adds("a"), "waits": works(1)},
        lambda p, left: p.done == [("a", 0)] and left == [],
    ),
    "closed": (
        {"worker": works(3), "closer": lambda p: p.schedule.close()},
        lambda p, left: p.done in ([], [("a", 0)]),
    ),
}


def explore_key(name, schedules, monkeypatch, watch=WATCHED):
    threads, right = MODELS[name]

    def model(plan):
        play = Play(**({"group": len, "limit": 1} if "group" in name else {}))
        if name.startswith(("taken", "drained")):
            play.job = play.schedule.receive_nowait()
        for thread, act in threads.items():
            plan.thread(thread, act, play)

        def check():
            left = play.left()
            assert right(play, left), (play.done, left)

        return check

    explore_model(model, schedules, monkeypatch, watch)


@pytest.mark.parametrize("name", MODELS)
def test_a_key_comes_as_often_as_it_should(name, monkeypatch):
    explore_key(name, SCHEDULES, monkeypatch)


FAULTS = {
    "an end forgets what was asked for": (
        *(_keys.Keys, "end", "again = max(hold.again, now)", "again = NO_DEADLINE"),
        "added while a worker has it",
        "AssertionError",
    ),
    "a key that is taken goes on waiting": (
        *(_keys.Keys, "take", "entry.due = NO_DEADLINE\n        heappop(self._heap)", "pass"),
        "two workers, and a key that is added twice",
        "no end after|AssertionError",
    ),
    "a removed key goes on waiting": (
        *(_keys.Keys, "remove", "entry.due = NO_DEADLINE", "pass"),
        "removed for good",
        "it came after it was removed",
    ),
    "a removed key still comes once more": (
        *(_keys.Keys, "end", "if follower is not None", "if True"),
        "removed for good",
        "worker ended with AttributeError",
    ),
    "nobody is let in": (
        *(_keys.Keys, "end", "error_of(self._leave_group, hold)", "pass"),
        "of a group, one at a time",
        "nobody can go on",
    ),
    "nothing is given back": (
        *(_job.Job, "_give_back", "self._schedule._finish(", "hold.watch = (lambda *_: None)("),
        "given back by a worker that is interrupted",
        "body ended with AssertionError",
    ),
    "two own the keys": (
        *(_core.ScheduleCore, "_settle", "owner is not None and owner[0] == mark[0]", "False"),
        "two workers, and a key that is added twice",
        "nobody can go on|no end after|ended with .*Error",
    ),
    "an owner ends in spite of what was told": (
        *(_core.ScheduleCore, "_disown", "if self._told or", "if False or"),
        "taken, and ended while another looks",
        "nobody can go on",
    ),
    "who found the keys owned is not woken": (
        *(_core.ScheduleCore, "_disown", "self._was_refused or head", "head"),
        "two workers, and a key that is added twice",
        "nobody can go on",
    ),
    "an earlier key wakes nobody": (
        *(_core.ScheduleCore, "_disown", "or head < self._head", ""),
        "two workers, and a key that is added twice",
        "nobody can go on",
    ),
    "the end of the last job wakes no drain": (
        *(_core.ScheduleCore, "_is_awaited", "return ", "return False and "),
        "drained",
        "nobody can go on",
    ),
    "a close wakes nobody": (
        *(Schedule, "close", "self._token.cancel()", "self._token._mark((None,))"),
        "closed",
        "nobody can go on",
    ),
}


def planted(owner, method, right, wrong):
    """Return a method with a fault, at the same lines of the same file."""
    function = getattr(owner, method)
    lines, number = inspect.getsourcelines(function)
    source = textwrap.dedent("".join(lines))
    assert source.count(right) == 1, f"{method} has not once {right!r}"
    tree = ast.increment_lineno(ast.parse(source.replace(right, wrong)), number - 1)
    names = {}
    code = compile(
        tree, inspect.getsourcefile(function), "exec", __future__.annotations.compiler_flag
    )
    exec(code, function.__globals__, names)
    return names[method]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore:.*_drop:pytest.PytestUnraisableExceptionWarning")
def test_a_planted_fault_is_found(fault, monkeypatch):
    owner, method, right, wrong, name, message = FAULTS[fault]
    monkeypatch.setattr(owner, method, planted(owner, method, right, wrong))
    with pytest.raises(ScheduleFailure, match=message):
        explore_key(name, 3000, monkeypatch, [*WATCHED, __file__])
