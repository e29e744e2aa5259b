"""Storms through the public API, each for a moment, or with ``--all`` for a second.

They hold on every interpreter, and are aimed at one without the global lock, on which threads run
at the same time.
"""

import random
import time
from contextlib import suppress

import pytest

from tests import effort
from tests.helpers import PATIENCE
from tests.stress import channel_storms, retry_storms, schedule_storms, ticker_storms, token_storms
from tests.stress.crew import Crew, ours
from tests.stress.tools import fast_switching

STORMS = {
    **channel_storms.STORMS,
    **ticker_storms.STORMS,
    **token_storms.STORMS,
    **retry_storms.STORMS,
    **schedule_storms.STORMS,
}


@pytest.mark.parametrize("runs", [0, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", STORMS)
def test_a_storm_loses_doubles_and_leaves_nothing(name, runs):
    """Also in runs of trio. Whether a fault comes again with the seed it names is chance."""
    seed = random.randrange(10**9)
    rounds = done = 0
    before = ours()
    crew = Crew(runs=runs)
    end = time.monotonic() + (1 if effort.everything else 0.1)
    try:
        with fast_switching(1e-5):
            while rounds == 0 or time.monotonic() < end:
                done += STORMS[name](crew, random.Random(seed + rounds))
                rounds += 1
        crew.close()
    except BaseException as error:
        for loop in crew.loops:
            with suppress(Exception):
                loop.close()
        error.add_note(f"{name}: in round {rounds + 1}, with seed {seed + rounds}")
        raise
    assert done
    del crew
    end = time.monotonic() + PATIENCE
    while (left := ours() - before) and time.monotonic() < end:
        time.sleep(0.01)  # the scheduler's thread may still have a call in its hands
    assert not left, f"{name}: left behind by {rounds} rounds: {left}"
