"""The four hooks: when they are called, what their managers span, and that these are left once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Cancelled,
    ConstantBackOff,
    StopReason,
    ZeroBackOff,
    attempts,
    retry,
    retry_call,
    retry_call_async,
)
from tests.retries.faces import BOTH, FOUR, SYNC
from tests.retries.made_hooks import HOOKS, ends_of, spanning
from tests.retries.made_policies import at
from tests.retries.scripts import Recorded, Script, Takes, now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backoff_ticker import Outcome
    from backoff_ticker.testing import VirtualClock


@BOTH
def test_each_hook_is_called_in_its_place(face: Any) -> None:
    log: list[Any] = []
    hooks = {
        name: lambda outcome, name=name: log.append((now(), name, outcome.attempts))
        for name in HOOKS
    }
    face.run(Script(Takes(2, OSError), 7), ConstantBackOff(5), **hooks)
    assert log == [
        (0, "on_attempt", 1),
        (2, "on_retry", 1),
        (7, "on_attempt", 2),
        (7, "on_success", 2),
    ]
    log.clear()
    with pytest.raises(OSError):
        face.run(Script(OSError), ConstantBackOff(5), max_attempts=2, **hooks)
    assert [(name, attempts) for _, name, attempts in log] == [
        ("on_attempt", 1),
        ("on_retry", 1),
        ("on_attempt", 2),
        ("on_give_up", 2),
    ]


def test_a_manager_spans_the_attempt_or_the_wait(face: Any) -> None:
    log: list[Any] = []
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


def test_a_manager_swallows_nothing_and_is_left_once_on_failure(face: Any) -> None:
    """Each of them returns True."""
    log: list[Any] = []
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
def test_managers_are_left_once_when_a_cancel_ends_the_wait(face: Any, clock: VirtualClock) -> None:
    log: list[Any] = []
    token = CancellationToken()
    at(clock, 3, token.cancel)
    with pytest.raises(Cancelled):
        face.run(Script(OSError), ConstantBackOff(5), token=token, **spanning(log))
    assert [(when, which, name) for when, which, name, *_ in log] == [
        (0, "in", "on_attempt 1"),
        (0, "out", "on_attempt 1"),
        (0, "in", "on_retry 1"),
        (3, "out", "on_retry 1"),
        (3, "in", "on_give_up 1"),
        (3, "out", "on_give_up 1"),
    ]


def test_managers_are_left_once_when_an_interrupt_ends_the_attempt(face: Any) -> None:
    for interrupt in (KeyboardInterrupt(), SystemExit()):
        log: list[Any] = []
        with pytest.raises(type(interrupt)):
            face.run(Script(OSError, interrupt), ConstantBackOff(5), **spanning(log))
        assert ends_of(log, "on_attempt")[2:] == [("in",), ("out", interrupt)]
        assert ends_of(log, "on_retry") == [("in",), ("out", None)]
        assert ends_of(log, "on_give_up") == ends_of(log, "on_success") == []


@SYNC
def test_managers_are_left_once_when_ctrl_c_ends_the_wait(face: Any, clock: VirtualClock) -> None:
    log: list[Any] = []
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
def test_an_interrupt_of_a_hook_passes_and_nobody_gives_up(face: Any) -> None:
    for name in HOOKS[:3]:
        log: list[Any] = []
        interrupt = KeyboardInterrupt()
        hooks = spanning(log) | {name: Recorded(interrupt)}
        with pytest.raises(KeyboardInterrupt) as caught:
            face.run(Script(OSError, 7), ConstantBackOff(5), **hooks)
        assert caught.value is interrupt
        assert ends_of(log, "on_give_up") == []
        for other in HOOKS:
            ends = [which for which, *_ in ends_of(log, other)]
            assert ends == ["in", "out"] * (len(ends) // 2)


@BOTH
def test_runs_one_after_the_other_share_no_managers(face: Any) -> None:
    log: list[Any] = []
    hooks = spanning(log)
    for _ in range(3):
        face.run(Script(OSError, 7), ConstantBackOff(5), **hooks)
    for name, count in [("on_attempt", 6), ("on_retry", 3), ("on_success", 3)]:
        assert [which for which, *_ in ends_of(log, name)] == ["in", "out"] * count


def test_calls_of_a_decorated_function_share_no_managers(clock: VirtualClock) -> None:
    log: list[Any] = []
    script = Script(OSError, 7, OSError, 8)
    decorated = retry(ConstantBackOff(5), **spanning(log, "on_retry"))(lambda: script())
    assert (decorated(), decorated()) == (7, 8)
    assert [(when, which) for when, which, *_ in log] == [
        (0, "in"),
        (5, "out"),
        (5, "in"),
        (10, "out"),
    ]


@BOTH
def test_managers_made_by_contextlib_will_do(face: Any) -> None:
    log: list[Any] = []

    @contextlib.contextmanager
    def hook(outcome: Any) -> Any:
        log.append(outcome.attempts)
        try:
            yield
        except OSError:
            log.append("swallowed")
        else:
            log.append("left")

    assert face.run(Script(OSError, 7), ConstantBackOff(5), on_attempt=hook, on_retry=hook) == 7
    assert log == [1, "swallowed", 1, "left", 2, "left"]


# Errors in hooks


def made(name: str, how: str, own: Exception, log: list[Any]) -> dict[str, Any]:
    """Return a hook that fails itself, or whose manager does."""
    return {name: Recorded(own)} if how == "call" else spanning(log, name, **{how: own})


def test_an_error_of_a_hook_ends_the_run(face: Any) -> None:
    for how in ("call", "enter", "leave"):
        for name in ("on_attempt", "on_retry"):
            own, gave_up, log = LookupError(name), Recorded(), []
            script = Script(OSError, 7)
            hooks = made(name, how, own, log)
            with pytest.raises(LookupError) as caught:
                face.run(script, ConstantBackOff(5), on_give_up=gave_up, **hooks)
            assert caught.value is own
            assert script.count == (0 if name == "on_attempt" and how != "leave" else 1)
            assert [outcome.reason for _, outcome in gave_up.calls] == [StopReason.FAILED]
            ends = [which for _, which, *_ in log]
            assert ends == {"call": [], "enter": ["in"], "leave": ["in", "out"]}[how]


@FOUR
def test_an_error_of_the_hook_of_success_is_raised_instead_of_the_result(face: Any) -> None:
    for how in ("call", "enter", "leave"):
        own, log = LookupError(how), []
        script = Script(OSError, 7)
        with pytest.raises(LookupError) as caught:
            face.run(script, ConstantBackOff(5), **made("on_success", how, own, log))
        assert caught.value is own
        assert script.count == 2
        ends = [which for _, which, *_ in log]
        assert ends == {"call": [], "enter": ["in"], "leave": ["in", "out"]}[how]


@BOTH
def test_a_run_that_the_hook_of_success_fails_is_given_up(face: Any) -> None:
    gave_up = Recorded()
    with pytest.raises(LookupError):
        face.run(Script(7), on_success=Recorded(LookupError()), on_give_up=gave_up)
    assert [outcome.reason for _, outcome in gave_up.calls] == [StopReason.FAILED]


@FOUR
def test_an_error_of_the_last_hook_is_raised(face: Any) -> None:
    for how in ("call", "enter", "leave"):
        own, log = LookupError("own"), []
        hooks = made("on_give_up", how, own, log)
        script = Script(OSError, 7)
        with pytest.raises(LookupError) as caught:
            face.run(script, ConstantBackOff(5), max_attempts=1, **hooks)
        assert caught.value is own
        assert script.count == 1
        calls = hooks["on_give_up"].calls if how == "call" else ends_of(log, "on_give_up")
        assert len(calls) == {"call": 1, "enter": 1, "leave": 2}[how]


@BOTH
def test_an_error_of_notify_ends_the_run(face: Any) -> None:
    own, gave_up, hook = LookupError("own"), Recorded(), Recorded()
    script = Script(OSError, 7)
    with pytest.raises(LookupError) as caught:
        face.run(script, ZeroBackOff(), notify=Recorded(own), on_give_up=gave_up, on_retry=hook)
    assert caught.value is own
    assert (script.count, hook.calls) == (1, [])
    assert gave_up.last.reason is StopReason.FAILED


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.usefixtures("clock")
def test_what_stands_between_the_blocks_is_in_no_manager(delay: float) -> None:
    log: list[str] = []

    @contextlib.contextmanager
    def span(outcome: Outcome) -> Iterator[None]:
        log.append(f"in {outcome.attempts}")
        yield

    for attempt in attempts(ConstantBackOff(delay), on_attempt=span):
        with attempt:
            if attempt.number == 1:
                raise OSError
        log.append(f"after {attempt.outcome.attempts}")
    assert log == ["in 1", "after 1", "in 2", "after 2"]


async def give() -> int:
    return 7


@BOTH
def test_an_operation_of_the_wrong_kind_is_to_blame_itself(face: Any) -> None:
    ends: list[Any] = []
    with pytest.raises(TypeError, match="returned a coroutine|must return an awaitable") as caught:
        if face.asynchronous:
            asyncio.run(retry_call_async([7].pop, on_give_up=ends.append))  # type: ignore[arg-type]
        else:
            retry_call([give()].pop, on_give_up=ends.append)
    assert [outcome.reason for outcome in ends] == [StopReason.FAILED]
    assert caught.value.__notes__ == ["gave up after 1 attempt in 0.0 s: list.pop failed"]


# Several hooks for one


def both(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return hooks of which each is a list of two."""
    return {name: [first[name], second[name]] for name in first}


