"""Fixtures of the retry tests."""

import threading

import pytest

from backoff_ticker.testing import VirtualClock
from tests.helpers import SetClock
from tests.retries.faces import FACES, IN_TURN, rows
from tests.retries.hedges import HEDGES
from tests.retries.scripts import START


@pytest.fixture
def clock():
    """A clock on which time goes on by itself while everybody waits."""
    with VirtualClock(START, auto=True) as made:
        yield made


@pytest.fixture(params=rows(*IN_TURN))
def face(request, clock):
    """Each way to run an operation in turn: contract tests run one body on all."""
    if request.param.startswith("trio"):
        pytest.importorskip("trio")
    if request.param in HEDGES:
        request.getfixturevalue("join_attempts")
    return (FACES | HEDGES)[request.param]


@pytest.fixture
def join_attempts(clock):
    """Waits until all threads have ended that the test has started; so does the end of the test."""
    before = set(threading.enumerate())

    def join():
        for thread in set(threading.enumerate()) - before:
            thread.join()

    yield join
    join()


@pytest.fixture(params=list(HEDGES))
def hedge(request, join_attempts):
    """Each way to make a hedged call in turn."""
    if request.param == "trio hedge":
        pytest.importorskip("trio")
    return HEDGES[request.param]


@pytest.fixture
def now():
    """A clock that a test sets; nothing waits on it."""
    return SetClock()
