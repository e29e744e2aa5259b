"""The timers of a loop: under few handles of the loop, never early, each run or prevented."""

import contextvars
import weakref
from types import SimpleNamespace

import pytest

from backoff_ticker.clock import Alarm
from backoff_ticker.clock._loop_timers import call_in_loop
from tests.interleaving import each_meeting

A_DAY = 86_400.0


class FakeLoop:
    """Keeps what is armed; ``fire`` runs the last, whether or not its time has come."""

    def __init__(self):
        self.delays = []
        self.armed = []
        self.closed = False

    def is_closed(self):
        return self.closed

    def call_later(self, delay, callback, *args, context):
        assert delay >= 0.0
        armed = lambda: context.run(callback, *args)
        self.delays.append(delay)
        self.armed.append(armed)
        return SimpleNamespace(cancel=lambda: self.armed.remove(armed))

    def fire(self, which=-1):
        self.armed.pop(which)()

    def lose(self):
        """Drop what is armed last, as an interrupt in the loop's own code can."""
        self.armed.pop()


class Rig:
    """A fake loop, its timers, the time, and the names of the callbacks that ran."""

    def __init__(self):
        self.now = 1000.0
        self.loop = FakeLoop()
        self.ran = []

    def drain(self):
        self.now += A_DAY
        while self.loop.armed:
            self.loop.fire()

    def set(self, when, callback, loop=None):
        return call_in_loop(lambda: self.now, when, callback, loop or self.loop)

    def call_at(self, when, name="it"):
        return self.set(when, lambda: self.ran.append(name))


@pytest.fixture
def rig():
    return Rig()


class Bell(Alarm):
    """Notes in the rig when it rang."""

    def __init__(self, rig):
        self._number = None
        self.rig = rig

    def fire(self):
        self.rig.ran.append(self.rig.now)


def test_an_alarm_that_is_set_again_rings_at_the_later_setting_only(rig):
    bell = Bell(rig)
    for seconds in (1, 3, 2):
        rig.set(1000.0 + seconds, bell)
    rig.drain()
    assert rig.ran == [1000.0 + A_DAY]
    assert bell.cancel() is False
    rig.set(rig.now + 1, bell)
    assert bell.cancel() is True
    assert bell.cancel() is False
    rig.drain()
    assert len(rig.ran) == 1


def test_a_loop_that_fires_early_is_armed_again_for_what_is_left(rig):
    rig.call_at(1002.0)
    rig.now = 1001.5
    rig.loop.fire()
    rig.now = 1001.9999
    rig.loop.fire()
    assert rig.loop.delays == [2.0, 0.5, 0.001]  # the last one not so short that it spins
    assert rig.ran == []
    rig.now = 1002.0
    rig.loop.fire()
    assert rig.ran == ["it"]
    assert rig.loop.armed == []


@pytest.mark.parametrize("when", [1000.0, 999.0, -1e300])
def test_a_time_in_the_past_fires_in_the_next_turn_of_the_loop(rig, when):
    rig.call_at(when)
    assert rig.loop.delays == [0.0]
    assert rig.ran == []
    rig.loop.fire()
    assert rig.ran == ["it"]


def test_a_loop_is_never_asked_for_more_than_a_day(rig):
    rig.call_at(1000.0 + 2.5 * A_DAY)
    for _ in range(3):
        assert rig.ran == []
        rig.now += rig.loop.delays[-1]
        rig.loop.fire()
    assert rig.loop.delays == [A_DAY, A_DAY, 0.5 * A_DAY]
    assert rig.ran == ["it"]


def test_due_callbacks_run_in_the_order_of_time_then_of_setting(rig):
    for when, name in [(1002, "c"), (1001, "a"), (1003, "e"), (1001, "b"), (1002, "d")]:
        rig.call_at(when, name)
    rig.now = 1002.0
    rig.loop.fire()
    assert rig.ran == ["a", "b", "c", "d"]
    assert rig.loop.delays[-1] == 1.0


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_of_a_callback_goes_to_the_loop_and_the_others_run(rig, error):
    def fail():
        raise error

    rig.set(1000, fail)
    rig.call_at(1000, "after")
    with pytest.raises(error):
        rig.loop.fire()
    assert rig.ran == []
    rig.loop.fire()
    assert rig.ran == ["after"]
    rig.drain()
    assert rig.ran == ["after"]


def test_an_interrupt_while_it_is_armed_again_leaves_it_armed(rig):
    rig.call_at(1001)
    rig.call_at(1002, "after")
    arm, interrupts = rig.loop.call_later, [KeyboardInterrupt]

    def interrupted(*args, **options):
        if interrupts:
            raise interrupts.pop()
        return arm(*args, **options)

    rig.loop.call_later = interrupted
    rig.now = 1001.0
    with pytest.raises(KeyboardInterrupt):
        rig.loop.fire()
    rig.now = 1002.0
    rig.loop.fire()
    assert rig.ran == ["it", "after"]


