"""Fixtures and a marker for pytest, which loads this module through an entry point in every run.

Nothing of the package is imported before one is used, to keep other runs fast.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pluggy import Result

    from .testing import Exploration, VirtualClock

    Outcome = Result[pytest.TestReport]

_FAILED = pytest.StashKey[bool]()


class _TestFailed(Exception):
    """Ends the block of a clock as a failed test does."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Outcome, None]:
    """Note whether a test has passed, before its fixtures end."""
    outcome = yield
    if not outcome.get_result().passed:
        item.stash[_FAILED] = True


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker."""
    text = "explore(**options): run the test under many schedules of its threads, by explore()"
    config.addinivalue_line("markers", text)


def _made_once(test: pytest.Function) -> str:
    """Name what is made once for this test, so that all its schedules would share it."""
    fixtures = test._fixtureinfo
    for name in fixtures.argnames:
        for fixture in fixtures.name2fixturedefs.get(name, ())[-1:]:
            of_others = not fixture.func.__module__.startswith(("_pytest.", "backoff_ticker."))
            if fixture.scope == "function" and of_others:
                return f"what the fixture {name!r} has made"
    owner, setup = (test.cls, "setup_method") if test.cls else (test.module, "setup_function")
    if hasattr(owner, setup):
        return f"what {setup}() has made"
    return ", ".join(f"self.{name}" for name in getattr(test.instance, "__dict__", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Refuse the marker in a ``unittest.TestCase``, which calls its tests itself."""
    if item.get_closest_marker("explore"):
        from unittest import TestCase

        if issubclass(getattr(item, "cls", None) or object, TestCase):
            pytest.fail("explore() cannot run a test of unittest.TestCase", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Have ``explore()`` call a test with the marker."""
    __tracebackhide__ = True
    marker = pyfuncitem.get_closest_marker("explore")
    if marker is None:
        return None
    shared = _made_once(pyfuncitem)
    if shared:
        pytest.fail(f"all schedules would share {shared}: make it in the test", pytrace=False)
    import asyncio
    from functools import wraps
    from inspect import iscoroutinefunction

    from .testing import ScheduleFailure, explore

    function = pyfuncitem.obj
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    @wraps(function)
    def body() -> None:
        if iscoroutinefunction(function):
            asyncio.run(function(**arguments))
        else:
            function(**arguments)

    vars(body)["_has_explore_marker"] = True  # so reports tell how to replay by the marker
    try:
        outcome = explore(body, *marker.args, **marker.kwargs)
    except ScheduleFailure as failure:
        asked = (pytest.skip.Exception, pytest.xfail.Exception, pytest.exit.Exception)
        if isinstance(failure.__cause__, asked):
            raise failure.__cause__ from None
        raise
    pyfuncitem.add_report_section("call", "explore()", str(outcome))
    return True


def _until_end_of_test(test: pytest.Item, **options: bool) -> Iterator[VirtualClock]:
    """Enter a clock for a test. If the test has failed, its leaks are not a second error."""
    from .testing import VirtualClock

    try:
        with VirtualClock(**options) as clock:
            yield clock
            if test.stash.get(_FAILED, False):
                raise _TestFailed  # noqa: TRY301 - for the block of the clock
    except _TestFailed as failed:
        for note in getattr(failed, "__notes__", ()):
            test.add_report_section("teardown", "by the virtual clock", note)


@pytest.fixture
def virtual_clock(request: pytest.FixtureRequest) -> Iterator[VirtualClock]:
    """A ``VirtualClock``, entered for the test, that the test moves by hand."""
    yield from _until_end_of_test(request.node)


@pytest.fixture
def auto_clock(request: pytest.FixtureRequest) -> Iterator[VirtualClock]:
    """A ``VirtualClock`` with auto-advance, entered for the test."""
    yield from _until_end_of_test(request.node, auto=True)


@pytest.fixture
def patched_clock(request: pytest.FixtureRequest) -> Iterator[VirtualClock]:
    """As ``auto_clock``; the functions of the module ``time`` use it, too."""
    yield from _until_end_of_test(request.node, auto=True, patch_time=True)


@pytest.fixture
def explore() -> Callable[..., Exploration]:
    """The function ``explore()``, for a test that explores functions of its own."""
    from .testing import explore as function

    return function


@pytest.fixture
def no_wait() -> Iterator[Callable[..., None]]:
    """Skip the waits of all retries during the test.

    ``no_wait(max_attempts=1)`` in the test also limits their attempts, from then on.
    """
    from contextlib import ExitStack

    from .testing import no_wait as skip_waits

    with ExitStack() as blocks:
        blocks.enter_context(skip_waits())

        def limit(max_attempts: int | None = None) -> None:
            blocks.enter_context(skip_waits(max_attempts))

        yield limit
