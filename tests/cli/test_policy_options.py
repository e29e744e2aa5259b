"""The options of policies, and what can be put around any policy."""

from __future__ import annotations

import json
import re
import sys
from inspect import signature

import click
import pytest

from backoff_ticker import POLICIES
from backoff_ticker.cli import _run
from backoff_ticker.cli._param_types import Seconds
from backoff_ticker.cli._policy_options import policy_options, sample_options

from .calling import call


def help_of(name):
    return " ".join(call(f"delays {name} --help", COLUMNS="1000").out.split())


# Which options there are


@pytest.mark.parametrize("name", POLICIES)
def test_help_tells_every_option_of_a_policy_with_a_sentence(name):
    told = help_of(name)
    around = {"jitter", "max_jitter", "max_interval", "max_elapsed_time", "max_retries"}
    for option in {*signature(POLICIES[name]).parameters, *around} - {"rng", "clock"}:
        assert re.search(f"--{option.replace('_', '-')} (/ --no-[a-z-]+ |[A-Z]+ )[^-]", told)
    assert "--rng" not in told
    assert "--clock" not in told
    assert "``" not in told
    assert "timedelta" not in told


def test_help_tells_what_the_policy_has_from_what_is_put_around_it():
    def sections(name):
        _, _, rest = help_of(name).partition("Options of the policy:")
        own, _, around = rest.partition("Around the policy:")
        return own, around

    own, around = sections("go")
    assert "--max-interval DURATION The greatest interval: seconds >= " in own
    assert "[default: 60" in own
    assert "--max-interval" not in around
    own, around = sections("full-jitter")
    assert "[required]" in own
    assert "--max-interval" not in own
    assert "--max-interval DURATION The greatest delay: seconds >= 0." in around
    assert "Options of the policy" not in call("delays grpc --help").out


@pytest.mark.parametrize("name", POLICIES)
def test_every_default_can_be_given_and_changes_nothing(name):
    line = f"delays {name}{sample_options(POLICIES[name])} --seed 1 --json"
    words = []
    for option in policy_options(POLICIES[name]):
        default = getattr(option, "default", None)
        if "[required]" in option.help:
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


def test_a_limit_that_a_policy_has_itself_is_its_own():
    plain = "exponential --randomization-factor 0 --multiplier 2"
    assert drawn(f"{plain} -n 4 --max-interval 1.5") == [0.5, 1.0, 1.5, 1.5]
    assert len(drawn("aws -n 20")) == 2
    assert len(drawn("aws --max-retries 9 -n 20")) == 9


def test_what_was_given_is_not_respelled():
    said = call("delays full-jitter --base 5 --cap 1 --jitter 0.5")
    assert said.complaint == "--cap must be >= --base (5.0), not 1.0"


# Policies of one's own

OWN = """
from datetime import timedelta

class Stairs:
    '''Waits longer with each step.

    Args:
        step: How much longer: seconds >= 0 or a timedelta.
        most: The longest wait, at least ``step``. None means no limit.
        loud: Whether to shout.
        seen: Cannot be typed.

    Example:
        >>> Stairs(2)
    '''

    def __init__(self, step: float | timedelta, most: int = 10, loud=False, seen: set = ()):
        self.step, self.most, self.number = step, most, 0

    def next_backoff(self):
        self.number += 1
        return min(self.number * self.step, self.most)

    def reset(self):
        self.number = 0

class Told(Stairs):
    def failure(self, timestamp=None):
        return self.next_backoff()

    def success(self, timestamp=None):
        return 0.0

class Typed:
    def __init__(self, seen: set): ...

stairs = Stairs(3)
"""


@pytest.fixture
def own(monkeypatch, tmp_path):
    (tmp_path / "own_waits.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield "own_waits:Stairs"
    sys.modules.pop("own_waits", None)


def test_a_policy_of_ones_own_is_named_by_its_import_path(own, monkeypatch):
    assert drawn(f"{own} 500ms -n 3 --max-retries 2") == [0.5, 1.0]
    assert ranges(f"{own} 4 -n 3 --no-loud --most 9") == [(4, 4), (8, 8), (9, 9)]
    assert drawn("own_waits:stairs -n 2") == [3, 6]
    assert call("feedback own_waits:Told --step 2 0 0 1") == (0, "2\n4\n0\n", "")
    assert call("simulate contention --trials 1 --clients 2", f"mine={own} 1ms").status == 0
    made = []
    monkeypatch.setattr(_run, "run", lambda _, backoff, *_more, **_options: made.append(backoff))
    for line in (f"--policy {own} --step 2s --", f"--step 2s --policy={own}"):
        assert call(f"run {line} true").status == 0
    assert [backoff.step for backoff in made] == [2.0, 2.0]


def test_its_help_comes_from_its_docstring(own):
    told = help_of(own)
    assert "Waits longer with each step." in told
    assert "--step DURATION How much longer: seconds >= 0. [required]" in told
    assert "--most INTEGER The longest wait, at least --step. none means no limit." in told
    assert "--loud / --no-loud Whether to shout." in told
    assert "--seen" not in told
    assert told.endswith(f"backoff-ticker delays {own} --step 2")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("delays own_waits:Nothing", "cannot import 'own_waits:Nothing': module 'own_waits' has"),
        ("delays no_waits:Nothing", "cannot import 'no_waits:Nothing': No module named"),
        ("delays :", "cannot import ':': Empty module name"),
        ("delays own_waits:Stairs", "own_waits:Stairs needs --step, as in: --step 2"),
        ("delays own_waits:Typed", "--seen cannot be given here: seen: set has no simple type"),
        ("delays os:getcwd", "os:getcwd must be a BackOff, an object with next_backoff() and"),
        ("feedback own_waits:Stairs 0", "own_waits:Stairs takes no feedback"),
        ("run --policy own_waits:Stairs --base 1 -- true", "No such option"),
    ],
)
def test_what_is_wrong_with_one_is_told(own, line, expected):
    assert expected in call(line).complaint
