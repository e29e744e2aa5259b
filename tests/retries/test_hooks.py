"""The hooks, and the context managers around attempts: when, in what order, and how they end."""

import asyncio
from contextlib import nullcontext
from itertools import product

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    CircuitOpen,
    ConstantBackOff,
    DeadlineExceeded,
    attempts,
    retry_call,
    retry_call_async,
)
from tests.helpers import sleep, time_limit
from tests.retries.faces import ALL_ASYNC, ASYNC, BOTH, FOUR, LOOPS, SYNC
from tests.retries.made_hooks import HOOKS, AsyncManager, Manager, noting, spanning, taking
from tests.retries.scripts import FIVE, ZERO, Recorded, Script, Takes, now
from tests.retries.test_breaker_option import until_a_reset


def ends_of(log):
    """Return what happened to the managers, without when."""
    return [entry[1:] for entry in log if entry[1] in ("in", "out")]


def left_with(log):
    """Return what each manager was left with; all of them were left, once, in reverse."""
    opened, errors = [], []
    for which, name, *told in ends_of(log):
        if which == "in":
            opened.append(name)
        else:
            assert opened.pop() == name
            errors += told
    assert opened == []
    return errors


def caused_by(error):
    """Return the types of an error and of what a traceback shows as having led to it."""
    kinds = []
    while error is not None:
        kinds.append(type(error))
        assert len(kinds) < 9, "the chain is a cycle"
        hidden = error.__suppress_context__
        error = error.__cause__ or (None if hidden else error.__context__)
    return kinds


def test_managers_surround_attempts_and_hooks_are_called_in_order(face):
    """No manager surrounds a wait; each of them returns True, and swallows nothing."""
    log, error = [], OSError()
    script = Script(Takes(2, error), lambda: log.append("called") or 7)
    around = [spanning(log, "a"), spanning(log, "b")]
    assert face.run(script, FIVE, around=around, **noting(log)) == 7
    assert log == [
        *[(0, "in", "a 1"), (0, "in", "b 1"), (0, "on_attempt")],
        *[(2, "out", "b 1", error), (2, "out", "a 1", error), (2, "notify"), (2, "on_retry")],
        *[(7, "in", "a 2"), (7, "in", "b 2"), (7, "on_attempt"), "called"],
        *[(7, "out", "b 2", None), (7, "out", "a 2", None), (7, "on_success")],
    ]


@ALL_ASYNC
def test_a_coroutine_awaits_asynchronous_managers_and_hooks(face):
    log, error = [], OSError()

    def slow(name):
        async def hook(*_):
            await sleep(1)
            log.append((now(), name))

        return hook

    hooks = {name: slow(name) for name in ("notify", *HOOKS)}
    around = [spanning(log, "a", AsyncManager), spanning(log, "b")]
    face.fails(OSError, Script(error), FIVE, max_attempts=2, around=around, **hooks)
    assert log == [
        *[(1, "in", "a 1"), (1, "in", "b 1"), (2, "on_attempt")],
        *[(2, "out", "b 1", error), (3, "out", "a 1", error), (4, "notify"), (5, "on_retry")],
        *[(11, "in", "a 2"), (11, "in", "b 2"), (12, "on_attempt")],
        *[(12, "out", "b 2", error), (13, "out", "a 2", error), (14, "on_give_up")],
    ]


@LOOPS
def test_in_a_loop_it_is_entered_with_the_block(face):
    log = []
    run = attempts(FIVE, around=spanning(log), on_attempt=lambda _: log.append("on"))
    face.blocks(run, lambda _: log.append("block"), before=lambda _: log.append("step"))
    assert log == ["step", (0, "in", "span 1"), "on", "block", (0, "out", "span 1", None)]


@FOUR
def test_what_hooks_return_does_not_matter(face):
    log = []
    for answer in (False, 7, Manager(log, "returned", {})):
        hooks = dict.fromkeys(("notify", *HOOKS), lambda *_, answer=answer: answer)
        assert face.run(Script(OSError, 7), ZERO, **hooks) == 7
    assert log == []


@pytest.mark.parametrize("number", [0, 2])
def test_hooks_may_be_any_number_of_functions(face, number):
    told, error, log = Recorded(), OSError(), []
    many = dict.fromkeys(HOOKS, [told] * number)
    face.run(Script(error, 7), FIVE, around=[spanning(log)] * number, **many)
    assert [when for when, _ in told.calls] == [*[0] * number * 2, *[5] * number * 2]
    assert left_with(log) == [*[error] * number, *[None] * number]


