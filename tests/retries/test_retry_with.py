"""``retry_with()`` and ``retry_options()``: the same function with other options."""

import functools
import inspect
from types import MethodType

import pytest

from backoff_ticker import RejectedResult, ZeroBackOff, retry, retry_options, retry_with
from tests.retries.made_client import KINDS, OF_CLASS, STATIC, Client, result_of
from tests.retries.scripts import FIVE, ONE, TEN, Recorded, Script, now


def attempts_of(call, script):
    """Return how many attempts a call makes that never succeeds."""
    before = script.count
    with pytest.raises(OSError):
        result_of(call())
    return script.count - before


def test_what_is_named_is_changed_and_the_rest_kept(clock):
    script, told = Script(OSError), Recorded()

    @retry(FIVE, on=OSError, max_attempts=3, on_give_up=told)
    def fetch():
        """Fetch."""
        return script()

    once = retry_with(fetch, max_attempts=1)
    assert (attempts_of(once, script), now()) == (1, 0)
    assert (attempts_of(fetch, script), now()) == (3, 10)
    assert attempts_of(retry_with(once, max_attempts=2), script) == 2
    assert attempts_of(retry_with(fetch, on=KeyError), script) == 1
    assert [outcome.name for _, outcome in told.calls] == [fetch.__qualname__] * 3
    began = now()
    assert attempts_of(retry_with(fetch, ZeroBackOff()), script) == 3
    assert attempts_of(retry_with(fetch, backoff=ONE), script) == 3
    assert now() == began + 2
    assert (once.__name__, once.__doc__, once.__wrapped__) == ("fetch", "Fetch.", fetch.__wrapped__)


def test_none_removes_an_option():
    fetch = retry(FIVE, until=bool, max_attempts=1)(lambda: 0)
    assert retry_with(fetch, until=None)() == 0
    with pytest.raises(RejectedResult):
        retry_with(fetch, on=None)()


@pytest.mark.parametrize("kind", KINDS)
def test_methods_bound_and_not(clock, kind):
    client = Client(Script(OSError))
    bound = retry_with(getattr(client, kind), max_attempts=1)
    assert isinstance(bound, MethodType)
    assert bound.__self__ is client
    assert attempts_of(bound, client.script) == 1
    plain = retry_with(getattr(Client, kind), max_attempts=2)
    assert attempts_of(lambda: plain(client), client.script) == 2
    assert attempts_of(getattr(client, kind), client.script) == 3
    assert inspect.iscoroutinefunction(plain) == (kind == "coroutine")
    assert inspect.isgeneratorfunction(plain) == (kind == "generator")
    assert inspect.isasyncgenfunction(plain) == (kind == "agenerator")


@pytest.mark.parametrize("kind", [*OF_CLASS, *STATIC])
def test_static_and_class_methods(clock, kind):
    for owner in (Client, Client(Script())):
        changed = retry_with(getattr(owner, kind), max_attempts=1)
        assert attempts_of(changed, Client.shared) == 1
        assert attempts_of(getattr(owner, kind), Client.shared) == 3
    undone = retry_with(vars(Client)["class_inside"], max_attempts=2)
    assert attempts_of(undone.__get__(None, Client), Client.shared) == 2


def test_options_are_read_as_they_were_given():
    hooks = [print]
    fetch = retry(FIVE, on=(OSError, KeyError), timeout=5, on_retry=hooks)(lambda: 7)
    options = retry_options(fetch)
    assert options == {"backoff": FIVE, "on": (OSError, KeyError), "timeout": 5, "on_retry": hooks}
    options["timeout"] = 6
    assert retry_options(fetch)["timeout"] == 5
    assert retry_options(retry_with(fetch, timeout=7))["timeout"] == 7
    assert retry_options(retry(lambda: 7)) == retry_options(retry()(lambda: 7)) == {}
    assert retry_options(retry(max_attempts=3)(lambda: 7)) == {"max_attempts": 3}


@pytest.mark.parametrize("read", [retry_with, retry_options])
def test_what_retry_has_not_returned_is_refused(read):
    for wrong in (len, lambda: 7, Client, 7, functools.partial(Client.method), Client(Script())):
        with pytest.raises(TypeError, match=rf"{read.__name__}\(\) needs a function that retry"):
            read(wrong)


@pytest.mark.parametrize("read", [retry_with, retry_options])
def test_another_decorator_around_it_is_not_dropped(read):
    @functools.wraps(Client.method)
    def around(*args):
        return Client.method(*args)

    with pytest.raises(TypeError, match="has another decorator around it"):
        read(around)
    assert read(retry(around)) is not None
    assert retry_options(retry(max_attempts=2)(around)) == {"max_attempts": 2}


def test_a_decorator_can_be_kept_changed_and_read(clock):
    default = retry(ONE, on=OSError, max_attempts=2)
    patient = retry_with(default, max_attempts=3)
    slow = TEN
    slower = retry_with(patient, slow)
    for decorator, times in [(default, [0, 1]), (patient, [0, 1, 2]), (slower, [0, 10, 20])]:
        script = Script(OSError)
        with pytest.raises(OSError):
            decorator(script)()
        assert [at - script.times[0] for at in script.times] == times
    assert retry_options(slower) == {"backoff": slow, "on": OSError, "max_attempts": 3}
    assert repr(retry(ONE, max_attempts=2)) == (
        "retry(backoff=ConstantBackOff(1.0), max_attempts=2)"
    )
