"""All storms: what they are, and how one is let loose."""

import random
import time
from contextlib import suppress

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


def let_loose(name, seconds, seed=None, *, runs=0):
    """Play rounds of a storm for so long; return their number, and how many things were done.

    It is played in so many runs of trio, too.
    Each round has a seed of its own, which a fault names; whether it comes again is chance.
    """
    storm = STORMS[name]
    first = random.randrange(10**9) if seed is None else seed
    rounds = done = 0
    before = ours()
    crew = Crew(runs=runs)
    end = time.monotonic() + seconds
    try:
        with fast_switching(1e-5):
            while rounds == 0 or time.monotonic() < end:
                done += storm(crew, random.Random(first + rounds))
                rounds += 1
        crew.close()
    except BaseException as error:
        for loop in crew.loops:
            with suppress(Exception):
                loop.close()
        error.add_note(f"{name}: in round {rounds + 1}, with seed {first + rounds}")
        raise
    del crew
    end = time.monotonic() + PATIENCE
    while (left := ours() - before) and time.monotonic() < end:
        time.sleep(0.01)  # the scheduler's thread may still have a call in its hands
    assert not left, f"{name}: left behind by {rounds} rounds: {left}"
    return rounds, done
