"""The options of policies: which there are, of which kind, and limits around any policy."""

from __future__ import annotations

import json
import re
from inspect import signature

import pytest

from backoff_ticker.cli import _policy_options
from backoff_ticker.cli._policy_options import _KINDS, _WRAPPERS, options_of, policy_options
from backoff_ticker.policies._named import POLICIES, NamedPolicy

from .calling import call
from .test_delays import GIVEN


@pytest.mark.parametrize("name", POLICIES)
def test_the_table_of_kinds_has_the_annotation_of_every_parameter(name):
    policy = POLICIES[name]
    parameters = signature(policy).parameters
    for parameter in parameters.values():
        if parameter.name not in ("rng", "clock"):
            kind = _KINDS[parameter.annotation]
            assert options_of(policy)[parameter.name].kind is kind
    assert options_of(policy).keys() == parameters.keys() - {"rng", "clock"} | _WRAPPERS.keys()


def test_the_table_of_kinds_has_no_annotation_that_no_parameter_has():
    found = {
        parameter.annotation
        for policy in POLICIES.values()
        for parameter in signature(policy).parameters.values()
    }
    assert _KINDS.keys() <= found


def test_a_parameter_of_another_kind_is_refused_as_the_options_are_built(monkeypatch):
    def make(interval: float, delay: float | str = 1.0): ...

    policy = NamedPolicy("odd", make, "nowhere")
    with pytest.raises(TypeError, match="^no kind of option for delay of odd: 'float \\| str.$"):
        policy_options([policy])
    monkeypatch.setitem(_KINDS, "float | str", _policy_options._NUMBER)
    assert [option.name for option in policy_options([policy])][:2] == ["interval", "delay"]


def test_a_parameter_without_help_is_refused_as_the_options_are_built():
    def make(pause: float): ...

    with pytest.raises(KeyError, match="pause"):
        policy_options([NamedPolicy("odd", make, "nowhere")])


def test_options_of_one_name_are_of_one_kind():
    """One may take none and another not, but `run` has the flags and the values of all."""
    kinds = {}
    for policy in POLICIES.values():
        for name, parameter in options_of(policy).items():
            kind = parameter.kind and parameter.kind._replace(optional=True)
            assert kinds.setdefault(name, kind) == kind


@pytest.mark.parametrize("name", ["max_interval", "max_elapsed_time", "max_retries"])
def test_a_limit_is_of_the_kind_of_its_parameter(name):
    wrapper = _WRAPPERS[name]
    assert _KINDS[signature(wrapper.wrap).parameters[name].annotation] is wrapper.kind


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        ("int", "12", 12),
        ("float", "1.5", 1.5),
        ("float | timedelta", "2", 2.0),
        ("float | timedelta | None", "2", 2.0),
        ("float | timedelta | None", "none", None),
    ],
)
def test_what_a_kind_reads(annotation, text, value):
    found = _KINDS[annotation].value(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("name", POLICIES)
def test_every_default_of_the_help_is_accepted_and_changes_nothing(capsys, name):
    line = f"delays {name} {GIVEN.get(name, '')} --seed 1 --json"
    options = policy_options([POLICIES[name]])
    printed = {option.opts[0]: defaults(option) for option in options}
    required = [flag for flag, found in printed.items() if not found]
    assert required == [word for word in GIVEN.get(name, "").split() if word.startswith("--")]
    usual = call(capsys, line).out
    for flag, found in printed.items():
        for default in found:
            words = [default] if default.startswith("--") else [flag, default]
            assert call(capsys, line, *words) == (0, usual, "")


def defaults(option):
    return re.findall(r"\[default: (.*)\]$", option.help)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("exponential --max-interval none", "invalid value for '--max-interval': 'none' is not a"),
        ("cloud-storage --max-jitter none", "invalid value for '--max-jitter': 'none' is not a"),
        ("constant-feedback --delay 1 --max-attempts none", "'none' is not a whole number"),
    ],
)
def test_none_is_no_value_of_a_parameter_that_cannot_be_none(capsys, line, complaint):
    assert complaint in call(capsys, f"delays {line}").complaint


# Jitter and limits around any policy


def ranges_said(capsys, line):
    said = json.loads(call(capsys, f"delays {line} --json").out)["delays"]
    return [(one["least"], one["greatest"]) for one in said]


def test_any_policy_can_have_a_jitter(capsys):
    fixed = "fibonacci --initial-delay1 2 --initial-delay2 2 -n 3"
    assert ranges_said(capsys, f"{fixed} --jitter full") == [(0, 2), (0, 2), (0, 4)]
    assert ranges_said(capsys, f"{fixed} --jitter equal") == [(1, 2), (1, 2), (2, 4)]
    assert ranges_said(capsys, f"{fixed} --jitter 0.5") == [(1, 3), (1, 3), (2, 6)]
    assert ranges_said(capsys, f"{fixed} --max-jitter 1") == [(2, 3), (2, 3), (4, 5)]
    assert ranges_said(capsys, f"{fixed} --max-jitter 1 --max-interval 4") == [
        (2, 3),
        (2, 3),
        (4, 4),
    ]


@pytest.mark.parametrize("jitter", ["--max-jitter 5", "--jitter 0.9", "--jitter full"])
def test_a_limit_that_a_policy_has_itself_goes_around_a_jitter_too(capsys, jitter):
    for seed in range(20):
        line = f"exponential --max-elapsed-time 10 {jitter} --seed {seed} -n 30"
        assert sum(delays_said(capsys, line)) <= 10.0
    assert len(delays_said(capsys, f"go --max-elapsed-time none {jitter} -n 500")) == 500
    java = "java --initial-interval 10 --multiplier 1 --randomization-factor 0 --jitter 0 -n 100"
    assert len(delays_said(capsys, f"{java} --max-elapsed-time 899")) == 90


