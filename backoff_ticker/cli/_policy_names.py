"""Policies by name or import path, as commands of a group and as arguments."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from .. import POLICIES
from ..types import NamedPolicy
from ._commands import Group, did_you_mean
from ._param_types import ParamType
from ._policy_options import build_policy, policy_parameters, with_arguments

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from ..policies import BackOff, TimeSource
    from ._param_types import Context, Param

_LABELLED = re.compile(r"([\w-]+)=(.*)", re.DOTALL)
_AFTER_PROSE = re.compile(r"^(?:Args|Attributes|Raises|Thread safety|Example):", re.MULTILINE)


def find_policy(name: str) -> NamedPolicy | None:
    """Return the policy of a name or of an import path, ``module:Class``; None if there is none."""
    module, colon, path = name.partition(":")
    if not colon:
        return POLICIES.get(name)
    if "" not in sys.path:
        sys.path.insert(0, "")  # where the user is, as with python -m
    try:
        found = attrgetter(path)(import_module(module))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise click.UsageError(f"cannot import {name!r}: {error}") from error
    return NamedPolicy(name, found if callable(found) else lambda: found)


def about(policy: NamedPolicy) -> str:
    """Return what the docstring of a policy says before its arguments; of a preset its source."""
    if policy.preset:
        return f"{policy.source}."
    prose = _AFTER_PROSE.split(inspect.cleandoc(policy.make.__doc__ or ""))[0]
    return prose.replace("``", "").strip()


def summary(policy: NamedPolicy) -> str:
    """Return what a policy does, in one paragraph."""
    return " ".join(about(policy).partition("\n\n")[0].split())


class PolicyName(ParamType):
    """The name or the import path of a policy."""

    name = "policy"

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [
            CompletionItem(name, help=summary(policy))
            for name, policy in POLICIES.items()
            if name.startswith(incomplete)
        ]

    def convert(self, value: Any, param: Param, ctx: Context) -> Any:
        found = value if isinstance(value, NamedPolicy) else find_policy(value)
        if found is None:
            meant = did_you_mean(value, [*POLICIES])
            message = f"there is no policy {value!r}.{meant} 'backoff-ticker delays --help' lists"
            self.fail(f"{message} all.", param, ctx)
        return found


class PolicyArgument:
    """A policy with its options, and what it is called, as it was given on the command line."""

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
        """Return the policy, which draws from ``rng`` and may measure time with ``clock``."""
        with self._context:
            return build_policy(self._policy, self._options, clock, rng)


class PolicyText(PolicyName):
    """The name of a policy, with its options, and with a label before it if there is one."""

    def convert(self, value: Any, param: Param, ctx: Context) -> Any:
        if isinstance(value, PolicyArgument):
            return value
        label, text = value, value
        if labelled := _LABELLED.fullmatch(value):
            label, text = labelled.groups()
        try:
            name, *words = shlex.split(text) or [""]
        except ValueError as error:
            self.fail(f"{value!r} is no policy with its options: {error}", param, ctx)
        policy = super().convert(name, param, ctx)
        try:
            return PolicyArgument(label, policy, [*words])
        except click.UsageError as error:
            hint = "" if words else f". Options stand in the same quotes: '{name} ...'"
            self.fail(f"{value!r}: {error.format_message()}{hint}", param, ctx)


class PolicyGroup(Group):
    """A group with a command for each policy, which ``make`` makes; ``policies`` are listed."""

    def __init__(
        self,
        name: str,
        make: Callable[[str, NamedPolicy], click.Command],
        policies: Mapping[str, NamedPolicy],
        **options: Any,
    ) -> None:
        super().__init__(name, subcommand_metavar="POLICY [OPTIONS]...", **options)
        self._make = make
        self._policies = policies

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._policies]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a policy; one that is not listed has its full name."""
        policy = self._policies.get(cmd_name) or find_policy(cmd_name)
        listed = policy in self._policies.values()
        if policy is None or not (listed or ":" in cmd_name):
            return None
        return self._make(cmd_name, policy)
