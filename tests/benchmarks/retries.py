"""What a retry costs beside a loop written by hand, and beside other libraries.

Each subject calls a function, or a coroutine function, that takes no arguments: one that succeeds
at once, and one that fails three times, then succeeds, with no wait between. The loop by hand is a
``for attempt in range(5)`` around a ``try``; it looks its delay up in a list and would sleep if
that were greater than 0. The one that ratios are to shows each attempt as the package does: an
object of five fields, in a context variable that is set and reset. For coroutine functions there
is another whose attempts are cut when their time is up, as ``token=`` and ``timeout=`` cut them.

How each is set; where no limit is named, there is none:

- The package: ``ZeroBackOff()``, or the default policy, in ``no_wait()`` where failures come. Its
  hooks do nothing, and each success refills its budget. What is set for the process, default hooks
  and the like, is set for its own rows only.
- tenacity: ``stop_after_attempt(5)``, ``wait_none()``, ``reraise=True``, and a ``sleep`` that does
  nothing.
- backoff: ``constant`` with ``interval=0``, ``max_tries=5``, no jitter, no logger.
- stamina: ``attempts=5``, ``timeout=None``, all parts of the wait 0, no hooks.
- google-api-core: ``initial=0, maximum=0, timeout=None``.

The last three sleep for 0 seconds: ``time.sleep`` and ``asyncio.sleep`` do nothing meanwhile.

All in one process and in turn, with the collector on. What is measured is CPU, as the machine may
have other work. Run as ``python -m tests.benchmarks.retries`` from the project's root.
"""

from functools import partial

from tests.benchmarks._retriers import CUT_BY_HAND, CUTTING, Case, by_hand, package, peers
from tests.benchmarks._table import interleaved, options, show

CASES = [Case(fails, awaits) for fails in (0, 3) for awaits in (False, True)]


def main():
    chosen = options(__doc__, rounds=25)
    installed = peers()
    calls, enough = (2, 0.0) if chosen.quick else (100, 0.005)
    for case in CASES:
        subjects = {}
        for build in (by_hand, package, *installed):
            subjects.update(build(case))
        measured = measure(subjects, case, calls, enough, chosen.rounds)
        title = f"{'async' if case.awaits else 'sync'}, {case.fails or 'no'} failures"
        cut = (CUT_BY_HAND, *CUTTING) if case.awaits else ()
        show(title, measured, [name for name in subjects if name not in cut])
        if cut:
            show(f"{title}, attempts can be cut", measured, cut)


def measure(subjects, case, calls, enough, rounds):
    for subject in subjects.values():
        subject.check(case.fails)
    runs = {name: partial(subject.measure, calls, enough) for name, subject in subjects.items()}
    return interleaved(runs, rounds, warm_up=True)


if __name__ == "__main__":
    main()
