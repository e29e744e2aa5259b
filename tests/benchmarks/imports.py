"""What an import costs, in fresh interpreters.

Run as ``python -m tests.benchmarks.imports`` from the project's root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from importlib.util import find_spec

import backoff_ticker
from tests.benchmarks._table import interleaved, options, say, show

NAMES = [name for name in backoff_ticker.__all__ if not name.startswith("Async")]
OURS = {
    "import backoff_ticker": "import backoff_ticker",
    "all names but async ones": f"from backoff_ticker import {', '.join(NAMES)}",
    "what the README begins with": (
        "from backoff_ticker import AsyncTicker, ConstantBackOff, ExponentialBackOff, Ticker, "
        "cancel_on_signals, retry"
    ),
}
PARTS = {"stdlib parts": "import heapq, threading, collections, time, random"}
TENACITY = {"tenacity": "import tenacity"}
PROGRAM = """
import sys
from time import perf_counter
modules = len(sys.modules)
start = perf_counter()
{statement}
print((perf_counter() - start) * 1e3, len(sys.modules) - modules)
"""


def measure(statement: str, cache: str) -> dict[str, float]:
    """Run ``statement`` in a new interpreter that has all its bytecode in ``cache``."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROGRAM.format(statement=statement)]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    milliseconds, modules = done.stdout.split()
    return {"ms": float(milliseconds), "new modules": float(modules)}


def main() -> None:
    """Print what is measured beside tenacity, and beside the parts of the standard library."""
    chosen = options(__doc__, rounds=15)
    baselines = [PARTS]
    if find_spec("tenacity"):
        baselines.insert(0, TENACITY)
    else:
        say("tenacity is not installed: no comparison with it")
    statements = {name: each for baseline in (*baselines, OURS) for name, each in baseline.items()}
    with tempfile.TemporaryDirectory() as cache:
        subjects = {name: partial(measure, each, cache) for name, each in statements.items()}
        measured = interleaved(subjects, chosen.rounds, warm_up=True)
    for baseline in baselines:
        show("an import", measured, [*baseline, *OURS])


if __name__ == "__main__":
    main()
