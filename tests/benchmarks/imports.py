"""What an import costs, in fresh interpreters.

Run as ``python -m tests.benchmarks.imports`` from the project's root.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile

import backoff_ticker
from tests.benchmarks._table import interleaved, options, say, show

NAMES = [name for name in backoff_ticker.__all__ if not name.startswith("Async")]
EVERY = backoff_ticker.__all__
PROTOCOLS = {"BackOff", "Clock"}

PARTS = "stdlib parts"
CORE = "import backoff_ticker"
README = "what the README begins with"
PLAIN = "all names but async ones, protocols"
SYNC = "all names but async ones"
SUBJECTS = {
    PARTS: "import heapq, threading, collections, time, random",
    CORE: "import backoff_ticker",
    PLAIN: f"from backoff_ticker import {', '.join(n for n in NAMES if n not in PROTOCOLS)}",
    SYNC: f"from backoff_ticker import {', '.join(NAMES)}",
    "AsyncTicker": "from backoff_ticker import AsyncTicker",
    README: (
        "from backoff_ticker import AsyncTicker, ConstantBackOff, ExponentialBackOff, Ticker, "
        "cancel_on_signals, retry"
    ),
    "asyncio": "import asyncio",
    "asyncio and all names": f"import asyncio; from backoff_ticker import {', '.join(EVERY)}",
    "tenacity": "import tenacity",
}
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
    """Print what is measured beside each of the baselines."""
    chosen = options(__doc__, rounds=15)
    names = list(SUBJECTS)
    if importlib.util.find_spec("tenacity") is None:
        names.remove("tenacity")
        say("tenacity is not installed: no comparison with it")
    with tempfile.TemporaryDirectory() as cache:
        subjects = {name: lambda name=name: measure(SUBJECTS[name], cache) for name in names}
        measured = interleaved(subjects, chosen.rounds, warm_up=True)
    own = (CORE, PLAIN, SYNC)
    if "tenacity" in names:
        goals = {(name, "ms"): "<= 0.3x" for name in own} | {(README, "ms"): "<= 0.5x"}
        show("beside tenacity", measured, goals, only=("tenacity", *own, README))
    goals = {(name, "ms"): "<= 1.3x" for name in own}
    show("beside the bare parts (stretch)", measured, goals, only=(PARTS, *own, "AsyncTicker"))
    goals = {("asyncio and all names", "ms"): "<= 1.15x; 1.05x"}
    show("beside asyncio", measured, goals, only=("asyncio", "asyncio and all names"))


if __name__ == "__main__":
    main()
