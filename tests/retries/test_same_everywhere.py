"""All ways to retry decide alike, with and without hooks, and as a model of a few lines does."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings, strategies as st

from backoff_ticker import Permanent, RetryAfter, ZeroBackOff, with_max_retries
from backoff_ticker.testing import VirtualClock
from tests.retries.faces import FACES
from tests.retries.scripts import Script


def caused(error, cause):
    error.__cause__ = cause
    return error


STEPS = {
    "done": lambda: "done",
    "OSError": lambda: OSError("plain"),
    "ValueError": lambda: ValueError("plain"),
    "caused": lambda: caused(OSError("caused"), KeyError("cause")),
    "permanent": lambda: Permanent(LookupError("inside")),
    "permanent below": lambda: caused(OSError("above"), Permanent(LookupError("below"))),
    "retry after": lambda: RetryAfter(0),
    "retry after, with an error": lambda: RetryAfter(0, ValueError("inside")),
}

WAYS = {
    "at once": lambda: {"backoff": ZeroBackOff()},
    "a policy with state": lambda: {"backoff": with_max_retries(ZeroBackOff(), 100)},
    "a limit of time": lambda: {"backoff": ZeroBackOff(), "timeout": 1},
    "a hook": lambda: {"backoff": ZeroBackOff(), "on_retry": lambda _: None},
}


def model(steps, on, most):
    """Return how many calls are made, and what is returned or raised."""
    for number, step in enumerate(steps, 1):
        answer = STEPS[step]()
        if answer == "done":
            return number, "done"
        if "permanent" in step:
            return number, "LookupError"
        error = getattr(answer, "error", None) or answer
        retried = isinstance(answer, (RetryAfter, on))
        if not retried or number == most:
            return number, type(error).__name__
    raise AssertionError("the last step is a success")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.sampled_from([step for step in STEPS if step != "done"]), max_size=7),
    on=st.sampled_from([Exception, OSError, (ValueError, KeyError), ()]),
    most=st.one_of(st.none(), st.integers(1, 8)),
)
def test_all_faces_make_the_same_calls_and_end_the_same_way(steps, on, most):
    expected = model([*steps, "done"], on, most)
    for name, face in FACES.items():
        for way, options in WAYS.items():
            script = Script(*(STEPS[step]() for step in steps), "done")
            with VirtualClock(auto=True):
                try:
                    ended = face.run(script, on=on, max_attempts=most, **options())
                except Exception as error:
                    ended = type(error).__name__
            assert (script.count, ended) == expected, (name, way)
