"""The options of each policy on the command line, read off the signature of its constructor."""

from __future__ import annotations

import inspect
import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..policies._limits import with_max_elapsed_time, with_max_interval, with_max_retries
from ..policies._named import POLICIES
from ..policies._with_jitter import with_added_jitter, with_jitter
from ._policy_help import HELP
from ._readers import number, whole_number, word_or_number
from ._text import as_text, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .._protocols import BackOff, Clock
    from ..policies._named import NamedPolicy

__all__ = ["PolicyOption", "build_policy", "options_of", "policy_options", "seed_option"]

_NOT_ON_THE_COMMAND_LINE = ("rng", "clock")

_NONE = object()
"""What the word ``none`` stands for until the policy is built; None means not given."""


class _Kind(NamedTuple):
    """How the value of an option is written.

    Attributes:
        read: Reads one; whether it is in range, the policy tells.
        metavar: What the help calls it.
        optional: Whether the word ``none`` is a value too.
    """

    read: Callable[[str], object]
    metavar: str
    optional: bool = False

    def value(self, text: str) -> object:
        """Return the value that ``text`` is."""
        return _NONE if self.optional and text == "none" else self.read(text)


_COUNT = _Kind(whole_number(), "N")
_NUMBER = _Kind(number, "NUMBER")
_SECONDS = _Kind(number, "SECONDS")
_SECONDS_OR_NONE = _Kind(number, "SECONDS", optional=True)

_JITTER = _Kind(word_or_number, "KIND")

_KINDS: dict[str, _Kind | None] = {
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
        wrap: Called with the policy and the value of the option, and a generator if it draws.
        kind: How that value is written.
        draws: Whether it does.
    """

    wrap: Callable[..., BackOff]
    kind: _Kind
    draws: bool = False


_WRAPPERS = {
    "jitter": _Wrapper(with_jitter, _JITTER, draws=True),
    "max_jitter": _Wrapper(with_added_jitter, _SECONDS, draws=True),
    "max_interval": _Wrapper(with_max_interval, _SECONDS),
    "max_elapsed_time": _Wrapper(with_max_elapsed_time, _SECONDS_OR_NONE),
    "max_retries": _Wrapper(with_max_retries, _COUNT),
}
"""By the name of the option, the inmost first."""


class _Parameter(NamedTuple):
    """What can be said of a policy by an option."""

    name: str
    default: object
    kind: _Kind | None

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


class PolicyOption(click.Option):
    """An option that tells of a policy, not of the command."""


def _flag(name: str) -> str:
    """Return how the option for a parameter is spelled."""
    return f"--{name.replace('_', '-')}"


def options_of(policy: NamedPolicy) -> dict[str, _Parameter]:
    """Return what can be said of a policy on the command line, in the constructor's order.

    Raises:
        TypeError: The table of kinds lacks the annotation of a parameter.
    """
    found = {
        name: _Parameter(name, parameter.default, _kind_of(policy, parameter))
        for name, parameter in inspect.signature(policy).parameters.items()
        if name not in _NOT_ON_THE_COMMAND_LINE
    }
    for name, wrapper in _WRAPPERS.items():
        found.setdefault(name, _Parameter(name, None, wrapper.kind))
    return found


def _kind_of(policy: NamedPolicy, parameter: inspect.Parameter) -> _Kind | None:
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
    name, kind = parameter.name, parameter.kind
    told = "required" if parameter.required else f"default: {as_text(parameter.default)}"
    text = f"{HELP.get(name, '')} [{told}]".strip()
    if kind is None:
        return PolicyOption([f"{_flag(name)}/{_flag(f'no_{name}')}"], default=None, help=text)
    return PolicyOption([_flag(name)], type=kind.value, metavar=kind.metavar, help=text)


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
    foreign = [_flag(option) for option in options if option not in known]
    if foreign:
        has = listed(map(_flag, known)) or "none"
        raise click.UsageError(f"no such option of {name}: {listed(foreign)} (its options: {has})")
    missing = [
        _flag(option) for option in known if known[option].required and option not in options
    ]
    if missing:
        raise click.UsageError(f"{name} needs {listed(missing)}")
    parameters = inspect.signature(policy).parameters
    drawing = {} if seed is None else {"rng": random.Random(seed)}  # noqa: S311 - no secret
    if "rng" in parameters:
        options.update(drawing)
    if clock is not None and "clock" in parameters:
        options["clock"] = clock
    around = {name: options.pop(name) for name in _WRAPPERS if name in options.keys() - parameters}
    try:
        backoff: BackOff = policy(**options)
        for option, value in around.items():
            wrapper = _WRAPPERS[option]
            backoff = wrapper.wrap(backoff, value, **drawing if wrapper.draws else {})
    except (TypeError, ValueError) as error:
        raise click.UsageError(_spelled(str(error), known)) from error
    return backoff


def _spelled(message: str, known: Iterable[str]) -> str:
    """Return what a constructor says with its parameters spelled as options."""
    for name in known:
        message = re.sub(rf"(?<![\w-]){name}(?![\w-])", _flag(name), message)
    return message.replace(" or a timedelta", "")
