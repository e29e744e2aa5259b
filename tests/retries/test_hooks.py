"""The four hooks: when they are called, what their managers span, and that these are left once."""

import asyncio
import signal

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    StopReason,
    retry_call,
    retry_call_async,
)
from tests.retries.faces import BOTH, FACES, FOUR, SYNC, in_loop, on_faces
from tests.retries.made_hooks import HOOKS, AsyncManager, ends_of, spanning
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, Script, Takes, now


def test_a_manager_spans_the_attempt_or_the_wait(face):
    log = []
    error = OSError()
    script = Script(Takes(2, error), lambda: log.append("called") or 7)
    assert face.run(script, ConstantBackOff(5), **spanning(log)) == 7
    assert log == [
        (0, "in", "on_attempt 1"),
        (2, "out", "on_attempt 1", error),
        (2, "in", "on_retry 1"),
        (7, "out", "on_retry 1", None),
        (7, "in", "on_attempt 2"),
        "called",
        (7, "out", "on_attempt 2", None),
        (7, "in", "on_success 2"),
        (7, "out", "on_success 2", None),
    ]


def test_a_manager_swallows_nothing_and_is_left_once_on_failure(face):
    """Each of them returns True."""
    log = []
    errors = [OSError(1), OSError(2)]
    with pytest.raises(OSError) as caught:
        face.run(Script(*errors), ConstantBackOff(5), max_attempts=2, **spanning(log))
    assert caught.value is errors[1]
    assert ends_of(log, "on_attempt") == [("in",), ("out", errors[0]), ("in",), ("out", errors[1])]
    assert ends_of(log, "on_retry") == [("in",), ("out", None)]
    assert [which for which, *_ in ends_of(log, "on_give_up")] == ["in", "out"]
    assert ends_of(log, "on_success") == []
    assert log[-2][:3] == (5, "in", "on_give_up 2")


@FOUR
def test_managers_are_left_once_when_a_cancel_ends_the_wait(face, clock):
    log, token = [], CancellationToken()
    at(clock, 3, token.cancel)
    with pytest.raises(Cancelled):
        face.run(Script(OSError), ConstantBackOff(5), token=token, **spanning(log))
    assert [entry[:3] for entry in log] == [
        *[(0, "in", "on_attempt 1"), (0, "out", "on_attempt 1")],
        *[(0, "in", "on_retry 1"), (3, "out", "on_retry 1")],
        *[(3, "in", "on_give_up 1"), (3, "out", "on_give_up 1")],
    ]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit()], ids=repr)
def test_managers_are_left_once_when_an_interrupt_ends_the_attempt(face, interrupt):
    log = []
    with pytest.raises(type(interrupt)):
        face.run(Script(OSError, interrupt), ConstantBackOff(5), **spanning(log))
    assert ends_of(log, "on_attempt")[2:] == [("in",), ("out", interrupt)]
    assert ends_of(log, "on_retry") == [("in",), ("out", None)]
    assert ends_of(log, "on_give_up") == ends_of(log, "on_success") == []


@SYNC
def test_managers_are_left_once_when_ctrl_c_ends_the_wait(face, clock):
    log = []
    at(clock, 3, lambda: signal.raise_signal(signal.SIGINT))
    script = Script(OSError, 7)
    with pytest.raises(KeyboardInterrupt):
        face.run(script, ConstantBackOff(50), token=CancellationToken(), **spanning(log))
    assert (script.times, now()) == ([0], 3)
    entered, (left, error) = ends_of(log, "on_retry")
    assert (entered, left) == (("in",), "out")
    assert isinstance(error, KeyboardInterrupt)
    assert ends_of(log, "on_give_up") == []


