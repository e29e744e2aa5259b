"""What an import costs, in fresh interpreters.

Run as ``python -m tests.benchmarks.imports`` from the project's root.
"""

import os
import subprocess
import sys
import tempfile
from functools import partial

import backoff_ticker
from tests.benchmarks._table import compare, is_installed, options

NAMES = [name for name in backoff_ticker.__all__ if not name.startswith("Async")]
OURS = {
    "import backoff_ticker": "import backoff_ticker",
    "all names but async ones": f"from backoff_ticker import {', '.join(NAMES)}",
    "what a service needs": (
        "from backoff_ticker import AsyncTicker, ConstantBackOff, ExponentialBackOff, Ticker, "
        "cancel_on_signals, retry"
    ),
}
TENACITY = {"tenacity": "import tenacity"}
PROGRAM = """
import sys
from time import perf_counter
modules = len(sys.modules)
start = perf_counter()
{statement}
print((perf_counter() - start) * 1e3, len(sys.modules) - modules)
"""


def measure(statement, cache):
    """Run ``statement`` in a new interpreter that has all its bytecode in ``cache``."""
    env = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROGRAM.format(statement=statement)]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    milliseconds, modules = done.stdout.split()
    return {"ms": float(milliseconds), "new modules": float(modules)}


def main():
    chosen = options(__doc__, rounds=15)
    statements = {**(TENACITY if is_installed("tenacity") else {}), **OURS}
    with tempfile.TemporaryDirectory() as cache:
        subjects = {
            name: partial(measure, statement, cache) for name, statement in statements.items()
        }
        compare("an import", subjects, chosen.rounds, warm_up=True)


if __name__ == "__main__":
    main()
