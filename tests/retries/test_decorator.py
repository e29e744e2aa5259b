"""``retry`` as a decorator of every kind of callable."""

import asyncio
import functools
import inspect
import itertools
from unittest.mock import Mock, call, create_autospec

import pytest

from backoff_ticker import ZeroBackOff, retry, retry_call, with_max_retries
from tests.retries.faces import in_loop
from tests.retries.made_client import KINDS, OF_CLASS, STATIC, Client, result_of
from tests.retries.scripts import FIVE, Script, now

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


@pytest.mark.parametrize("decorate", [retry, retry(), retry(THRICE), retry(on=OSError)])
def test_it_is_written_bare_or_called(clock, decorate):
    flaky = Flaky()

    @decorate
    def function(*args, **kwargs):
        return flaky(*args, **kwargs)

    assert function(1, 2, key=3) == ((1, 2), {"key": 3})
    assert flaky.calls == [((1, 2), {"key": 3})] * 3


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


def test_partials_and_callables_are_decorated(clock):
    flaky = Flaky()

    async def function(*args, **kwargs):
        return flaky(*args, **kwargs)

    class Callable:
        async def __call__(self, *args, **kwargs):
            return flaky(*args, **kwargs)

    for decorate in (retry, retry(THRICE)):
        assert decorate(flaky)(4) == ((4,), {})
        assert decorate(functools.partial(flaky, 1, key=2))(3) == ((1, 3), {"key": 2})
        for awaited in (functools.partial(function, 1), Callable()):
            decorated = decorate(awaited)
            assert inspect.iscoroutinefunction(decorated)
            assert in_loop(decorated(3))[0][-1] == 3
    assert len(flaky.calls) == 2 * 4 * 3


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
    assert retry(ZeroBackOff())(functools.partial(client.fetch))() == 7
    assert client.mock_calls == [call.fetch()] * 2
    assert asyncio.run(retry(ZeroBackOff())(functools.partial(client.fetch_async))()) == 7
    assert retry_call(Mock(side_effect=[OSError, 7]), ZeroBackOff()) == 7
    assert retry(ZeroBackOff())(Mock(side_effect=[OSError, 7]))() == 7


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
