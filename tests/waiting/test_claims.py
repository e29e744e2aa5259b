"""The rule of a change, as ``_claim`` states it: no call while a claim is held, no other claim."""

from __future__ import annotations

import asyncio
import inspect
import sys
import textwrap
from contextlib import contextmanager
from math import inf
from typing import Any

import pytest

from backoff_ticker import (
    CancellationToken,
    Channel,
    CircuitBreaker,
    CircuitOpen,
    ConstantBackOff,
    RetryBudget,
    Ticker,
    Timer,
    WouldBlock,
    select,
)
from backoff_ticker.clock import let_other_threads_run
from backoff_ticker.waiting import FREE, _claim, acquire, claim_of
from tests.waiting.changes import Reading, package_readings

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
    claim[FREE] = True
"""

WRITTEN_OUT = """
try:
    del claim[FREE]
except KeyError:
    acquire(claim)
try:
    self.a, self.b = self.b, self.a
    return self.a
finally:
    claim[FREE] = True
"""

EARLY_RETURN = """
acquire(claim)
if self.a is None:
    return None
self.a = None
claim[FREE] = True
"""

BETWEEN = """
acquire(claim)
self.a = other
try:
    self.b = other
finally:
    claim[FREE] = True
"""


def read(body: str) -> Reading:
    names: dict[str, Any] = {"__name__": "planted", "FREE": FREE, "acquire": acquire}
    exec(THING.format(body=textwrap.indent(body, " " * 8)), names)
    return Reading(names["Thing"].change.__code__, names)


def test_every_change_in_the_package_keeps_the_rule():
    readings = [each for each in package_readings() if each.names is not vars(_claim)]
    assert [fault for each in readings for fault in each.faults] == []
    assert sum(each.changes for each in readings) >= 20


def test_nothing_comes_between_the_last_step_of_acquire_and_its_return():
    assert Reading(acquire.__code__, vars(_claim)).faults == []


@pytest.mark.parametrize("body", [CHANGE.format("pass"), WRITTEN_OUT, "return other"])
def test_a_change_that_keeps_the_rule_passes(body):
    assert read(body).faults == []


FAULTS = {
    "a call": (CHANGE.format("len(other)"), "CALL: may be or begin a call"),
    "a method": (CHANGE.format("other.append(1)"), "CALL: may be or begin a call"),
    "a loop": (CHANGE.format("while self.b:\n        self.b -= 1"), "BACKWARD.*begin a call"),
    "an iteration": (CHANGE.format("for self.b in other:\n        pass"), "FOR_ITER: may be"),
    "a list": (CHANGE.format("self.b = [other]"), "BUILD_LIST: may be"),
    "a dict": (CHANGE.format("self.b = {}"), "BUILD_MAP: may be"),
    "a tuple": (CHANGE.format("self.b = self.a, other"), "BUILD_TUPLE: may be"),
    "a text": (CHANGE.format("self.b = f'{other}'"), "BUILD_STRING: may be|FORMAT_.*: may be"),
    "a closure": (CHANGE.format("self.b = lambda: claim"), "MAKE_FUNCTION: may be"),
    "a raise": (CHANGE.format("raise KeyError"), "RAISE_VARARGS: may be"),
    "a lock": (CHANGE.format("with self.lock:\n        pass"), "WITH|LOAD_SPECIAL: may be"),
    "an import": (CHANGE.format("import math"), "IMPORT_NAME: may be"),
    "a yield": (CHANGE.format("yield"), "YIELD_VALUE: may be"),
    "a property of its own": (CHANGE.format("self.b = self.both"), "both is no slot"),
    "a property of another": (CHANGE.format("self.b = other.both"), "both is no slot"),
    "a forgotten local": (CHANGE.format("del other"), "DELETE_FAST: may be"),
    "a claim inside another": (CHANGE.format("acquire(other)"), "takes a claim inside another"),
    "the same, written out": (CHANGE.format("del other[FREE]"), "takes a claim inside another"),
    "another claim given back": (CHANGE.format("other[FREE] = True"), "that it does not hold"),
    "another claim in its place": (CHANGE.format("claim = other"), "changes the variable"),
    "an early return": (EARLY_RETURN, "returns with the claim"),
    "a step that may raise outside of try": (BETWEEN, "may raise, and then nothing releases"),
    "no release at all": ("acquire(claim)", "returns with the claim"),
    "a release of what nobody took": ("claim[FREE] = True", "that it does not hold"),
    "a try to take it": ("claim.pop(FREE, None)", "uses FREE for something else"),
    "a claim that is in no local": ("acquire(self.claim)", "uses acquire for something else"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    body, message = FAULTS[fault]
    found = "\n".join(read(body).faults)
    assert pytest.raises(AssertionError, match=message).matches(AssertionError(found)), found


def test_a_handler_may_run_in_an_acquire_that_goes_on_after_its_step():
    source = inspect.getsource(acquire).replace("return\n", "break\n") + "    claim.copy()\n"
    names: dict[str, Any] = {**vars(_claim)}
    exec(source, names)
    found = "\n".join(Reading(names["acquire"].__code__, names).faults)
    assert "CALL: may be or begin a call" in found


# The same while it runs


class Finalized:
    """Has a finalizer, whose call is seen like any other."""

    def __del__(self) -> None:
        pass


def are_free() -> bool:
    """Whether all claims are free, or a thread that another test left behind soon frees them."""
    for _ in range(100):
        if all(_claim._CLAIMS):
            return True
        let_other_threads_run()
    return False


@contextmanager
def watched_calls():
    """Fail if anything is called while a claim is held."""
    seen = []
    wrong = []

    def look(frame: Any, event: str, argument: Any) -> None:
        if event in {"call", "c_call"}:
            seen.append(event)
            if not are_free():
                name = argument.__name__ if event == "c_call" else frame.f_code.co_qualname
                wrong.append(f"{name}, called at {frame.f_code.co_filename}:{frame.f_lineno}")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(before)
    assert wrong == []


def use_channels(clock):
    for capacity in (0, 1, 2, inf):
        channel: Channel[Any] = Channel(capacity)
        for _ in range(3):
            for call in (channel.send_nowait, channel.send):
                try:
                    call(Finalized(), *(() if call == channel.send_nowait else (0,)))
                except (TimeoutError, WouldBlock):
                    pass
        while True:
            try:
                select(channel, timeout=0)
            except TimeoutError:
                break
        channel.close()


def use_coroutines(clock):
    async def use() -> None:
        for capacity in (0, 1, inf):
            channel: Channel[Any] = Channel(capacity)
            receivers = [asyncio.create_task(channel.receive_async()) for _ in range(3)]
            senders = [asyncio.create_task(channel.send_async(Finalized())) for _ in range(3)]
            await asyncio.sleep(0)
            receivers.pop().cancel()
            senders.pop().cancel()
            await asyncio.wait([*receivers, *senders])
            channel.close()

    asyncio.run(use())


def use_tokens(clock):
    parent = CancellationToken()
    child = parent.child(timeout=5)
    parent.on_cancel(Finalized)
    child.on_cancel(Finalized)
    parent.cancel()
    assert child.cancelled
    expired = CancellationToken(timeout=1)
    clock.advance(2)
    assert expired.wait()


def use_tickers(clock):
    token = CancellationToken()
    with Ticker(ConstantBackOff(0.0), token=token) as ticker:
        for tick in ticker:
            if tick.number == 2:
                ticker.success()
            if tick.number == 4:
                ticker.failure()
                ticker.reset()
                break
        next(ticker)
        token.cancel()
        assert list(ticker) == []


def use_timers(clock):
    timer = Timer()
    timer.start(1.0)
    timer.start(2.0)
    clock.advance(3.0)
    timer.c.receive()
    timer.start(1.0)
    assert timer.stop()


def use_budgets(clock):
    budget = RetryBudget(30)
    while budget.try_acquire():
        pass
    budget.success()
    budget.release()


def use_circuits(clock):
    circuit = CircuitBreaker(ConstantBackOff(1.0), failures=2)
    for _ in range(2):
        for error in (None, OSError(), OSError(), OSError()):
            try:
                circuit.record(circuit.allow(), error)
            except CircuitOpen:
                clock.advance(2.0)
    circuit.release(circuit.allow())
    circuit.open(1.0)
    circuit.reset()


USES = [value for name, value in vars().items() if name.startswith("use_")]


@pytest.mark.parametrize("use", USES)
def test_nothing_is_called_while_a_claim_is_held(clock, use):
    with watched_calls() as seen:
        use(clock)
    assert len(seen) > 50


def test_a_call_while_a_claim_is_held_is_seen():
    claim = claim_of(Finalized)
    acquire(claim)
    with pytest.raises(AssertionError, match="Finalized.*test_claims"), watched_calls():
        Finalized()
    claim[FREE] = True


def test_objects_in_the_memory_of_different_threads_have_different_claims(monkeypatch):
    """Allocators give threads large blocks, in which first objects stand at the same place."""
    monkeypatch.setattr(_claim, "id", lambda address: address, raising=False)
    for size in (2**12, 2**16, 2**20, 2**22, 2**26):
        claims = [_claim.claim_of(0x7F00_0000_0160 + thread * size) for thread in range(16)]
        assert len({id(claim) for claim in claims}) == 16
