"""The options of policies, and what can be put around any policy."""

from __future__ import annotations

import json
from inspect import signature

import click
import pytest

from backoff_ticker.cli import _policy_texts
from backoff_ticker.cli._param_types import Seconds
from backoff_ticker.cli._policy_options import KINDS, WRAPPERS, policy_options, required_of
from backoff_ticker.policies import POLICIES, NamedPolicy

from .calling import GIVEN, call


def parameters_of(name):
    return [one for one in signature(POLICIES[name]).parameters if one not in ("rng", "clock")]


# Which options there are


@pytest.mark.parametrize("name", POLICIES)
def test_help_tells_every_option_of_a_policy(name):
    told = " ".join(call(f"delays {name} --help", COLUMNS="1000").out.split())
    for option in {*parameters_of(name), *WRAPPERS}:
        assert f"--{option.replace('_', '-')}" in told
    assert "--rng" not in told
    assert "--clock" not in told


def test_help_has_a_sentence_for_every_option_and_no_more():
    options = {option for name in POLICIES for option in parameters_of(name)}
    assert set(_policy_texts.HELP) == options
    assert set(_policy_texts.HELP_AROUND) == set(WRAPPERS)
    assert set(_policy_texts.SUMMARIES) == set(POLICIES)
    assert {name: [*given] for name, given in _policy_texts.SAMPLES.items()} == {
        name: required_of(policy) for name, policy in POLICIES.items() if required_of(policy)
    }
    for name, special in _policy_texts.HELP_OF.items():
        assert special.keys() <= signature(POLICIES[name]).parameters.keys()


def test_help_tells_what_the_policy_has_from_what_is_put_around_it():
    def sections(name):
        text = call(f"delays {name} --help", COLUMNS="1000").out
        _, _, rest = text.partition("Options of the policy:")
        own, _, rest = rest.partition("Around the policy:")
        return own, rest.partition("\nOptions:")[0]

    own, around = sections("go")
    assert "--max-interval DURATION         The greatest interval;" in own
    assert "[default: 60" in " ".join(own.split())
    assert "--max-interval" not in around
    own, around = sections("full-jitter")
    assert "[required]" in own
    assert "--max-interval" not in own
    assert "--max-interval DURATION      Let no delay be longer, random part included;" in around
    assert "Options of the policy" not in call("delays grpc --help").out


@pytest.mark.parametrize("name", ["max_interval", "max_elapsed_time", "max_retries"])
def test_a_limit_is_of_the_kind_of_its_parameter(name):
    wrapper = WRAPPERS[name]
    kind = KINDS[signature(wrapper.wrap).parameters[name].annotation]
    assert type(getattr(kind, "kind", kind)) is type(wrapper.kind)


def test_a_parameter_of_another_kind_is_refused_as_the_options_are_built(monkeypatch):
    def make(interval: float, delay: float | str = 1.0): ...

    policy = NamedPolicy("odd", make, "nowhere")
    with pytest.raises(KeyError, match="float \\| str"):
        policy_options(policy)
    monkeypatch.setitem(KINDS, "float | str", click.FLOAT)
    assert [option.name for option in policy_options(policy)][:2] == ["interval", "delay"]


@pytest.mark.parametrize("name", POLICIES)
def test_every_default_can_be_given_and_changes_nothing(name):
    line = f"delays {name} {GIVEN.get(name, '')} --seed 1 --json"
    words = []
    for option in policy_options(POLICIES[name]):
        default = getattr(option, "default", None)
        if option.required:
            continue
        if isinstance(default, bool):
            words.append(option.opts[0] if default else option.secondary_opts[0])
        elif option.is_wrapper:
            words.append(f"{option.opts[0]}=none")
        else:
            words.append(f"{option.opts[0]}={default}")
    assert call(line, *words) == (0, call(line).out, "")


# What is wrong with them


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("full-jitter", "--base"),
        ("constant --interval -1", "--interval must be a finite number of seconds >= 0, not -1.0"),
        ("constant --interval 1e999", "must be a finite number of seconds >= 0, not inf"),
        ("constant --interval x", "'x' is no duration: a number of seconds, or as in 500ms, 5s,"),
        ("exponential --multiplier none", "'none' is not a valid float"),
        ("constant-feedback --delay 1 --max-attempts none", "'none' is not a valid integer"),
        (
            "exponential --max-interval 0.1",
            "--max-interval must be >= --initial-interval (0.5), not 0.1",
        ),
        ("full-jitter --base 2 --cap 1", "--cap must be >= --base (2.0), not 1.0"),
        ("zero --jitter half", "'half' is neither full nor equal nor a number"),
        ("zero --jitter 1", "--jitter must be >= 0 and < 1, not 1.0"),
        ("zero --max-jitter -1", "--max-jitter must be a finite number of seconds >= 0, not -1.0"),
        ("zero --max-retries -1", "--max-retries must be an int >= 0, not -1"),
        (
            "zero --max-interval nan",
            "--max-interval must be a number of seconds >= 0, or none or inf for no limit, not nan",
        ),
        ("zero --max-elapsed-time -1", "--max-elapsed-time must be a finite number of seconds >="),
    ],
)
def test_what_is_bad_is_told_by_its_option(line, expected):
    assert expected in call(f"delays {line}").complaint


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("1e-3", 0.001),
        ("500ms", 0.5),
        ("7ms", 0.007),
        ("5s", 5.0),
        ("2m", 120.0),
        ("1.5m", 90.0),
        (".5s", 0.5),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("1m1s1ms", 61.001),
        ("1d", 86_400.0),
        ("-5s", -5.0),
        ("+5s", 5.0),
    ],
)
def test_a_duration_may_have_units(text, seconds):
    assert Seconds().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "s", "5x", "5S", "5 s", "5s3", "1e3s", "--5s", "5s-3s", "ms"])