def named(log: list[Any], name: str, **failing: Any) -> dict[str, Any]:
    """Return hooks that log that they are called, and whose managers log, as ``name``."""
    inner = spanning([], **failing)

    def hook(kind: str) -> Any:
        def made(outcome: Any) -> Any:
            log.append((name, kind, "called"))
            manager = inner[kind](outcome)
            manager._log = _Renamed(log, name, kind)
            return manager

        return made

    return {kind: hook(kind) for kind in HOOKS}


class _Renamed:
    def __init__(self, log: list[Any], name: str, kind: str) -> None:
        self._log, self._told = log, (name, kind)

    def append(self, entry: Any) -> None:
        self._log.append((*self._told, entry[1], *entry[3:]))


def test_hooks_are_called_in_order_and_their_managers_left_in_reverse(face: Any) -> None:
    log: list[Any] = []
    error = OSError()
    face.run(Script(error, 7), ConstantBackOff(5), **both(named(log, "a"), named(log, "b")))

    def spanned(kind: str, error: Any = None) -> list[Any]:
        called = [(name, kind, "called") for name in "ab"]
        entered = [(name, kind, "in") for name in "ab"]
        return [*called, *entered, *[(name, kind, "out", error) for name in "ba"]]

    assert log == [
        *spanned("on_attempt", error),
        *spanned("on_retry"),
        *spanned("on_attempt"),
        *spanned("on_success"),
    ]


