"""The marker, in a pytest of its own."""

import re

from tests.testing.test_plugin import run_tests

SHOWN = ["-vv", "-rA", "--strict-markers"]
TESTS = """
import asyncio
import threading

import pytest


def race(add):
    threads = [threading.Thread(target=add) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.explore(seed=2)
def test_lost_update(tmp_path):
    count = [0]

    def add():
        count[0] += 1

    race(add)
    assert count[0] == 2, tmp_path


class TestRight:
    pytestmark = pytest.mark.explore(preemptions=1)

    @pytest.mark.parametrize("times", [1, 2])
    def test_lock(self, times):
        count, lock = [0], threading.Lock()

        def add():
            for _ in range(times):
                with lock:
                    count[0] += 1

        race(add)
        assert count[0] == 2 * times


@pytest.mark.explore
async def test_coroutine():
    await asyncio.to_thread(race, lambda: None)


def test_fixture(explore):
    explore(lambda: race(list))


@pytest.mark.explore
def test_skip():
    pytest.skip("not here")


@pytest.mark.explore
def test_xfail():
    pytest.xfail("known")


@pytest.mark.explore(replay="{replay}")
def test_replay():
    test_lost_update("")
"""


REFUSED = """
import unittest

import pytest


@pytest.fixture
def stock():
    return []


@pytest.fixture(scope="module")
def server():
    return []


@pytest.fixture(autouse=True)
def check():
    yield


pytestmark = pytest.mark.explore


def test_fixture(stock, tmp_path):
    pass


@pytest.mark.parametrize("times", [1])
def test_harmless(times, server, tmp_path, monkeypatch, caplog, request, explore):
    pass


class TestSetup:
    def setup_method(self):
        self.shop = []

    def test_method(self):
        pass


class TestFixture:
    @pytest.fixture(autouse=True)
    def make(self):
        self.item = []

    def test_self(self):
        pass


class TestOld(unittest.TestCase):
    def test_case(self):
        pass
"""


def test_a_marked_test_is_explored(tmp_path):
    lines = run_tests(tmp_path, TESTS.replace("{replay}", "0:9"), *SHOWN).splitlines()
    assert "2 failed, 4 passed, 1 skipped, 1 xfailed" in lines[-1], lines
    assert any("@pytest.mark.explore(seed=2, replay='" in line for line in lines)
    places = [line for line in lines if re.match(r"\S+\.py:\d+: ", line)]
    assert places[0] == "test_it.py:24: AssertionError"  # where the test has failed
    assert not any("threading" in line or "exploring" in line for line in places)
    assert any("a schedule does not fit" in line for line in lines)
    assert sum(" schedules with at most 1 preemption" in line for line in lines) == 2


def test_what_all_schedules_would_share_is_refused(tmp_path):
    lines = run_tests(tmp_path, REFUSED, *SHOWN).splitlines()
    assert "4 failed, 1 passed" in lines[-1], lines
    shared = ("what the fixture 'stock' has made", "what setup_method() has made", "self.item")
    for each in shared:
        assert f"all schedules would share {each}: make it in the test" in lines
    assert "explore() cannot run a test of unittest.TestCase" in lines
