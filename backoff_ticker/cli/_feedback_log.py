"""A log of failures and successes, and what a policy answers to it."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import click

from .._sentinels import Stop
from .._validation import safe_repr
from ..policies import tell
from ._text import exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..policies import BackOff, FrozenClock

_ITEM = re.compile(r"(?P<success>[01])(?::(?P<later>\+?)(?P<seconds>[0-9]+(?:\.[0-9]+)?))?")


class _Item(NamedTuple):
    """One item of a log.

    Attributes:
        text: As it was given.
        success: Whether it tells of a success.
        timestamp: When, in seconds.
    """

    text: str
    success: bool
    timestamp: float


def parse_log(items: Sequence[str]) -> tuple[list[_Item], float]:
    """Return the items of a log, and when it starts.

    An item is ``0`` (failure) or ``1`` (success), then nothing: at the time of the item before;
    or ``:TIMESTAMP``; or ``:+SECONDS`` after the item before. The log starts at the timestamp of
    its first item if that has one, else at 0.

    Source: ``show-backoff-delays`` of Perl's App::AlgorithmBackoffUtils; its logs start now, and
    have whole seconds.

    Raises:
        click.UsageError: There is no item, or one is something else.
    """
    if not items:
        raise click.UsageError("the log is empty: give a 0 for each failure, a 1 for each success")
    found: list[_Item] = []
    start = now = 0.0
    for position, text in enumerate(items, 1):
        match = _ITEM.fullmatch(text)
        if match is None:
            raise click.UsageError(
                f"item {position} of the log must be 0 or 1, alone or with :TIMESTAMP or "
                f":+SECONDS, not {safe_repr(text)}"
            )
        if match["seconds"]:
            now = float(match["seconds"]) + (now if match["later"] else 0.0)
        if not isfinite(now):
            raise click.UsageError(f"item {position} of the log is too late: {safe_repr(text)}")
        if not found and not match["later"]:
            start = now
        found.append(_Item(text, match["success"] == "1", now))
    return found, start


def answers(policy: BackOff, log: Iterable[_Item], clock: FrozenClock) -> str:
    """Return a line for each item: the delay in seconds, or -1 where the policy gives up.

    Args:
        policy: One that takes feedback.
        log: The items.
        clock: What the policy measures elapsed time on. It shows the time of each item, but never
            goes back, as a log may where the policy has given up.

    Raises:
        click.UsageError: A timestamp is less than the one before.
    """
    lines = []
    for position, item in enumerate(log, 1):
        clock.now = max(clock.now, item.timestamp)
        try:
            answer = tell(policy, "success" if item.success else "failure", item.timestamp)
        except ValueError as error:
            raise click.UsageError(
                f"item {position} of the log, {safe_repr(item.text)}: {error}"
            ) from error
        lines.append("-1\n" if isinstance(answer, Stop) else f"{exact(answer)}\n")
    return "".join(lines)