@FOUR
def test_a_hook_that_fails_ends_the_run_and_those_after_it_are_not_called(face: Any) -> None:
    for kind in HOOKS[:3]:
        log: list[Any] = []
        hooks = both(named(log, "a"), named(log, "b"))
        own = LookupError(kind)
        hooks[kind].insert(1, Recorded(own))
        with pytest.raises(LookupError) as caught:
            face.run(Script(OSError, 7), ConstantBackOff(5), **hooks)
        assert caught.value is own
        assert ("a", kind, "called") in log
        assert ("b", kind, "called") not in log
        assert ("b", "on_give_up", "called") in log


@FOUR
def test_a_manager_that_fails_leaves_those_around_it_with_its_error(face: Any) -> None:
    for end in ("enter", "leave"):
        log: list[Any] = []
        own = LookupError(end)
        hooks = both(named(log, "a"), named(log, "b", **{end: own}))
        with pytest.raises(LookupError) as caught:
            face.run(Script(7), on_attempt=hooks["on_attempt"])
        assert caught.value is own
        assert [entry[2:] for entry in log if entry[0] == "a"] == [
            ("called",),
            ("in",),
            ("out", own),
        ]


def test_notify_may_be_several_functions(face: Any) -> None:
    log: list[Any] = []
    error = OSError()
    notify = (lambda *told: log.append(("a", *told)), lambda *told: log.append(("b", *told)))
    face.run(Script(error, 7), ConstantBackOff(5), notify=notify)
    assert log == [("a", error, 5), ("b", error, 5)]


@BOTH
def test_no_hooks_are_no_hooks(face: Any) -> None:
    script = Script(OSError, 7)
    assert face.run(script, ZeroBackOff(), notify=[], **dict.fromkeys(HOOKS, ())) == 7


def test_a_list_of_hooks_that_changes_later_changes_no_retry() -> None:
    log: list[Any] = []
    hooks = [lambda _: log.append("first")]

    @retry(on_attempt=hooks)
    def fetch() -> int:
        return 7

    hooks.append(lambda _: log.append("second"))
    fetch()
    assert log == ["first"]