def test_what_is_no_duration_is_told(text):
    with pytest.raises(click.BadParameter, match="is no duration: a number of seconds, or as in"):
        Seconds().convert(text, None, None)


def test_a_duration_beyond_all_floats_is_told():
    said = call(f"delays constant {'9' * 400}s")
    assert said.complaint == "--interval must be a finite number of seconds >= 0, not inf"


def test_seconds_of_a_limit_are_finite_and_more_than_0():
    kind = Seconds(positive=True)
    assert kind.convert("1e-9", None, None) == 1e-9
    for text in ("0", "-1", "nan", "inf", "1e999"):
        with pytest.raises(click.BadParameter, match="is not a finite number of seconds > 0"):
            kind.convert(text, None, None)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("exponential --max-elapsed-time none", "max-interval"),
        ("truncated-exponential", "maximum-backoff"),
        ("full-jitter --base 1", "cap"),
        ("fibonacci 1 1", "max-delay"),
        ("fibonacci 1 1", "max-interval"),
    ],
)
def test_a_cap_may_be_none_or_inf(line, name):
    most = {
        call(f"delays {line} -n 20 --seed 7 --json --{name}={text}") for text in ("none", "inf")
    }
    (said,) = most
    assert said.status == 0
    assert json.loads(said.out)["delays"][19]["greatest"] > 900


# Jitter and limits around any policy


def rows(line):
    return json.loads(call(f"delays {line} --json").out)["delays"]


def ranges(line):
    return [(row["least"], row["greatest"]) for row in rows(line)]


def drawn(line):
    return [row["drawn"] for row in rows(line)]


def test_any_policy_can_have_a_jitter():
    fixed = "fibonacci --initial-delay1 2 --initial-delay2 2 -n 3"
    assert ranges(f"{fixed} --jitter full") == [(0, 2), (0, 2), (0, 4)]
    assert ranges(f"{fixed} --jitter equal") == [(1, 2), (1, 2), (2, 4)]
    assert ranges(f"{fixed} --jitter 0.5") == [(1, 3), (1, 3), (2, 6)]
    assert ranges(f"{fixed} --max-jitter 1") == [(2, 3), (2, 3), (4, 5)]
    assert ranges(f"{fixed} --max-jitter 1 --max-interval 4") == [(2, 3), (2, 3), (4, 4)]


@pytest.mark.parametrize("jitter", ["--max-jitter 5", "--jitter 0.9", "--jitter full"])
def test_a_limit_that_a_policy_has_itself_goes_around_a_jitter_too(jitter):
    for seed in range(5):
        line = f"exponential --max-elapsed-time 10 {jitter} --seed {seed} -n 30"
        assert sum(drawn(line)) <= 10.0
    assert len(drawn(f"go --max-elapsed-time none {jitter} -n 200")) == 200
    java = "java --initial-interval 10 --multiplier 1 --randomization-factor 0 --jitter 0 -n 100"
    assert len(drawn(f"{java} --max-elapsed-time 899")) == 90


def test_a_seed_fixes_a_jitter_around_too():
    line = "constant --interval 4 --jitter equal"
    once, again, other = (drawn(f"{line} --seed {seed}") for seed in (1, 1, 2))
    assert once == again != other


def test_any_policy_can_be_limited():
    fixed = "limd --initial-delay 2 --delay-increment-on-failure 4 --delay-multiple-on-success 0"
    assert drawn(f"{fixed} -n 4 --max-interval 7") == [2.0, 6.0, 7.0, 7.0]
    assert drawn(f"{fixed} --max-elapsed-time 8") == [2.0, 6.0]
    assert drawn(f"{fixed} --max-retries 3") == [2.0, 6.0, 10.0]
    assert drawn(f"{fixed} --max-interval 4 --max-elapsed-time 10") == [2.0, 4.0, 4.0]
    assert len(drawn("grpc --max-elapsed-time 3")) == 2


def test_presets_take_the_options_of_their_class():
    assert ranges("go --max-interval 0.5 -n 2") == [(0.25, 0.75), (0.25, 0.75)]
    assert len(drawn("java --max-elapsed-time 0 -n 100")) == 100
    line = "cloud-storage --max-jitter 0 --multiplier 3 -n 3"
    assert ranges(line) == [(1, 1), (3, 3), (9, 9)]
    steady = "--initial-interval 10 --multiplier 1 --randomization-factor 0 --max-elapsed-time 899"
    assert len(drawn(f"go {steady} -n 100")) == 89
    assert len(drawn(f"java {steady} -n 100")) == 90


def test_a_limit_that_a_policy_has_itself_is_its_own():
    plain = "exponential --randomization-factor 0 --multiplier 2"
    assert drawn(f"{plain} -n 4 --max-interval 1.5") == [0.5, 1.0, 1.5, 1.5]
    assert len(drawn("aws -n 20")) == 2
    assert len(drawn("aws --max-retries 9 -n 20")) == 9


def test_what_was_given_is_not_respelled():
    said = call("delays full-jitter --base 5 --cap 1 --jitter 0.5")
    assert said.complaint == "--cap must be >= --base (5.0), not 1.0"
