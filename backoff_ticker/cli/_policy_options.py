"""The options of each policy on the command line, read off the signature of its constructor."""

from __future__ import annotations

import inspect
import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..policies._limits import with_max_elapsed_time, with_max_interval
from ..policies._named import POLICIES
from ..policies._wrappers import with_max_retries
from ._readers import number, whole_number
from ._text import HELP, as_text, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .._protocols import BackOff, Clock
    from ..policies._named import NamedPolicy

__all__ = ["PolicyOption", "build_policy", "flag", "options_of", "policy_options", "seed_option"]

_NOT_ON_THE_COMMAND_LINE = ("rng", "clock")
_LIMITS: dict[str, Callable[[BackOff, Any], BackOff]] = {
    "max_interval": with_max_interval,
    "max_elapsed_time": with_max_elapsed_time,
    "max_retries": with_max_retries,
}
"""What can be put around any policy, unless it has a parameter of that name, the inmost first."""

_NONE = object()
"""What the word ``none`` stands for until the policy is built; None means not given."""


class _Parameter(NamedTuple):
    """An option of a policy, as its constructor tells it."""

    name: str
    default: object
    annotation: str

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def optional(self) -> bool:
        return "None" in self.annotation

    @property
    def kind(self) -> str:
        for word in ("bool", "timedelta", "float"):
            if word in self.annotation:
                return word
        return "int"

    @property
    def unit(self) -> str:
        return {"timedelta": "SECONDS", "float": "NUMBER"}.get(self.kind, "N")

    def read(self, text: str) -> object:
        """Return the number that ``text`` is; whether it is in range, the policy tells."""
        if self.optional and text == "none":
            return _NONE
        return whole_number()(text) if self.kind == "int" else number(text)


class PolicyOption(click.Option):
    """An option that goes to a policy's constructor."""


def flag(name: str) -> str:
    """Return how the option for a parameter is spelled."""
    return f"--{name.replace('_', '-')}"


def options_of(policy: NamedPolicy) -> dict[str, _Parameter]:
    """Return what can be said of a policy on the command line, in the constructor's order."""
    own = inspect.signature(policy).parameters
    around = [inspect.signature(wrap).parameters[name] for name, wrap in _LIMITS.items()]
    return {
        **{
            found.name: _Parameter(found.name, found.default, str(found.annotation))
            for found in own.values()
            if found.name not in _NOT_ON_THE_COMMAND_LINE
        },
        **{
            found.name: _Parameter(found.name, None, str(found.annotation))
            for found in around
            if found.name not in own
        },
    }


def _option(parameter: _Parameter) -> PolicyOption:
    spelled = flag(parameter.name)
    told = "required" if parameter.required else f"default: {as_text(parameter.default)}"
    text = f"{HELP.get(parameter.name, '')} [{told}]".strip()
    if parameter.kind == "bool":
        spelled = f"{spelled}/{flag(f'no_{parameter.name}')}"
        return PolicyOption([spelled], default=None, help=text)
    return PolicyOption([spelled], type=parameter.read, metavar=parameter.unit, help=text)


def policy_options(
    policies: Iterable[NamedPolicy], taken: frozenset[str] = frozenset()
) -> list[click.Option]:
    """Return an option for each parameter that one of ``policies`` has, but for those ``taken``."""
    found: dict[str, _Parameter] = {}
    for policy in policies:
        for name, parameter in options_of(policy).items():
            found.setdefault(name, parameter)
    return [_option(parameter) for name, parameter in found.items() if name not in taken]


def seed_option() -> click.Option:
    """Return the option that fixes what is drawn."""
    text = "Draw the same delays each time. Without it, each run draws others."
    return click.Option(["--seed"], type=whole_number(0), metavar="N", help=text)


def build_policy(
    name: str, given: Mapping[str, object], seed: int | None, clock: Clock | None = None
) -> BackOff:
    """Return the policy of that name.

    Args:
        name: One of ``POLICIES``.
        given: What the options of the command line say; None: not given.
        seed: For a generator to draw from.
        clock: For the policies that measure time.

    Raises:
        click.UsageError: An option is missing, belongs to another policy, or is refused.
    """
    policy = POLICIES[name]
    known = options_of(policy)
    options: dict[str, Any] = {
        option: None if value is _NONE else value
        for option, value in given.items()
        if value is not None
    }
    foreign = [flag(option) for option in options if option not in known]
    if foreign:
        has = listed(map(flag, known)) or "none"
        raise click.UsageError(f"no such option of {name}: {listed(foreign)} (its options: {has})")
    missing = [flag(option) for option in known if known[option].required and option not in options]
    if missing:
        raise click.UsageError(f"{name} needs {listed(missing)}")
    parameters = inspect.signature(policy).parameters
    if seed is not None and "rng" in parameters:
        options["rng"] = random.Random(seed)  # noqa: S311 - jitter is no secret
    if clock is not None and "clock" in parameters:
        options["clock"] = clock
    around = {name: options.pop(name) for name in _LIMITS if name in options.keys() - parameters}
    try:
        return _limited(policy(**options), around)
    except (TypeError, ValueError) as error:
        raise click.UsageError(_spelled(str(error), known)) from error


def _limited(backoff: BackOff, limits: Mapping[str, object]) -> BackOff:
    for name, limit in limits.items():
        backoff = _LIMITS[name](backoff, limit)
    return backoff


def _spelled(message: str, known: Iterable[str]) -> str:
    """Return what a constructor says with its parameters spelled as options."""
    for name in known:
        message = re.sub(rf"(?<![\w-]){name}(?![\w-])", flag(name), message)
    return message.replace(" or a timedelta", "")