def test_a_cap_of_a_policy_is_told_to_come_before_a_jitter_around_it():
    for name, flag, words in (
        ("full-jitter", "--cap", "before --jitter and --max-jitter"),
        ("lild", "--max-delay", "before --jitter and --max-jitter"),
        ("cloud-storage", "--maximum-backoff", "before --jitter"),
    ):
        (option,) = (o for o in policy_options([POLICIES[name]]) if o.opts == [flag])
        assert words in option.help


def test_a_seed_fixes_a_jitter_around_too(capsys):
    line = "constant --interval 4 --jitter equal"
    once, again, other = (delays_said(capsys, f"{line} --seed {seed}") for seed in (1, 1, 2))
    assert once == again != other


def test_a_jitter_shows_the_middle_of_its_range(capsys):
    line = "exponential --randomization-factor 0 --jitter full --json -n 2"
    said = json.loads(call(capsys, f"delays {line}").out)["delays"]
    assert [one["interval"] for one in said] == [0.25, 0.375]


def test_the_plain_form_is_a_delay_a_line(capsys):
    said = call(capsys, "delays constant --interval 4 -n 3 --plain")
    assert said == (0, "4\n4\n4\n", "")
    assert call(capsys, "delays stop --plain") == (0, "", "")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--jitter half", '--jitter must be "full" or "equal", or a fraction, not \'half\''),
        ("--jitter 1", "--jitter must be >= 0 and < 1, not 1.0"),
        ("--jitter nan", "--jitter must be"),
        ("--jitter 1_0", "--jitter': '1_0' is not a number"),
        ("--max-jitter -1", "--max-jitter must be a finite number of seconds >= 0, not -1.0"),
    ],
)
def test_a_bad_jitter_is_told_by_its_option(capsys, options, complaint):
    assert complaint in call(capsys, f"delays zero {options}").complaint


def delays_said(capsys, line):
    return [one["drawn"] for one in json.loads(call(capsys, f"delays {line} --json").out)["delays"]]


def test_any_policy_can_be_limited(capsys):
    fixed = "limd --initial-delay 2 --delay-increment-on-failure 4 --delay-multiple-on-success 0"
    assert delays_said(capsys, f"{fixed} -n 4 --max-interval 7") == [2.0, 6.0, 7.0, 7.0]
    assert delays_said(capsys, f"{fixed} --max-elapsed-time 8") == [2.0, 6.0]
    assert delays_said(capsys, f"{fixed} --max-retries 3") == [2.0, 6.0, 10.0]
    assert delays_said(capsys, f"{fixed} --max-interval 4 --max-elapsed-time 10") == [2.0, 4.0, 4.0]
    assert len(delays_said(capsys, "grpc --max-elapsed-time 3")) == 2


def test_presets_take_the_options_of_their_class(capsys):
    assert ranges_said(capsys, "go --max-interval 0.5 -n 2") == [(0.25, 0.75), (0.25, 0.75)]
    assert len(delays_said(capsys, "go --max-elapsed-time none -n 100")) == 100
    assert len(delays_said(capsys, "java --max-elapsed-time 0 -n 100")) == 100
    assert ranges_said(capsys, "cloud-storage --max-jitter 0 --multiplier 3 -n 3") == [
        (1, 1),
        (3, 3),
        (9, 9),
    ]
    steady = "--initial-interval 10 --multiplier 1 --randomization-factor 0 --max-elapsed-time 899"
    assert len(delays_said(capsys, f"go {steady} -n 100")) == 89
    assert len(delays_said(capsys, f"java {steady} -n 100")) == 90


def test_a_limit_that_a_policy_has_itself_is_its_own(capsys):
    plain = "exponential --randomization-factor 0 --multiplier 2"
    assert delays_said(capsys, f"{plain} -n 4 --max-interval 1.5") == [0.5, 1.0, 1.5, 1.5]
    assert len(delays_said(capsys, f"{plain} --max-elapsed-time none -n 100")) == 100


def test_a_limit_shows_the_interval_of_the_policy_inside(capsys):
    said = json.loads(call(capsys, "delays exponential --max-retries 2 --json").out)["delays"]
    assert [one["interval"] for one in said] == [0.5, 0.75]


def test_the_retries_of_a_preset_are_its_own(capsys):
    assert len(delays_said(capsys, "aws -n 20")) == 2
    assert len(delays_said(capsys, "aws --max-retries 9 -n 20")) == 9
    assert len(delays_said(capsys, "aws --max-retries 0 -n 20")) == 0


def test_what_was_given_is_not_respelled(capsys):
    said = call(capsys, "delays full-jitter --base 1 --cap 5 --jitter base")
    assert said.complaint == '--jitter must be "full" or "equal", or a fraction, not \'base\''
    said = call(capsys, "delays full-jitter --base 5 --cap 1")
    assert said.complaint == "--cap must be >= --base (5.0), not 1.0"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--max-retries -1", "--max-retries must be an int >= 0, not -1"),
        ("--max-interval nan", "--max-interval must be a finite number of seconds >= 0, not nan"),
        ("--max-elapsed-time -1", "--max-elapsed-time must be a finite number of seconds >= 0"),
    ],
)
def test_a_bad_limit_is_told_by_its_option(capsys, options, complaint):
    assert complaint in call(capsys, f"delays zero {options}").complaint
