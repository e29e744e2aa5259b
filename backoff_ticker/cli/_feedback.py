"""``backoff-ticker feedback``: what a policy answers to a log of failures and successes."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import click

from .. import POLICIES
from .._sentinels import STOP
from ..policies import FrozenClock, checked_delay, tell
from ._commands import PolicyCommand, examples
from ._param_types import exact, parse_duration
from ._policy_names import PolicyGroup, about, summary
from ._policy_options import build_policy, policy_options, sample_options, seed_option

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..policies import BackOff
    from ..types import NamedPolicy

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_ITEM = re.compile(
    rf"(?P<success>[01])(?::(?P<later>\+?)(?P<time>{_NUMBER}|(?:{_NUMBER}(?:ms|[smhd]))+))?"
)
_SUFFIX = "-feedback"  # of policies that share their name in Perl with another policy here


class Item(NamedTuple):
    """One item of a log, as it was given; whether it is a success; when it happened, in seconds."""

    text: str
    success: bool
    timestamp: float


def parse_log(texts: Sequence[str]) -> tuple[list[Item], float]:
    """Return the items of a log, and when it starts, as the help of the command says.

    Source: ``show-backoff-delays`` of Perl's App::AlgorithmBackoffUtils; its logs start now, and
    have whole seconds.
    """
    items: list[Item] = []
    start = now = 0.0
    for position, text in enumerate(texts, 1):
        match = _ITEM.fullmatch(text)
        if match is None:
            raise click.UsageError(
                f"item {position} of the log must be 0 or 1, alone or with :TIMESTAMP or "
                f":+DURATION, not {text!r}"
            )
        if match["time"]:
            now = parse_duration(match["time"]) + (now if match["later"] else 0.0)
        if not isfinite(now):
            raise click.UsageError(f"item {position} of the log is too late: {text!r}")
        if not items and not match["later"]:
            start = now
        items.append(Item(text, match["success"] == "1", now))
    return items, start


def answers(policy: BackOff, log: Iterable[Item], clock: FrozenClock) -> str:
    """Return a line for each item: the delay in seconds, or -1 where the policy gives up.

    The clock of the policy is set to the time of each item. It never goes back, although a log may
    after the policy has given up.
    """
    lines = []
    for position, item in enumerate(log, 1):
        clock.now = max(clock.now, item.timestamp)
        try:
            answer = tell(policy, "success" if item.success else "failure", item.timestamp)
        except ValueError as error:
            raise click.UsageError(f"item {position} of the log, {item.text!r}: {error}") from error
        lines.append("-1\n" if answer is STOP else f"{exact(checked_delay(policy, answer))}\n")
    return "".join(lines)


def feedback_group() -> click.Group:
    policies = [policy for policy in POLICIES.values() if policy.feedback]
    return PolicyGroup(
        "feedback",
        _feedback_command,
        {policy.name.removesuffix(_SUFFIX): policy for policy in policies},
        epilog=examples(
            "feedback constant --delay 2s 0 0 1 0",
            "feedback fibonacci --initial-delay1 1s --initial-delay2 2s 0 0 0 1",
        ),
        short_help="Show what a feedback policy answers to failures and successes.",
        help="Show what a feedback policy answers to a log of failures and successes: a line for "
        "each, the delay in seconds, or -1 where the policy gives up.",
    )


def _feedback_command(name: str, policy: NamedPolicy) -> click.Command:
    if not policy.feedback:
        raise click.UsageError(f"{name} takes no feedback: it has no failure() and success()")

    def show(log: tuple[str, ...], **options: object) -> None:
        items, start = parse_log(log)
        clock = FrozenClock(start)
        click.echo(answers(build_policy(policy, options, clock), items, clock), nl=False)

    sample = sample_options(policy)
    return PolicyCommand(
        name,
        callback=show,
        epilog=examples(
            f"feedback {name}{sample} 0 0 1 0", f"feedback {name}{sample} 0 0:+10s 1:+1m"
        ),
        params=[
            *policy_options(policy),
            seed_option(),
            click.Argument(["log"], nargs=-1, required=True, metavar="LOG..."),
        ],
        short_help=summary(policy),
        help=f"Show what {name} answers to a log.\n\n{about(policy)}\n\n"
        "Each item of LOG is 0, a failure, or 1, a success: alone, at the time of the item before; "
        "or with :TIMESTAMP, in seconds; or with :+DURATION after the item before. So 0 0:+2s 1 "
        "fails, fails again 2 seconds later, and succeeds at once. The log starts at the "
        "timestamp of its first item, or at 0; limits of elapsed time count from there.",
    )
