"""``retry`` as a decorator of every kind of callable; the same function with other options."""

import asyncio
import functools
import inspect
import itertools
from types import MethodType
from unittest.mock import Mock, call, create_autospec

import pytest

from backoff_ticker import retry, retry_call, retry_options, retry_with, with_max_retries
from tests.retries.faces import in_loop
from tests.retries.made_client import KINDS, OF_CLASS, STATIC, Client, result_of
from tests.retries.scripts import FIVE, ONE, TEN, ZERO, Recorded, Script, now

THRICE = with_max_retries(FIVE, 2)


class Flaky:
    """Fails twice, then returns what it is called with; counts its calls."""

    def __init__(self):
        self.calls = []

    def __call__(self, *args, **kwargs):
        self.calls.append((args, kwargs))
        if len(self.calls) % 3:
            raise OSError(len(self.calls))
        return args, kwargs


def test_the_face_of_the_function_is_kept():
    def function(first: int, *, second: str = "x") -> list[int]:
        """Tell what it does."""

    async def coroutine(first: int) -> str:
        """Tell what it does later."""

    function.marked = coroutine.marked = True
    for of, decorate in itertools.product((function, coroutine), (retry, retry(THRICE))):
        decorated = decorate(of)
        for name in ("__name__", "__qualname__", "__doc__", "__module__", "marked"):
            assert getattr(decorated, name) == getattr(of, name)
        assert decorated.__wrapped__ is of
        assert inspect.iscoroutinefunction(decorated) == (of is coroutine)
        assert inspect.signature(decorated) == inspect.signature(of)
        assert inspect.get_annotations(decorated) == inspect.get_annotations(of)


class Child(Client):
    """Inherits all of them."""


@pytest.mark.parametrize("kind", [*KINDS, *OF_CLASS, *STATIC])
def test_methods_of_each_kind_are_bound_as_ever(clock, monkeypatch, kind):
    monkeypatch.setattr(Client, "shared", Script(OSError, OSError, 7, OSError, OSError, 7))
    child = Child(Script(OSError, OSError, 7))
    if kind in KINDS:
        assert result_of(getattr(child, kind)()) == 7
        assert now() == 10
        return
    for holder in (Child, child):
        expected = (Child if kind in OF_CLASS else Client, 7)
        assert result_of(getattr(holder, kind)()) == expected
    assert now() == 20


@pytest.mark.parametrize("decorate", [retry, retry(), retry(THRICE), retry(on=OSError)])
def test_functions_partials_and_callables_are_decorated_by_it_bare_or_called(clock, decorate):
    flaky = Flaky()

    async def coroutine(*args, **kwargs):
        return flaky(*args, **kwargs)

    class Callable:
        async def __call__(self, *args, **kwargs):
            return flaky(*args, **kwargs)

    @decorate
    def function(*args, **kwargs):
        return flaky(*args, **kwargs)

    assert function(1, 2, key=3) == ((1, 2), {"key": 3})
    assert flaky.calls == [((1, 2), {"key": 3})] * 3
    assert decorate(flaky)(4) == ((4,), {})
    assert decorate(functools.partial(flaky, 1, key=2))(3) == ((1, 3), {"key": 2})
    for awaited in (functools.partial(coroutine, 1), Callable()):
        decorated = decorate(awaited)
        assert inspect.iscoroutinefunction(decorated)
        assert in_loop(decorated(3))[0][-1] == 3
    assert len(flaky.calls) == 5 * 3


def test_mocks_are_retried_as_what_they_stand_for():
    """``inspect`` takes the mock of a plain method for a coroutine function and a generator.

    To ask it leaves calls behind that tests of users would find. Each attribute of a mock is
    another one, for ever.
    """

    class Client:
        def fetch(self): ...

        async def fetch_async(self): ...

    client = create_autospec(Client, instance=True)
    client.fetch.side_effect = [OSError, 7]
    client.fetch_async.side_effect = [OSError, 7]
    assert retry(ZERO)(functools.partial(client.fetch))() == 7
    assert client.mock_calls == [call.fetch()] * 2
    assert asyncio.run(retry(ZERO)(functools.partial(client.fetch_async))()) == 7
    assert retry_call(Mock(side_effect=[OSError, 7]), ZERO) == 7
    assert retry(ZERO)(Mock(side_effect=[OSError, 7]))() == 7


async def answer(*_):
    return True


@pytest.mark.parametrize(
    "name",
    [
        *("on", "until", "fallback"),
        *("notify", "around", "on_attempt", "on_retry", "on_success", "on_give_up"),
    ],
)
def test_a_coroutine_function_as_an_option_is_refused_where_nothing_can_await_it(name):
    given = answer if name in {"on", "until", "fallback"} else [len, answer]
    decorate = retry(**{name: given})
    refused = f"coroutine function as {name}, which only a coroutine function can await"
    with pytest.raises(TypeError, match=refused):
        decorate(len)
    decorate(answer)


# ``retry_with()`` and ``retry_options()``


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
    assert attempts_of(retry_with(fetch, ZERO), script) == 3
    assert attempts_of(retry_with(fetch, backoff=ONE), script) == 3
    assert now() == began + 2
    assert (once.__name__, once.__doc__, once.__wrapped__) == ("fetch", "Fetch.", fetch.__wrapped__)


def test_none_removes_an_option():
    fetch = retry(FIVE, until=bool, max_attempts=1, fallback=3)(lambda: 0)
    assert (retry_with(fetch, until=None)(), retry_with(fetch, on=None)()) == (0, 3)


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
