"""Many keys: what a poll, a key, a start and an end cost, from 1,000 keys to 1,000,000.

All keys together are polled 2,000 times a second.

threads: 16 workers share the keys, and each poll blocks for 2 ms.
thread: one worker, whose polls do nothing.
coroutines, loop: the same in an event loop.
tickers: a task for each key.
merge: one coroutine that reads 500 to 4,000 tickers.

Each is measured in a process of its own. "stop() ms" is how long the call that ends all holds its
caller. Run as ``python -m tests.benchmarks.scale`` from the project's root.
"""

from functools import partial

from tests.benchmarks._fleets import FLEETS, PACKAGES, WORK, WORKERS, measure
from tests.benchmarks._measures import in_a_process
from tests.benchmarks._table import compare, is_installed, options

TITLES = {
    "threads": f"{WORKERS} threads, {WORK * 1e3:g} ms a poll",
    "thread": "one thread",
    "coroutines": f"{WORKERS} coroutines, {WORK * 1e3:g} ms a poll",
    "loop": "one event loop",
    "tickers": "a task for each key",
}


def main():
    chosen = options(
        __doc__,
        rounds=3,
        only={"choices": list(FLEETS), "help": "one of the fleets"},
        keys={"type": int, "help": "one number of keys"},
    )
    missing = {name for name, package in PACKAGES.items() if not is_installed(package)}
    window = 0.1 if chosen.quick else 3.0

    def sizes(quick, *usual):
        return [chosen.keys] if chosen.keys else quick if chosen.quick else usual

    def run(*what):
        return partial(in_a_process, measure, *what, window)

    for fleet, title in TITLES.items():
        if chosen.only not in {None, fleet}:
            continue
        for count in sizes([50], 1_000, 10_000, 100_000, 1_000_000):
            subjects = {
                name: run(fleet, name, count)
                for name, (most, _) in FLEETS[fleet].items()
                if count <= most and name not in missing
            }
            if subjects:
                compare(f"{title}, {count:,} keys", subjects, chosen.rounds)
    if chosen.only in {None, "merge"}:
        subjects = {
            f"{count:,} tickers": run("merge", "merge()", count)
            for count in sizes([10, 20], 500, 1_000, 2_000, 4_000)
        }
        compare("merge()", subjects, chosen.rounds)


if __name__ == "__main__":
    main()
