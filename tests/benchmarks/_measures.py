"""How the benchmark scripts measure: statements in a loop, rates, lateness, fresh processes."""

import asyncio
import multiprocessing
import time
from textwrap import indent

TIMED = """
ASYNC def run(count, enough):
    used = made = 0
    while made == 0 or used < enough:
        begun = cpu()
        for _ in range(count):
{statement}
        used += cpu() - begun
        made += count
    return used / made
"""


def defined(name, source, awaits, **names):
    """Return what a source text defines by that name.

    ``AWAIT`` and ``ASYNC`` in it stand for the two words, or for nothing.
    """
    for word in ("await", "async"):
        source = source.replace(f"{word.upper()} ", f"{word} " if awaits else "")
    exec(source, names)
    return names[name]


def timed(statement, awaits, **names):
    """Return what measures a statement, with what stands for the names in it.

    It returns the nanoseconds of CPU of one run: of ``count`` runs, and of as many more as take
    ``enough`` seconds.
    """
    source = TIMED.format(statement=indent(statement, " " * 12))
    run = defined("run", source, awaits, cpu=time.process_time, **names)

    def measure(count, enough=0.0):
        seconds = run(count, enough)
        return (asyncio.run(seconds) if awaits else seconds) * 1e9

    return measure


def rate(count, run, unit="tick"):
    """Return how often a second, and at what cost, ``run`` did something ``count`` times."""
    cpu, start = time.process_time(), time.perf_counter()
    run()
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {f"{unit}s/s": count / wall, f"us CPU a {unit}": cpu / count * 1e6}


def percentiles(late):
    """Return the median and the 99th percentile of seconds, in microseconds."""
    late = sorted(late)
    return {"p50 us": late[len(late) // 2] * 1e6, "p99 us": late[len(late) * 99 // 100] * 1e6}


def in_a_process(function, *arguments):
    """Return what a function of a module returns in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
