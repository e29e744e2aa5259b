"""A call that is retried, written down as a statement and timed: what ``retries`` compares."""

from __future__ import annotations

import asyncio
import gc
import inspect
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import cycle, islice
from textwrap import indent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 5
"""The attempts a call may make where a subject has such a limit."""

TIMED = """
{start} run(count, enough):
    used = made = 0
    while made == 0 or used < enough:
        begun = cpu()
        for _ in range(count):
{statement}
        used += cpu() - begun
        made += count
    return used / made
"""


class Subject:
    """A statement that makes one call with its retries.

    Args:
        statement: What is timed, as a user writes it.
        names: What stands for the names in it.
        plan: Whether each coming call of the operation fails.
        around: Made and entered around each measurement, untimed.
    """

    def __init__(
        self,
        statement: str,
        names: dict[str, object],
        plan: Iterator[bool],
        around: Callable[[], AbstractContextManager],
    ) -> None:
        self._statement, self._plan, self._around = statement, plan, around
        start = "async def" if "await " in statement else "def"
        source = TIMED.format(start=start, statement=indent(statement, " " * 12))
        names["cpu"] = time.process_time
        exec(source, names)
        self._run = names["run"]

    def measure(self, calls: int, enough: float) -> dict[str, float]:
        """Return the nanoseconds of CPU that a call takes, of those made in ``enough`` seconds.

        The collector is on, as for users; what was there before is kept from it.
        """
        gc.collect()
        gc.freeze()
        try:
            with self._around():
                seconds = self._run(calls, enough)
                if inspect.iscoroutine(seconds):
                    seconds = asyncio.run(seconds)
        finally:
            gc.unfreeze()
        return {"ns CPU": seconds * 1e9}

    def check(self, fails: int) -> None:
        """Make one call, and see to it that it took so many failures and one success."""
        self.measure(1, 0.0)
        if list(islice(self._plan, fails + 1)) != [True] * fails + [False]:
            raise AssertionError(f"not {fails} failures, then a success: {self._statement}")


@dataclass(frozen=True)
class Case:
    """What is called: a function or a coroutine function that fails so often, then succeeds."""

    fails: int
    awaits: bool

    def subject(
        self,
        statement: str,
        around: Callable[[], AbstractContextManager] = nullcontext,
        **names: object,
    ) -> Subject:
        """Return a subject; its statement calls ``operation``, or ``call``, the wrapped one.

        Args:
            statement: ``AWAIT`` and ``ASYNC`` stand for the two words, or for nothing.
            around: Entered around each measurement.
            names: ``wrap`` makes ``call`` out of the operation.
        """
        plan = cycle([True] * self.fails + [False])
        operation = self._operation(plan)
        for word in ("await", "async"):
            statement = statement.replace(f"{word.upper()} ", f"{word} " if self.awaits else "")
        names["operation"] = operation
        if "wrap" in names:
            names["call"] = names.pop("wrap")(operation)
        return Subject(statement, names, plan, around)

    def _operation(self, plan: Iterator[bool]) -> Callable:
        def operation() -> str:
            return "done"

        async def operation_async() -> str:
            return "done"

        def flaky() -> str:
            if next(plan):
                raise ConnectionError("refused")
            return "done"

        async def flaky_async() -> str:
            if next(plan):
                raise ConnectionError("refused")
            return "done"

        if self.fails:
            return flaky_async if self.awaits else flaky
        return operation_async if self.awaits else operation
