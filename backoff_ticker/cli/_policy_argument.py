"""Policies as arguments: a name, or a name with options, in quotes."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..policies import POLICIES
from ._commands import did_you_mean
from ._policy_options import build_policy, policy_parameters, with_arguments
from ._policy_texts import SUMMARIES

if TYPE_CHECKING:
    import random

    from ..policies import BackOff, NamedPolicy, TimeSource

    Choice = click.Choice[str]  # earlier versions of click have no type argument
else:
    Choice = click.Choice

_LABELLED = re.compile(r"([\w-]+)=(.*)", re.DOTALL)


class PolicyName(Choice):
    """The name of a policy."""

    def __init__(self) -> None:
        super().__init__([*POLICIES])

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete a name, and say what the policy does."""
        items = super().shell_complete(ctx, param, incomplete)
        return [CompletionItem(item.value, help=SUMMARIES[item.value]) for item in items]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's
        """Return the name."""
        if value not in POLICIES:
            self.fail(
                f"there is no policy {value!r}.{did_you_mean(value, SUMMARIES)} 'backoff-ticker "
                "delays --help' lists all.",
                param,
                ctx,
            )
        return str(value)


class PolicyArgument:
    """A policy with its options, as it was given on the command line.

    Args:
        label: What it is called.
        policy: Which it is.
        words: Its options and arguments.

    Attributes:
        label: What it is called.

    Raises:
        click.UsageError: An option is missing, unknown, or refused.
    """

    def __init__(self, label: str, policy: NamedPolicy, words: list[str]) -> None:
        command = click.Command(
            policy.name, params=policy_parameters(policy), add_help_option=False
        )
        self.label = label
        self._policy = policy
        self._context = command.make_context(policy.name, words)
        with self._context:
            values = self._context.params.pop("values", ())
            self._options = with_arguments(policy, self._context.params, values)
        self.make()

    def make(self, rng: random.Random | None = None, clock: TimeSource | None = None) -> BackOff:
        """Return the policy.

        Args:
            rng: What it draws from.
            clock: For policies that measure time.
        """
        with self._context:
            return build_policy(self._policy, self._options, clock, rng)


class PolicyText(PolicyName):
    """The name of a policy, with its options, and with a label before it if there is one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's
        """Return a ``PolicyArgument``."""
        if isinstance(value, PolicyArgument):
            return value
        label, text = value, value
        if labelled := _LABELLED.fullmatch(value):
            label, text = labelled.groups()
        try:
            name, *words = shlex.split(text) or [""]
        except ValueError as error:
            self.fail(f"{value!r} is no policy with its options: {error}", param, ctx)
        policy = POLICIES[super().convert(name, param, ctx)]
        try:
            return PolicyArgument(label, policy, words)
        except click.UsageError as error:
            hint = "" if words else f". Options stand in the same quotes: '{name} ...'"
            self.fail(f"{value!r}: {error.format_message()}{hint}", param, ctx)
