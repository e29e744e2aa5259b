"""The options of each policy on the command line, read off the signature of its constructor."""

from __future__ import annotations

import inspect
import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..policies import (
    POLICIES,
    with_added_jitter,
    with_jitter,
    with_max_elapsed_time,
    with_max_interval,
    with_max_retries,
)
from ._policy_help import AROUND, help_of
from ._readers import Kind, number, whole_number, word_or_number
from ._text import as_text, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..policies import BackOff, NamedPolicy, TimeSource

_NOT_ON_THE_COMMAND_LINE = ("rng", "clock")

_COUNT = Kind(whole_number(), "N")
_NUMBER = Kind(number, "NUMBER")
_SECONDS = Kind(number, "SECONDS")
_SECONDS_OR_NONE = Kind(number, "SECONDS", optional=True)
_JITTER = Kind(word_or_number, "KIND")

_KINDS: dict[str, Kind | None] = {
    "bool": None,
    "int": _COUNT,
    "float": _NUMBER,
    "float | timedelta": _SECONDS,
    "float | timedelta | None": _SECONDS_OR_NONE,
}
"""By the annotation of a constructor's parameter; None: the option is a flag."""


class _Wrapper(NamedTuple):
    """What an option puts around a policy that has no parameter of its name.

    Attributes:
        wrap: Called with the policy and the value of the option.
        kind: How that value is written; the word ``none`` puts nothing around.
    """

    wrap: Callable[..., BackOff]
    kind: Kind


_WRAPPERS = {
    "jitter": _Wrapper(with_jitter, _JITTER),
    "max_jitter": _Wrapper(with_added_jitter, _SECONDS),
    "max_interval": _Wrapper(with_max_interval, _SECONDS),
    "max_elapsed_time": _Wrapper(with_max_elapsed_time, _SECONDS_OR_NONE),
    "max_retries": _Wrapper(with_max_retries, _COUNT),
}
"""By the name of the option, the inmost first."""

_JITTERS = ("jitter", "max_jitter")


class PolicyOption(click.Option):
    """An option that tells of a policy, not of the command."""

    section = "Options of the policy"


class WrapperOption(PolicyOption):
    """An option that puts something around a policy."""

    section = "Around the policy"


class _Parameter(NamedTuple):
    """What can be said of a policy by an option."""

    name: str
    default: object
    kind: Kind | None
    help: str
    option: type[PolicyOption]

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def value(self, given: Any) -> object:  # noqa: ANN401 - a text, or what a flag says
        """Return what the option says.

        Raises:
            click.BadParameter: It cannot be read.
        """
        try:
            return given if self.kind is None else self.kind.value(given)
        except click.BadParameter as error:
            error.param_hint = f"'{_flag(self.name)}'"
            raise


def _flag(name: str) -> str:
    """Return how the option for a parameter is spelled."""
    return f"--{name.replace('_', '-')}"


def options_of(policy: NamedPolicy) -> dict[str, _Parameter]:
    """Return what can be said of a policy on the command line, in the constructor's order.

    Raises:
        TypeError: The table of kinds lacks the annotation of a parameter.
    """
    found = {
        name: _Parameter(
            name,
            parameter.default,
            _kind_of(policy, parameter),
            help_of(policy.name, name),
            PolicyOption,
        )
        for name, parameter in inspect.signature(policy).parameters.items()
        if name not in _NOT_ON_THE_COMMAND_LINE
    }
    for name, wrapper in _WRAPPERS.items():
        kind = wrapper.kind._replace(optional=True)
        found.setdefault(name, _Parameter(name, None, kind, AROUND[name], WrapperOption))
    return found


def _kind_of(policy: NamedPolicy, parameter: inspect.Parameter) -> Kind | None:
    try:
        return _KINDS[parameter.annotation]
    except KeyError:
        raise TypeError(
            f"no kind of option for {parameter.name} of {policy.name}: {parameter.annotation!r}"
        ) from None


def policy_options(
    policies: Iterable[NamedPolicy], taken: frozenset[str] = frozenset()
) -> list[PolicyOption]:
    """Return an option for each parameter that one of ``policies`` has, but for those ``taken``."""
    found: dict[str, _Parameter] = {}
    for policy in policies:
        for name, parameter in options_of(policy).items():
            found.setdefault(name, parameter)
    return [_option(parameter) for name, parameter in found.items() if name not in taken]


def _option(parameter: _Parameter) -> PolicyOption:
    """Return an option whose value is read where its policy is known: see ``build_policy``."""
    name, kind, default = parameter.name, parameter.kind, parameter.default
    off = f"no_{name}"
    usual = as_text(default) if kind is not None else _flag(name if default else off)
    text = f"{parameter.help} [{'required' if parameter.required else f'default: {usual}'}]"
    if kind is None:
        return parameter.option([f"{_flag(name)}/{_flag(off)}"], default=None, help=text)
    return parameter.option([_flag(name)], type=str, metavar=kind.metavar, help=text)


def seed_option() -> click.Option:
    """Return the option that fixes what is drawn."""
    text = "Draw the same delays each time. Without it, each run draws others."
    return click.Option(["--seed"], type=whole_number(0), metavar="N", help=text)


def build_policy(
    name: str, given: Mapping[str, object], seed: int | None, clock: TimeSource | None = None
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
    said = {option: value for option, value in given.items() if value is not None}
    foreign = [_flag(option) for option in said if option not in known]
    if foreign:
        has = listed(map(_flag, known))
        raise click.UsageError(f"no such option of {name}: {listed(foreign)} (its options: {has})")
    missing = [_flag(option) for option in known if known[option].required and option not in said]
    if missing:
        raise click.UsageError(f"{name} needs {listed(missing)}")
    options = {option: known[option].value(value) for option, value in said.items()}
    around = {
        option: options.pop(option, None)
        for option in _WRAPPERS
        if known[option].option is WrapperOption
    }
    lent: dict[str, object] = {}
    if seed is not None:
        lent["rng"] = random.Random(seed)  # noqa: S311 - no secret
    if clock is not None:
        lent["clock"] = clock
    try:
        backoff: BackOff = policy(**options, **_wanted(policy, lent))
        if any(around.get(option) is not None for option in _JITTERS):
            around.setdefault("max_elapsed_time", _limit_ahead(backoff))
        for option, (wrap, _) in _WRAPPERS.items():
            value = around.get(option)
            if value is not None:
                backoff = wrap(backoff, value, **_wanted(wrap, lent))
    except (TypeError, ValueError) as error:
        raise click.UsageError(_spelled(str(error), known)) from error
    return backoff


def _limit_ahead(policy: BackOff) -> float | None:
    """Return a policy's own limit of elapsed time that counts the delay to come, if it has one.

    A jitter around the policy makes that delay longer, so the limit goes around the jitter, too.
    """
    limit: float | None = getattr(policy, "max_elapsed_time", None)
    return limit if getattr(policy, "look_ahead", True) else None


def _wanted(make: Callable[..., object], lent: Mapping[str, object]) -> dict[str, Any]:
    """Return those of ``lent`` that ``make`` has a parameter for."""
    parameters = inspect.signature(make).parameters
    return {name: value for name, value in lent.items() if name in parameters}


def _spelled(message: str, known: Iterable[str]) -> str:
    """Return what a constructor says with its parameters spelled as options, not what it quotes."""
    spelled = re.sub(
        rf"'[^']*'|(?<![\w-])({'|'.join(known)})(?![\w-])",
        lambda found: _flag(found[1]) if found[1] else found[0],
        message,
    )
    return spelled.replace(" or a timedelta", "")
