"""Options: checked before the first call, on every face, and named; shown by signatures."""

import inspect
import math
import re
from datetime import timedelta
from functools import partial

import pytest

from backoff_ticker import (
    CancellationToken,
    CircuitBreaker,
    ConstantBackOff,
    RetryBudget,
    ZeroBackOff,
    attempts,
    configure,
    hedge_call,
    hedge_call_async,
    is_active,
    retry,
    retry_call,
    retry_call_async,
    retry_with,
)
from backoff_ticker.testing import VirtualClock
from backoff_ticker.types import HedgeOptions, RetryOptions
from tests.retries.faces import AND_HEDGES, in_loop
from tests.retries.hedges import HEDGES
from tests.retries.made_hooks import HOOKS
from tests.retries.scripts import ZERO, Script


def wrong(kind, *values):
    """Return values with the type of the error that refuses them."""
    return [(value, kind) for value in values]


BAD_SECONDS = [
    *wrong(TypeError, "1", True, []),
    *wrong(ValueError, -1, math.nan, math.inf, timedelta(seconds=-1), 10**400),
]
NOT_CALLABLE = wrong(TypeError, 3, "text", [print])
BAD = {
    "backoff": wrong(TypeError, 1.0, "x", ZeroBackOff, True, CancellationToken()),
    "on": [
        *wrong(TypeError, 5, "ValueError", (ValueError, 5), KeyboardInterrupt, BaseException, int),
        *wrong(TypeError, (ValueError, SystemExit), ValueError | SystemExit, ValueError | None),
        *wrong(TypeError, ValueError | int, [ValueError]),
    ],
    "until": NOT_CALLABLE,
    "token": wrong(TypeError, object(), True, CancellationToken),
    "timeout": BAD_SECONDS,
    "max_elapsed_time": [*BAD_SECONDS, *wrong(ValueError, 0)],
    "max_attempts": [*wrong(ValueError, 0, -1), *wrong(TypeError, True, 2.0, "3")],
    "max_retry_after": BAD_SECONDS,
    **dict.fromkeys(("notify", "around", *HOOKS), wrong(TypeError, 3, "text", [print, 3], {print})),
    "note": wrong(TypeError, 1, "no"),
    "breaker": wrong(TypeError, 5, object(), CircuitBreaker),
    "budget": wrong(TypeError, 10, object(), RetryBudget),
    "clock": wrong(TypeError, object(), VirtualClock, 1.0),
    "timer": wrong(TypeError, object(), 1.0),
    "name": [*wrong(TypeError, 3, b"prices", print), *wrong(ValueError, "")],
}


def refusal(face, name, value):
    """Return the type of the error that a run gives, or what is wrong with it."""
    script = Script(7)
    named = "backoff|decorates" if name == "backoff" and "decorator" in face.name else name
    try:
        face.run(script, **{name: value})
    except Exception as error:
        if script.count:
            return "called"
        if not re.search(named, str(error)):
            return f"unnamed: {error}"
        shown = [repr(value)[:20]] if value != 10**400 else ["too big"]
        if name == "on":
            parts = getattr(value, "__args__", value if isinstance(value, tuple) else (value,))
            shown += [getattr(part, "__name__", repr(part)) for part in parts]
        return type(error) if any(text in str(error) for text in shown) else f"unshown: {error}"
    return "accepted"


@AND_HEDGES
def test_a_bad_value_is_refused_by_a_message_that_tells_name_and_value(face):
    bad = {**BAD, "attempt_timeout": BAD_SECONDS} if face.asynchronous else BAD
    if face in HEDGES.values():
        bad = {name: BAD[name] for name in ("backoff", *HedgeOptions.__annotations__)}
    wrong = {
        (name, repr(value)[:40]): (found, kind)
        for name, cases in bad.items()
        for value, kind in cases
        if (found := refusal(face, name, value)) is not kind
    }
    assert wrong == {}


def test_the_options_most_like_an_unknown_one_are_named(face):
    script = Script(7)
    for name, alike in [("max_attempt", "max_attempts or on_attempt"), ("on_giveup", "on_give_up")]:
        with pytest.raises(TypeError, match=rf"no option '{name}': did you mean {alike}\? It has "):
            face.run(script, **{name: 3})
    with pytest.raises(
        TypeError, match=r"no option 'url'; it has backoff, on, until, token, timeout, "
    ):
        face.run(script, url="x")
    assert script.count == 0


class Connection:
    open = Script(OSError, None)

    def __init__(self):
        self.open()


def generator():
    yield


def by_coroutine(*args, **options):
    return in_loop(retry_call_async(*args, **options))


