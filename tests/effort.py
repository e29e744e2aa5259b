"""How much work the tests do; the one place that says so.

``pytest`` runs what one waits for. ``pytest --all`` also runs the tests marked ``slow`` (explored
schedules, storms of signals, real processes, thousands of rounds) and repeats others more often.
"""

import sys

import pytest
from hypothesis import HealthCheck, settings

everything = False
"""Whether ``--all`` was given; set before any test module is imported."""

settings.register_profile("default", max_examples=15, deadline=None)
settings.register_profile(
    "all", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


IS_TRACED = sys.gettrace() is not None
"""Whether coverage counts lines."""


def leave_the_tracer():
    """Skip a test that ends the tracing of its thread, where coverage needs that."""
    if IS_TRACED:
        pytest.skip("it would end the measurement of coverage")


def choose(*, all):  # noqa: A002 - the option's name
    """Set the effort of this run of the tests."""
    global everything  # noqa: PLW0603 - one setting for the process
    everything = all
    settings.load_profile("all" if all else "default")


def has_lock():
    """Whether the interpreter runs one thread at a time."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def rounds(default, everything_):
    """Return how often to repeat: ``default`` times, or ``everything_`` with ``--all``.

    Of many rounds a third is enough without the interpreter's lock, where each takes longer.
    """
    if everything and not has_lock() and everything_ > default:
        return max(default, everything_ // 3)
    return everything_ if everything else default
