"""``backoff-ticker feedback``: what a policy answers to a log of failures and successes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..policies import POLICIES, FrozenClock
from ._commands import PolicyCommand, PolicyGroup
from ._feedback_log import answers, parse_log
from ._policy_options import build_policy, policy_options, seed_option
from ._text import listed

if TYPE_CHECKING:
    from ..policies import NamedPolicy


def feedback_group() -> click.Group:
    """Return the command ``feedback``, which has a command for each policy that takes feedback."""
    hearing = [policy for policy in POLICIES.values() if policy.feedback]
    names = [policy.name for policy in hearing]
    group = PolicyGroup(
        "feedback",
        short_help="Show what a feedback policy answers to failures and successes.",
        help="Show what a feedback policy answers to a log of failures and successes: a line for "
        "each, the delay in seconds, or -1 where the policy gives up.",
        elsewhere={
            name: f"{name} takes no feedback (those that do: {listed(names)})"
            for name in POLICIES
            if name not in names
        },
    )
    for policy in hearing:
        group.add_command(_feedback_command(policy))
    return group


def _feedback_command(policy: NamedPolicy) -> click.Command:
    def show(*, log: tuple[str, ...], seed: int | None, **given: object) -> int:
        items, start = parse_log(log)
        clock = FrozenClock(start)
        backoff = build_policy(policy.name, given, seed, clock)
        click.echo(answers(backoff, items, clock), nl=False)
        return 0

    return PolicyCommand(
        policy.name,
        callback=show,
        params=[
            *policy_options([policy]),
            seed_option(),
            click.Argument(["log"], nargs=-1, metavar="LOG..."),
        ],
        short_help=policy.source,
        help=f"Show what {policy.name} answers to a log.\n\nSource: {policy.source}.\n\n"
        "Each item of LOG is 0, a failure, or 1, a success: alone, at the time of the item before; "
        "or with :TIMESTAMP, in seconds; or with :+SECONDS after the item before. So 0 0:+2 1 "
        "fails, fails again 2 seconds later, and succeeds at once. The log starts at the "
        "timestamp of its first item, or at 0; limits of elapsed time count from there.",
    )
