"""All storms: what they are, and how long they last.

Run as ``python -m tests.stress.storm --minutes 10`` from the project's root: all storms in turn,
for ten minutes together. It prints what each has done, and ends at the first fault.
"""

import argparse
import faulthandler
import platform
import random
import sys
import time
from contextlib import suppress

from tests.effort import has_lock
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

SHARE = 5.0
"""Seconds of one storm, before the next has its turn, in a run of minutes."""


def let_loose(name, seconds, seed=None):
    """Play rounds of a storm for so long; return their number, and how many things were done.

    Each round has a seed of its own, which a fault names; whether it comes again is chance.
    """
    storm = STORMS[name]
    first = random.randrange(10**9) if seed is None else seed
    rounds = done = 0
    before = ours()
    crew = Crew()
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


def main():
    """Run all storms in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of all storms together")
    parser.add_argument("--only", choices=STORMS, action="append", help="this storm; repeatable")
    parser.add_argument("--seed", type=int, help="of the first round of each storm")
    chosen = parser.parse_args()
    names = chosen.only or list(STORMS)
    faulthandler.enable()
    left = chosen.minutes * 60
    lock = "with" if has_lock() else "without"
    sys.stdout.write(f"Python {platform.python_version()}, {lock} the global lock\n")
    while left > 0:
        share = min(SHARE, left / len(names))
        for name in names:
            rounds, done = let_loose(name, share, chosen.seed)
            sys.stdout.write(f"{name:<28}{rounds:>10,} rounds{done:>14,} done\n")
        left -= share * len(names)


if __name__ == "__main__":
    main()
