"""Hooks that note what happens to them."""

import asyncio

from tests.retries.scripts import now

HOOKS = ("on_attempt", "on_retry", "on_success", "on_give_up")


class Noting:
    """A context manager notes when it is entered, and when and with what it is left.

    Args:
        log: Takes ``(when, "in", name)`` and ``(when, "out", name, error)``.
        name: What it is called there.
        failing: The error of one of its ends, by ``"in"`` or ``"out"``.
    """

    def __init__(self, log, name, failing):
        self._log = log
        self._name = name
        self._failing = failing

    def _end(self, which, *told):
        self._log.append((now(), which, self._name, *told))
        if which in self._failing:
            raise self._failing[which]


class Manager(Noting):
    """One for ``with``."""

    def __enter__(self):
        self._end("in")

    def __exit__(self, *told):
        self._end("out", told[1])
        return True


class AsyncManager(Noting):
    """One for ``async with``, each of its ends a second long."""

    async def __aenter__(self):
        await asyncio.sleep(1)
        self._end("in")

    async def __aexit__(self, *told):
        await asyncio.sleep(1)
        self._end("out", told[1])
        return True


def spanning(log, *names, by="", manager=Manager, slow=False, **failing):
    """Return the hooks called ``names``, all by default, each with a manager that logs.

    Args:
        log: Where all of them log.
        names: Which hooks.
        by: Whose hooks they are: the log tells it instead of the attempt, and when they are called.
        manager: The class of the managers.
        slow: Whether each hook is a coroutine function that takes a second.
        failing: The errors of managers, by ``enter`` and ``leave``.
    """
    ends = {{"enter": "in", "leave": "out"}[end]: error for end, error in failing.items()}

    def hook(name):
        def made(outcome):
            if by:
                log.append((now(), "called", f"{by} {name}"))
                return manager(log, f"{by} {name}", ends)
            return manager(log, f"{name} {outcome.attempts}", ends)

        async def made_slowly(outcome):
            await asyncio.sleep(1)
            return made(outcome)

        return made_slowly if slow else made

    return {name: hook(name) for name in names or HOOKS}


def ends_of(log, name):
    """Return what happened to the managers of one hook, without when."""
    return [(which, *told) for _, which, of, *told in log if of.split()[0] == name]
