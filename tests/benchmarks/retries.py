"""What a retry costs beside a loop written by hand, and beside other libraries.

Each subject calls a function, or a coroutine function, that takes no arguments: one that succeeds
at once, and one that fails three times, then succeeds, with no wait between. The loop by hand is a
``for attempt in range(5)`` around a ``try``; it looks its delay up in a list and would sleep if
that were greater than 0. For coroutine functions there is another whose attempts are cut when their
time is up, as ``token=`` and ``timeout=`` cut them.

How each is set; where no limit is named, there is none:

- The package: ``ZeroBackOff()``, or the default policy, in ``no_wait()`` where failures come. Its
  hooks do nothing, and each success refills its budget. What is set for the process, default hooks
  and the like, is set for its own rows only.
- tenacity: ``stop_after_attempt(5)``, ``wait_none()``, ``reraise=True``, and a ``sleep`` that does
  nothing. The loop's ``Retrying`` is made once.
- backoff: ``constant`` with ``interval=0``, ``max_tries=5``, no jitter, no logger.
- stamina: ``attempts=5``, ``timeout=None``, all parts of the wait 0. With no hooks, and as it
  comes: each retry is logged, here to nobody.
- google-api-core: ``initial=0, maximum=0, timeout=None``.

The last three sleep for 0 seconds: ``time.sleep`` and ``asyncio.sleep`` do nothing meanwhile.

All in one process and in turn, with the collector on. What is measured is CPU, as the machine may
have other work. Run as ``python -m tests.benchmarks.retries`` from the project's root.
"""

from __future__ import annotations

from tests.benchmarks._retriers import CUT_BY_HAND, CUTTING, by_hand, package, peers
from tests.benchmarks._retrying import Case
from tests.benchmarks._table import interleaved, options, show

ENOUGH = 0.005
GOALS = {0: "<= 1.5x; 1.1x", 3: "<= 2.5x; 2x"}
"""By the number of failures."""


def free(name: str) -> bool:
    """Whether a subject has no goal: it does what the loop does not."""
    return any(what in name for what in ("hook", "no_wait", "default token", "in use"))


def main() -> None:
    """Print a table for functions and one for coroutine functions, for each number of failures."""
    chosen = options(__doc__, rounds=25)
    installed = peers()
    calls, enough = (2, 0.0) if chosen.quick else (100, ENOUGH)
    for fails, goal in GOALS.items():
        for awaits in (False, True):
            case = Case(fails, awaits)
            ours = package(case)
            subjects = {**by_hand(case), **ours}
            for build in installed.values():
                subjects.update(build(case))
            for subject in subjects.values():
                subject.check(fails)
            runs = {
                name: lambda subject=subject: subject.measure(calls, enough)
                for name, subject in subjects.items()
            }
            measured = interleaved(runs, chosen.rounds, warm_up=True)
            title = f"{'async' if awaits else 'sync'}, {fails or 'no'} failures"
            goals = {(name, "ns CPU"): goal for name in ours if not free(name)}
            cut = CUTTING if awaits else ()
            show(title, measured, goals, only=[n for n in runs if n not in (*cut, CUT_BY_HAND)])
            if awaits:
                show(f"{title}, attempts can be cut", measured, goals, only=(CUT_BY_HAND, *cut))


if __name__ == "__main__":
    main()
