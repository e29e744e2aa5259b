"""Faults planted in channels are found by programs that know nothing of ``explore()``."""

from __future__ import annotations

import threading

import pytest

from backoff_ticker.testing import ScheduleFailure, explore
from backoff_ticker.waiting import _claim
from tests import effort
from tests.channels.explorer import WATCHED
from tests.channels.test_schedules import FAULTS, ON_EMPTY, race


class Plan:
    """What a model of ``tests/channels`` is given."""

    clock = None

    def __init__(self):
        self.threads = []
        self.stamps = []

    def thread(self, name, function, *args):
        self.threads.append(threading.Thread(target=function, args=args, name=name))

    def stamp(self):
        self.stamps.append(None)
        return len(self.stamps)


def body_of(model):
    def body():
        plan = Plan()
        check = model(plan)
        for thread in plan.threads:
            thread.start()
        for thread in plan.threads:
            thread.join()
        check()

    return body


@pytest.fixture(autouse=True)
def _one_claim(monkeypatch):
    """Which objects share a claim depends on their addresses."""
    monkeypatch.setattr(_claim, "_CLAIMS", ({_claim.FREE: True},))


@pytest.mark.parametrize("place", FAULTS, ids=lambda place: place[1])
def test_a_planted_fault_is_found(place, monkeypatch):
    planted, model, message = FAULTS[place]
    monkeypatch.setattr(*place, planted)
    with pytest.raises(ScheduleFailure, match=message.partition(":")[0]):
        explore(body_of(model), watch=[*WATCHED, model.__code__.co_filename], timeouts=True)


@pytest.mark.parametrize("name", [name for name in ON_EMPTY if "coroutine" not in name])
def test_no_fault_is_found_where_none_is(name):
    body = body_of(race(1, ON_EMPTY[name]))
    explore(body, watch=WATCHED, timeouts=True, schedules=effort.rounds(20, 3000))