NEEDS_A_FUNCTION = "needs the function to retry, not .*ConstantBackOff"
NOT_CUT = "attempt_timeout=5.0, but only coroutines"
OPERATION_OF_CALL = "operation must be callable"
GOES_TO_ON = r"retry\(on=...\)"
DECORATES = "decorates a function .*, not "
NO_ARGUMENTS = [
    (call, *mistake)
    for call in (retry_call, by_coroutine, *HEDGES.values())
    for mistake in [
        (((Script(7), "http://x"), {}), r"^backoff must be .*'http://x'"),
        (((Script(7),), {"url": "x"}), r"no option 'url'"),
        (((ConstantBackOff,), {}), NEEDS_A_FUNCTION),
        *[(((wrong,), {}), OPERATION_OF_CALL) for wrong in (None, 7, "text", ValueError())],
    ]
]
MISTAKES = [
    *NO_ARGUMENTS,
    (attempts, (("http://x",), {}), "^backoff must be .*'http://x'$"),
    (attempts, ((), {"fallback": 7}), "has no option 'fallback'"),
    (lambda: iter(attempts(attempt_timeout=5)), ((), {}), NOT_CUT),
    (lambda: retry(attempt_timeout=5)(len), ((), {}), NOT_CUT),
    (retry_with, ((retry(len),), {"attempt_timeout": 5}), NOT_CUT),
    (retry_call, ((len,), {"attempt_timeout": 5}), NOT_CUT),
    (retry_call, ((Script(7).in_loop,), {}), "retry_call_async"),
    (retry_call, ((partial(Script(7).in_loop),), {}), "retry_call_async"),
    (by_coroutine, (([7].pop,), {}), "must return an awaitable"),
    (retry, ((print,), {"max_attempts": 3}), r"retry_call|@retry\("),
    (retry, ((print,), {"on": ValueError}), r"retry_call|@retry\("),
    *[(retry, ((wrong,), {}), GOES_TO_ON) for wrong in (OSError, (OSError,), OSError | ValueError)],
    *[(retry(ZERO), ((wrong,), {}), DECORATES) for wrong in (7, "text", None)],
    (retry(), ((property(lambda _: 1),), {}), "@property and the like go above @retry"),
    (retry, ((Connection,), {}), "not the class Connection"),
    (retry(ZERO), ((Connection,), {}), "not the class Connection"),
    (retry(fallback=None), ((generator,), {}), "fallback with a generator"),
    (retry(until=bool), ((generator,), {}), "until with a generator"),
    (retry_with, ((retry(len),), {"max_tries": 3}), r"retry_with\(\) has no option 'max_tries'"),
    *[(configure, ((), {"active": wrong}), "active must be a bool") for wrong in (None, 1, "off")],
    (configure, ((), {"token": 3}), "token must be a CancellationToken, not 3"),
]


@pytest.mark.parametrize(("function", "given", "told"), MISTAKES)
def test_a_mistake_is_refused_and_told_what_to_write(clock, function, given, told):
    args, options = given
    with pytest.raises(TypeError, match=told):
        function(*args, **options)
    assert is_active()


def test_a_class_is_not_decorated_but_may_be_called_again():
    assert isinstance(retry_call(Connection, ZERO), Connection)


OPTIONS = [
    *["on", "until", "token", "timeout", "attempt_timeout", "max_elapsed_time", "max_attempts"],
    *["max_retry_after", "notify", "around", "on_attempt", "on_retry", "on_success", "on_give_up"],
    *["fallback", "note", "budget", "breaker", "clock", "timer", "name"],
]
"""All options in the order in which they are shown."""

ALL = frozenset(OPTIONS)
TYPES = RetryOptions.__annotations__
HEDGED = frozenset(HedgeOptions.__annotations__) | {"fallback"}
# The parameters before the options, and the options.
TAKEN = {
    retry: (["backoff"], ALL),
    retry_call: (["operation", "backoff"], ALL),
    retry_call_async: (["operation", "backoff"], ALL),
    attempts: (["backoff"], ALL - {"fallback"}),
    hedge_call: (["operation", "backoff", "pool"], HEDGED),
    hedge_call_async: (["operation", "backoff"], HEDGED),
}
DEFAULTS = {**dict.fromkeys(OPTIONS), "max_retry_after": 21_600.0}


@pytest.mark.parametrize("function", TAKEN, ids=lambda one: one.__name__)
def test_each_option_is_shown_in_one_order_with_its_default_and_type(function):
    before, taken = TAKEN[function]
    shown = dict(inspect.signature(function).parameters)
    assert list(shown) == [*before, *(name for name in OPTIONS if name in taken)]
    for name in taken:
        expected = 5 if name == "max_attempts" and taken == HEDGED else DEFAULTS[name]
        if name == "fallback":  # of which None is a value
            assert shown[name].annotation == "object"
            assert repr(shown[name].default) == "NO_FALLBACK"
        else:
            assert shown[name].annotation == TYPES[name].__forward_arg__
            assert shown[name].default == expected
    assert inspect.iscoroutinefunction(function) == function.__name__.endswith("_async")


def test_an_option_that_is_taken_is_shown_and_checked():
    with pytest.raises(TypeError) as refused:
        retry(url="x")
    taken = str(refused.value).partition("; it has ")[2].split(", ")
    assert taken == ["backoff", *OPTIONS]
    assert {*BAD, "attempt_timeout", "fallback"} == {*taken}


def test_every_default_can_be_given():
    shown = inspect.signature(retry_call).parameters
    options = {name: shown[name].default for name in TAKEN[retry_call][1]}
    assert retry_call(lambda: "done", **options) == "done"