def cancelling(token):
    return {"token": token, "on_attempt": lambda seen: seen.attempts == 2 and token.cancel()}


def late(_):
    return {"timeout": 9, "on_attempt": lambda seen: seen.attempts == 2 and taking(9)()}


# What ends an attempt, options made with a new token, and what its managers are left with.
ENDS = {
    "KeyboardInterrupt": (KeyboardInterrupt, lambda _: {}, KeyboardInterrupt),
    "SystemExit": (SystemExit, lambda _: {}, SystemExit),
    "a cancel before the call": (7, cancelling, Cancelled),
    "a limit before the call": (7, late, DeadlineExceeded),
    "a refusal": (7, lambda _: {"breaker": until_a_reset()}, CircuitOpen),
}
HANG = Takes(50, 7)
CUTS = {
    "a token": (HANG, lambda _: {"token": CancellationToken(timeout=9)}, DeadlineExceeded),
    "timeout": (HANG, lambda _: {"timeout": 9}, DeadlineExceeded),
    "attempt_timeout": (HANG, lambda _: {"attempt_timeout": 1, "max_attempts": 2}, TimeoutError),
}


def test_a_manager_is_left_once_with_what_ended_or_cut_the_attempt(face):
    for name, (step, make, kind) in (ENDS | CUTS if face.asynchronous else ENDS).items():
        log, script = [], Script(OSError, step)
        around = [spanning(log, "a"), spanning(log, "b")]
        caught = face.fails(kind, script, FIVE, around=around, **make(CancellationToken()))
        assert step != 7 or script.count < 2, name
        errors = left_with(log)
        assert {type(error) for error in errors[:2]} == {OSError if "a 2" in str(log) else kind}
        assert errors[-1] is errors[-2] is caught, name


@FOUR
@pytest.mark.parametrize("name", [*HOOKS[:3], "notify"])
def test_an_interrupt_of_a_hook_passes_and_nobody_gives_up(face, name):
    log, interrupt = [], KeyboardInterrupt()
    hooks = noting(log) | {name: Recorded(interrupt)}
    caught = face.fails(KeyboardInterrupt, Script(OSError, 7), FIVE, around=spanning(log), **hooks)
    assert caught is interrupt
    assert (left_with(log)[0] is interrupt) == (name == "on_attempt")
    assert "on_give_up" not in {entry[1] for entry in log}


@ASYNC
@pytest.mark.parametrize("when", [0.5, 1.5, 2.5, 7])
def test_a_manager_is_left_once_when_the_task_is_cancelled(face, when):
    """As it is entered, in the attempt, as it is left, and in the wait."""
    log = []

    async def main():
        around = [spanning(log, "a"), spanning(log, "b", AsyncManager)]
        async with time_limit(when):
            step = Takes(1, OSError)
            await face.main(Script(step), ConstantBackOff(50), around=around, **noting(log))

    with pytest.raises(TimeoutError):
        face.in_loop(main())
    told = {0.5: ["C"], 1.5: ["C", "C"], 2.5: ["C"], 7: ["O", "O"]}[when]
    outs = [entry for entry in log if entry[1] == "out"]
    assert [type(error).__name__[0] for *_, error in outs] == told
    assert {entry[2] for entry in outs} == ({"a 1", "b 1"} if len(told) == 2 else {"a 1"})
    assert "on_give_up" not in {entry[1] for entry in log}


def test_an_error_of_a_hook_ends_the_run_and_leaves_the_managers(face):
    for name in ("on_attempt", "notify", "on_retry", "on_success"):
        own, log, gave_up = LookupError(name), [], Recorded()
        several = [Recorded(True), Recorded(own), Recorded(AssertionError)]  # two are called
        hooks = noting(log) | {"on_give_up": gave_up, name: several}
        script = Script(7 if name == "on_success" else OSError, 7)
        assert face.fails(LookupError, script, FIVE, around=spanning(log), **hooks) is own
        assert script.count == (name != "on_attempt") == gave_up.last.attempts
        assert [outcome.reason for _, outcome in gave_up.calls] == ["failed"]
        (error,) = left_with(log)
        assert error is own if name == "on_attempt" else type(error) in (OSError, type(None))