def test_cancelled_timers_are_swept_out(rig):
    rig.call_at(1000 + A_DAY / 2, "kept")
    alive = []
    for _ in range(1000):
        timer = rig.call_at(1000 + A_DAY / 4)
        alive.append(weakref.ref(timer._callbacks[0]))
        timer.cancel()
    del timer
    assert [ref() for ref in alive if ref() is not None] == []
    assert len(rig.loop.delays) == 2
    rig.now += A_DAY
    rig.loop.fire()
    assert rig.ran == ["kept"]


def test_it_runs_in_the_context_it_was_set_in(rig):
    who = contextvars.ContextVar("who", default="nobody")
    seen = []
    for name in ("first", "second"):
        who.set(name)
        rig.set(1000, lambda: seen.append(who.get()))
    who.set("third")
    rig.loop.fire()
    assert seen == ["first", "second"]


def test_a_loop_that_takes_no_attributes_runs_its_timers(rig):
    class Sealed(FakeLoop):
        def __setattr__(self, name, value):
            if name.startswith("_"):
                raise AttributeError(name)
            super().__setattr__(name, value)

    rig.loop = Sealed()
    timers = [rig.call_at(when, when) for when in (1002, 1001, 1003)]
    assert timers[0].cancel() is True
    rig.drain()
    assert sorted(rig.ran) == [1001, 1003]
    assert timers[1].cancel() is False


def test_an_alarm_that_is_set_again_forgets_its_time_though_another_loop_ran_meanwhile(rig):
    alarm = Bell(rig)
    rig.set(1001, alarm)
    rig.set(1001, lambda: None, FakeLoop())
    alarm.cancel()
    rig.set(1002, alarm)
    for rig.now in (1001, 1002):
        rig.loop.fire(0)
    assert rig.ran == [1002]


def test_a_new_loop_does_not_inherit_the_timers_of_a_dead_one(rig):
    """Even if it lies at the same address, and the handle of the dead one is kept somewhere."""
    rig.call_at(1001)
    kept, dead = rig.loop.armed, id(rig.loop)
    rig.loop = None
    others = []
    while id(loop := FakeLoop()) != dead and len(others) < 1000:
        others.append(loop)
    rig.loop = loop
    rig.call_at(1002, "new")
    rig.now = 1002.0
    assert len(loop.armed) == 1
    loop.fire()
    assert rig.ran == ["new"]
    assert len(kept) == 1


def test_no_timer_can_be_set_in_a_closed_loop_although_one_is_armed_there(rig):
    rig.call_at(1001)
    rig.loop.closed = True
    with pytest.raises(RuntimeError, match="is closed"):
        rig.call_at(1002)


def test_no_new_timer_depends_on_one_that_the_loop_may_have_lost(rig):
    rig.call_at(1001, "lost")
    rig.loop.lose()
    rig.now = 1001.01
    rig.call_at(1009, "later")
    assert rig.loop.delays[-1] < 0.1
    rig.loop.lose()  # an interrupt in each
    rig.now = 1009.5
    rig.call_at(1009.8, "new")
    rig.loop.fire()
    rig.now = 1010.0
    rig.loop.fire()
    assert rig.ran == ["lost", "later", "new"]


def test_a_loop_that_is_late_gets_one_more_handle_however_many_timers_are_set(rig):
    rig.call_at(1001, "first")
    rig.now = 1001.01
    for number in range(100):
        rig.call_at(1001 + number / 1000, number)
    assert len(rig.loop.armed) == 2
    rig.loop.fire(0)
    assert rig.ran == ["first", *range(11)]
    rig.call_at(1000, "at once")
    assert rig.loop.delays[-1] == 0.0


def test_a_callback_that_sets_itself_for_now_starves_nobody(rig):
    turns = []

    def again():
        turns.append(len(turns))
        if len(turns) < 5:
            rig.set(0, again)

    rig.set(1000, again)
    for turn in range(1, 6):
        rig.loop.fire()
        assert len(turns) == turn
    rig.drain()
    assert len(turns) == 5


def test_handles_for_cancelled_timers_do_not_pile_up(rig):
    for number in range(1000):
        rig.call_at(5000 - number).cancel()
    assert len(rig.loop.armed) < 50


def test_the_loop_may_be_run_again_inside_a_callback(rig):
    def nested():
        rig.call_at(rig.now, "inner")
        while rig.loop.armed:
            rig.loop.fire()
        rig.ran.append("outer")

    rig.set(1000, nested)
    rig.loop.fire()
    assert rig.ran == ["inner", "outer"]


@pytest.mark.parametrize("first", ["cancel", "fire"])
def test_a_callback_runs_or_is_prevented_wherever_another_thread_comes(monkeypatch, first):
    def make():
        rig = Rig()
        rig.timer = rig.call_at(1000)
        return rig

    acts = [lambda rig: rig.timer.cancel(), lambda rig: rig.loop.fire()]
    acts = acts if first == "cancel" else acts[::-1]
    found = [(rig.ran, {*outcomes}) for rig, outcomes in each_meeting(make, acts, monkeypatch)]
    right = [(["it"], {None, False}), ([], {None, True})]
    assert [each for each in found if each not in right] == []
    assert len(found) > 10