@FOUR
@pytest.mark.parametrize("name", HOOKS[:3])
def test_an_interrupt_of_a_hook_passes_and_nobody_gives_up(face, name):
    log, interrupt = [], KeyboardInterrupt()
    hooks = spanning(log) | {name: Recorded(interrupt)}
    with pytest.raises(KeyboardInterrupt) as caught:
        face.run(Script(OSError, 7), ConstantBackOff(5), **hooks)
    assert caught.value is interrupt
    assert ends_of(log, "on_give_up") == []
    for other in HOOKS:
        ends = [which for which, *_ in ends_of(log, other)]
        assert ends == ["in", "out"] * (len(ends) // 2)


# Errors in hooks


def made(name, how, own, log):
    """Return a hook that fails itself, or whose manager does."""
    return {name: Recorded(own)} if how == "call" else spanning(log, name, **{how: own})


@pytest.mark.parametrize("how", ["call", "enter", "leave"])
def test_an_error_of_a_hook_ends_the_run(face, how):
    for name in ("on_attempt", "notify", "on_retry", "on_success"):
        if name == "notify" and how != "call":
            continue
        own, gave_up, log = LookupError(name), Recorded(), []
        script = Script(7 if name == "on_success" else OSError, 7)
        hooks = made(name, how, own, log)
        with pytest.raises(LookupError) as caught:
            face.run(script, ConstantBackOff(5), on_give_up=gave_up, **hooks)
        assert caught.value is own
        assert script.count == (0 if name == "on_attempt" and how != "leave" else 1)
        assert [outcome.reason for _, outcome in gave_up.calls] == [StopReason.FAILED]
        ends = [which for _, which, *_ in log]
        assert ends == {"call": [], "enter": ["in"], "leave": ["in", "out"]}[how]


@BOTH
def test_an_operation_of_the_wrong_kind_is_to_blame_itself(face):
    ends = []
    with pytest.raises(TypeError, match="returned a coroutine|must return an awaitable") as caught:
        if face.asynchronous:
            asyncio.run(retry_call_async([7].pop, on_give_up=ends.append))
        else:
            retry_call([asyncio.sleep(0)].pop, on_give_up=ends.append)
    assert [outcome.reason for outcome in ends] == [StopReason.FAILED]
    assert caught.value.__notes__ == ["gave up after 1 attempt in 0.0 s: list.pop failed"]


# Several hooks for one


def both(first, second):
    """Return hooks of which each is a list of two."""
    return {name: [first[name], second[name]] for name in first}


def test_hooks_are_called_in_order_and_their_managers_left_in_reverse(face):
    log = []
    error = OSError()
    hooks = both(spanning(log, by="a"), spanning(log, by="b"))
    face.run(Script(error, 7), ConstantBackOff(5), **hooks)

    def spanned(kind, error=None):
        begun = [(what, f"{by} {kind}") for what in ("called", "in") for by in "ab"]
        return [*begun, *[("out", f"{by} {kind}", error) for by in "ba"]]

    assert [entry[1:] for entry in log] == [
        *spanned("on_attempt", error),
        *spanned("on_retry"),
        *spanned("on_attempt"),
        *spanned("on_success"),
    ]


@FOUR
@pytest.mark.parametrize("kind", HOOKS[:3])
def test_a_hook_that_fails_ends_the_run_and_those_after_it_are_not_called(face, kind):
    log, own = [], LookupError(kind)
    hooks = both(spanning(log, by="a"), spanning(log, by="b"))
    hooks[kind].insert(1, Recorded(own))
    with pytest.raises(LookupError) as caught:
        face.run(Script(OSError, 7), ConstantBackOff(5), **hooks)
    assert caught.value is own
    called = [name for _, what, name, *_ in log if what == "called"]
    assert f"a {kind}" in called
    assert f"b {kind}" not in called
    assert "b on_give_up" in called


@pytest.mark.parametrize("number", [0, 2])
def test_notify_may_be_any_number_of_functions(face, number):
    told, error = Recorded(), OSError()
    no_hooks = dict.fromkeys(HOOKS, ())
    face.run(Script(error, 7), ConstantBackOff(5), notify=[told] * number, **no_hooks)
    assert told.calls == [(0, error, 5)] * number


# In coroutines: awaitable hooks, and asynchronous context managers


AWAITING = on_faces("async call", "async loop, async with")


@AWAITING
@pytest.mark.parametrize("slow", [False, True])
def test_asynchronous_managers_span_attempts_and_waits(face, slow):
    """Each of them returns True, which swallows nothing."""
    log = []
    errors = [OSError(1), OSError(2)]
    hooks = spanning(log, manager=AsyncManager, slow=slow)
    with pytest.raises(OSError) as caught:
        face.run(Script(*errors), ConstantBackOff(50), max_attempts=2, **hooks)
    assert caught.value is errors[1]
    assert [entry[1:] for entry in log] == [
        ("in", "on_attempt 1"),
        ("out", "on_attempt 1", errors[0]),
        ("in", "on_retry 1"),
        ("out", "on_retry 1", None),
        ("in", "on_attempt 2"),
        ("out", "on_attempt 2", errors[1]),
        ("in", "on_give_up 2"),
        ("out", "on_give_up 2", None),
    ]
    assert log[3][0] - log[2][0] == 51


@AWAITING
@pytest.mark.parametrize(
    ("when", "step", "last"), [(0.5, Takes(1, 7), "on_attempt"), (3, Takes(1, OSError), "on_retry")]
)
def test_managers_are_left_once_when_the_task_is_cancelled(face, when, step, last):
    log = []

    async def main():
        async with asyncio.timeout(when):
            await face.main(Script(step), ConstantBackOff(5), **spanning(log))

    with pytest.raises(TimeoutError):
        in_loop(main())
    assert now() == when
    entered, (ended, error) = ends_of(log, last)
    assert (entered, ended) == (("in",), "out")
    assert isinstance(error, asyncio.CancelledError)
    assert ends_of(log, "on_give_up") == ends_of(log, "on_success") == []


def test_a_plain_with_enters_no_manager_if_one_of_them_is_asynchronous(clock):
    log, script = [], Script(7)
    hooks = both(spanning(log), spanning(log, manager=AsyncManager))
    with pytest.raises(RuntimeError, match="async with"):
        FACES["async loop"].run(script, on_attempt=hooks["on_attempt"])
    assert (script.count, log) == (0, [])


def test_a_plain_with_goes_with_asynchronous_managers_of_waits_and_ends(clock):
    log = []
    hooks = spanning(log, "on_retry", "on_success", manager=AsyncManager)
    assert FACES["async loop"].run(Script(OSError, 7), ConstantBackOff(5), **hooks) == 7
    names = ["on_retry 1", "on_success 2"]
    assert [entry[1:3] for entry in log] == [(end, name) for name in names for end in ("in", "out")]


@SYNC
@pytest.mark.parametrize("name", HOOKS)
def test_a_thread_awaits_no_hook(face, name):
    """Nor is its coroutine left behind unawaited, which would be a warning."""
    options = {"max_attempts": 1 if name == "on_give_up" else 2, name: lambda _: asyncio.sleep(0)}
    with pytest.raises(TypeError, match=f"{name} must be a plain function"):
        face.run(Script(OSError, 7), ConstantBackOff(5), **options)