@pytest.mark.parametrize("raised", [LookupError, KeyboardInterrupt])
@pytest.mark.parametrize("how", ["call", "enter", "leave"])
def test_an_error_of_a_manager_ends_the_run_and_the_others_are_left(face, how, raised):
    kinds = [Manager, AsyncManager] if face.asynchronous else [Manager]
    for second, kind in product([False, True], kinds):
        own, log, gave_up, called = raised(how), [], Recorded(), Recorded()
        failing = spanning(log, "b", kind, **{how: own})
        around = [
            spanning(log, "a"),
            lambda seen, failing=failing, second=second: (
                failing(seen) if seen.attempts == 1 + second else nullcontext()
            ),
            spanning(log, "c"),
        ]
        script = Script(*[OSError] * second, KeyError)
        options = {"around": around, "on_attempt": called, "on_give_up": gave_up}
        assert face.fails(raised, script, FIVE, max_attempts=3, **options) is own
        count = second + (how == "leave")
        assert script.count == count == len(called.calls)
        ends = [(outcome.reason, outcome.attempts) for _, outcome in gave_up.calls]
        assert ends == [("failed", count)] * (raised is LookupError)
        last = {"leave": [KeyError]}.get(how, [OSError] * second)
        assert raised is KeyboardInterrupt or caused_by(own) == [raised, *last]
        told = [entry[1:3] for entry in log if entry[2].endswith(f" {1 + second}")]
        whole = [("in", "a"), ("in", "b"), ("in", "c"), ("out", "c"), ("out", "b"), ("out", "a")]
        made = {"call": [0, 5], "enter": [0, 1, 5], "leave": range(6)}[how]
        assert [(end, name[0]) for end, name in told] == [whole[one] for one in made]
        if how != "leave":
            assert log[-1][-1] is own


@FOUR
def test_of_several_managers_that_fail_the_last_error_is_raised_and_has_the_others(face):
    log, a, b = [], LookupError("a"), ValueError("b")
    around = [spanning(log, "a", leave=a), spanning(log, "b", leave=b)]
    caught = face.fails(LookupError, Script(OSError), FIVE, around=around)
    assert caused_by(caught) == [LookupError, ValueError, OSError]
    assert [type(error) for error in left_with(log)] == [OSError, OSError]


@FOUR
def test_what_is_no_context_manager_is_refused(face):
    def generator(_):
        yield

    def with_only(name):
        return lambda _: type("Half", (), {name: entered})()

    entered = Recorded()
    asynchronous = lambda seen: spanning(log, manager=AsyncManager)(seen)
    in_thread = [(asynchronous, "asynchronous context manager: only a coroutine")]
    for wrong, told in [
        *([] if face.asynchronous else in_thread),
        (lambda _: None, "around must return a context manager, not None"),
        (generator, "not <generator .*: is @contextmanager missing"),
        (with_only("__enter__"), "around must return a context manager, not .*Half"),
        (with_only("__exit__"), "around must return a context manager, not .*Half"),
        (with_only("__aenter__"), "around must return a context manager, not .*Half"),
    ]:
        log, script = [], Script(7)
        face.fails(TypeError, script, around=[spanning(log), wrong], match=told)
        assert script.count == 0
        assert [type(error) for error in left_with(log)] == [TypeError]
    assert entered.calls == []


@SYNC
@pytest.mark.parametrize("name", [*HOOKS, "notify"])
def test_a_thread_awaits_no_hook(face, name):
    """Nor is its coroutine left behind unawaited, which would be a warning."""
    options = {"max_attempts": 1 if name == "on_give_up" else 2, name: lambda *_: sleep(0)}
    with pytest.raises(TypeError, match=f"{name} must be a plain function"):
        face.run(Script(OSError, 7), FIVE, **options)


@BOTH
def test_an_operation_of_the_wrong_kind_is_to_blame_itself(face):
    ends = []
    with pytest.raises(TypeError, match="returned a coroutine|must return an awaitable") as caught:
        if face.asynchronous:
            asyncio.run(retry_call_async([7].pop, on_give_up=ends.append))
        else:
            retry_call([sleep(0)].pop, on_give_up=ends.append)
    assert [outcome.reason for outcome in ends] == ["failed"]
    assert caught.value.__notes__ == ["gave up after 1 attempt in 0.0 s: list.pop failed"]


@ASYNC
def test_a_manager_of_both_kinds_is_entered_as_an_asynchronous_one(face):
    class Both(AsyncManager):
        def __enter__(self):
            raise TypeError("use async with instead")

        __exit__ = None

    log = []
    assert face.run(Script(7), around=spanning(log, manager=Both)) == 7
    assert [which for _, which, *_ in log] == ["in", "out"]
