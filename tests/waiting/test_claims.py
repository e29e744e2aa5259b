"""The rule of a change, as ``_claim`` states it: no call while a claim is held, no other claim."""

from __future__ import annotations

import dis
import sys
import textwrap
from itertools import pairwise
from typing import Any

import pytest

from backoff_ticker import AsyncTicker, Channel
from backoff_ticker.channels._select import block_on, select_async
from backoff_ticker.waiting import FREE, FREED, _claim, acquire, park_coroutine, park_thread
from tests.stress.tools import run_silently
from tests.waiting.changes import Reading, faults_of_second_readings, package_readings

THING = """
class Thing:
    __slots__ = ("a", "b", "claim", "lock")
    LIMIT = 3

    @property
    def both(self):
        return self.a, self.b

    def change(self, other):
        claim = self.claim
{body}
"""

CHANGE = """
acquire(claim)
try:
    self.a += 1
    {0}
    self.b = self.a if self.a <= self.LIMIT else None
finally:
    claim += FREED
"""

WRITTEN_OUT = """
try:
    del claim[FREE]
except IndexError:
    acquire(claim)
try:
    self.a, self.b = self.b, self.a
    return self.a
finally:
    claim += FREED
"""

BETWEEN = """
acquire(claim)
self.a = other
try:
    self.b = other
finally:
    claim += FREED
"""


def read(body: str) -> Reading:
    names: dict[str, Any] = {"__name__": "planted", "FREE": FREE, "FREED": FREED}
    names["acquire"] = acquire
    exec(THING.format(body=textwrap.indent(body, " " * 8)), names)
    return Reading(names["Thing"].change.__code__, names)


def test_every_change_in_the_package_keeps_the_rule():
    readings = [each for each in package_readings() if each.names is not vars(_claim)]
    assert [fault for each in readings for fault in each.faults] == []
    assert sum(each.changes for each in readings) >= 20
    # Nothing comes between the last step of acquire() and its return.
    assert Reading(acquire.__code__, vars(_claim)).faults == []


def test_no_change_reads_twice_what_others_may_change_without_the_claim():
    assert [*faults_of_second_readings()] == []


def test_a_planted_second_reading_is_found():
    assert [*read("self.b = other").stored_outside()] == ["b"]
    assert [*read(CHANGE.format("pass")).stored_outside()] == []
    twice = CHANGE.format("if self.b is not None and self.b != 1:\n        pass")
    (fault,) = read(twice).read_twice({"b"})
    assert fault.endswith("reads self.b a second time")
    stored_between = CHANGE.format("self.a = self.b\n    self.b = 2\n    self.a = self.b")
    assert [*read(stored_between).read_twice({"b"})] == []


@pytest.mark.parametrize("body", [CHANGE.format("pass"), WRITTEN_OUT, "return other"])
def test_a_change_that_keeps_the_rule_passes(body):
    assert read(body).faults == []


FAULTS = {
    "a call": (CHANGE.format("len(other)"), "CALL: may be or begin a call"),
    "a loop": (CHANGE.format("while self.b:\n        self.b -= 1"), "BACKWARD.*begin a call"),
    "an operator on what is no number": (CHANGE.format("self.b += other"), "be no number"),
    "a new container": (CHANGE.format("self.b = self.b + other"), "be no number"),
    "a container that is repeated": (CHANGE.format("self.b *= 2"), "be no number"),
    "a property of its own": (CHANGE.format("self.b = self.both"), "both is no slot"),
    "a claim inside another": (CHANGE.format("acquire(other)"), "takes a claim inside another"),
    "a step that may raise outside of try": (BETWEEN, "may raise, and then nothing releases"),
    "a release of what nobody took": ("claim += FREED", "that it does not hold"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    body, message = FAULTS[fault]
    found = "\n".join(read(body).faults)
    assert pytest.raises(AssertionError, match=message).matches(AssertionError(found)), found


@pytest.fixture
def testcapi():
    """CPython's functions that make allocations fail."""
    if sys.gettrace() is not None:
        pytest.skip("a tracer, as that of coverage, needs memory itself")
    return pytest.importorskip("_testcapi")


def test_a_release_needs_no_memory(testcapi):
    claim = _claim.claim_of(object())
    for _ in range(20):
        acquire(claim)
        testcapi.set_nomemory(0)
        try:
            claim += FREED
        finally:
            testcapi.remove_mem_hooks()
        assert len(claim) == 2


@pytest.mark.usefixtures("testcapi")
def test_a_call_for_which_there_is_no_memory_takes_no_claim_and_leaves_nobody_asleep():
    """In a process of its own: code that was traced once needs memory itself, in CPython 3.13."""
    run_silently("from tests.waiting.without_memory import run_all; run_all()")


def test_who_waits_for_a_change_that_never_ends_is_told(monkeypatch):
    waits = []
    monkeypatch.setattr(_claim, "let_other_threads_run", waits.append)
    channel = Channel(1)
    claim = channel._buffer.claim
    acquire(claim)
    with pytest.raises(RuntimeError, match="in the middle"):
        channel.send_nowait("item")
    claim += FREED
    assert 1.0 <= sum(waits) < 2.0
    channel.send_nowait("item")
    assert channel.receive_nowait() == "item"


def test_objects_in_the_memory_of_different_threads_have_different_claims(monkeypatch):
    """Allocators give threads large blocks, in which first objects stand at the same place."""
    monkeypatch.setattr(_claim, "id", lambda address: address, raising=False)
    for size in (2**12, 2**16, 2**20, 2**22, 2**26):
        claims = [_claim.claim_of(0x7F00_0000_0160 + thread * size) for thread in range(16)]
        assert len({id(claim) for claim in claims}) == 16


WAITS = [park_thread, park_coroutine, block_on, select_async]
WAITS += [Channel.send, Channel.send_async, Channel.receive, Channel.receive_async]


def unprotected_jumps(function: Any) -> list[int]:
    """Return the offsets of jumps back at which an exception goes past all handlers."""
    code: Any = function.__code__
    protected = [
        range(entry.start, entry.end)
        for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
    ]
    return [
        each.offset
        for before, each in pairwise(dis.get_instructions(code))
        if each.opname.startswith("JUMP_BACKWARD")
        and "NO_INTERRUPT" not in each.opname
        # 3.12: where an await ends, or an except clause, not the loop
        and before.opname not in {"CLEANUP_THROW", "POP_EXCEPT"}
        and not any(each.offset in offsets for offsets in protected)
    ]


@pytest.mark.parametrize("function", WAITS, ids=lambda function: function.__qualname__)
def test_a_wait_that_goes_round_again_is_inside_of_its_try(function):
    assert unprotected_jumps(function) == []


def test_the_wait_of_a_ticker_is_inside_of_its_try():
    """Its outer loop needs no protection: nothing is registered where it jumps back."""
    assert len(unprotected_jumps(AsyncTicker.receive)) <= 1
