"""Hooks, and context managers around attempts, that note what happens to them."""

from contextlib import nullcontext

from backoff_ticker import current_clock
from backoff_ticker.waiting import cancelled_error, loop_runs, shielded
from tests.helpers import sleep
from tests.retries.scripts import now

HOOKS = ("on_attempt", "on_retry", "on_success", "on_give_up")


class Manager:
    """One for ``with``: it notes when it is entered, and when and with what it is left.

    Args:
        log: Takes ``(when, "in", name)`` and ``(when, "out", name, error)``.
        name: What it is called there.
        failing: The error of one of its ends, by ``"in"`` or ``"out"``.
    """

    def __init__(self, log, name, failing):
        self._log = log
        self._name = name
        self._failing = failing

    def __enter__(self):
        self._end("in")

    def __exit__(self, *told):
        self._end("out", told[1])
        return True

    def _end(self, which, *told):
        self._log.append((now(), which, self._name, *told))
        if which in self._failing:
            raise self._failing[which]


class AsyncManager:
    """The same for ``async with``, each of its ends a second long."""

    def __init__(self, *args):
        self._plain = Manager(*args)

    async def __aenter__(self):
        await sleep(1)
        self._plain.__enter__()

    async def __aexit__(self, *told):
        with shielded() if isinstance(told[1], cancelled_error()) else nullcontext():
            await sleep(1)
        return self._plain.__exit__(*told)


def spanning(log, name="span", manager=Manager, **failing):
    """Return a function for ``around``; ``call``, ``enter`` and ``leave`` are errors to raise."""

    def around(outcome):
        if "call" in failing:
            raise failing["call"]
        ends = {"in": failing.get("enter"), "out": failing.get("leave")}
        ends = {end: error for end, error in ends.items() if error is not None}
        return manager(log, f"{name} {outcome.attempts}", ends)

    return around


def taking(seconds):
    """Return a hook that takes so long, and awaits where it has to."""
    return lambda *_: sleep(seconds) if loop_runs() else current_clock().sleep(seconds)


def noting(log):
    """Return all hooks, which note in ``log`` when they are called, and their names."""
    return {name: lambda *_, name=name: log.append((now(), name)) for name in ("notify", *HOOKS)}
