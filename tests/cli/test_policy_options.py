"""The options of policies, and what can be put around any policy."""

import re
from inspect import signature

import pytest

from backoff_ticker import POLICIES

from .calling import call, catch_runs, data_of


def help_of(name):
    return " ".join(call(f"delays {name} --help", COLUMNS="1000").out.split())


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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1e-3", "0.001"),
        ("7ms", "0.007"),
        (".5s", "0.5"),
        ("1h30m", "5400"),
        ("1d1m1s1ms", "86461.001"),
        ("+5s", "5"),
    ],
)
def test_a_duration_may_have_units(text, seconds):
    assert call(f"delays constant {text} -n 1 --plain") == (0, f"{seconds}\n", "")


def ranges(line):
    return [(row["least"], row["greatest"]) for row in data_of(f"delays {line}")["delays"]]


def drawn(line):
    return [row["drawn"] for row in data_of(f"delays {line}")["delays"]]


FIXED = "fibonacci --initial-delay1 2 --initial-delay2 2 -n 3"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{FIXED} --jitter full", [(0, 2), (0, 2), (0, 4)]),
        (f"{FIXED} --jitter 0.5", [(1, 3), (1, 3), (2, 6)]),
        (f"{FIXED} --max-jitter 1", [(2, 3), (2, 3), (4, 5)]),
        (f"{FIXED} --max-jitter 1 --max-interval 4", [(2, 3), (2, 3), (4, 4)]),
        (f"{FIXED} --max-interval 3", [(2, 2), (2, 2), (3, 3)]),
        (f"{FIXED} --max-elapsed-time 7", [(2, 2), (2, 2)]),
        (f"{FIXED} --max-interval 3 --max-elapsed-time 7", [(2, 2), (2, 2), (3, 3)]),
        (f"{FIXED} --max-retries 1", [(2, 2)]),
        # A limit that a policy has itself is its own.
        (
            "exponential --randomization-factor 0 --multiplier 2 -n 4 --max-interval 1.5",
            [(0.5, 0.5), (1, 1), (1.5, 1.5), (1.5, 1.5)],
        ),
        ("aws --max-retries 3", [(0, 1), (0, 2), (0, 4)]),
    ],
)
def test_any_policy_can_have_a_jitter_and_limits(line, expected):
    assert ranges(line) == expected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("exponential --max-elapsed-time none", "max-interval"),
        ("full-jitter --base 1", "cap"),
        ("fibonacci 1 1", "max-interval"),
    ],
)
def test_a_cap_may_be_none_or_inf(line, name):
    none, inf = (ranges(f"{line} -n 20 --{name}={text}") for text in ("none", "inf"))
    assert none == inf
    assert none[19][1] > 900


@pytest.mark.parametrize("jitter", ["--max-jitter 5", "--jitter 0.9", "--jitter full"])
def test_a_limit_that_a_policy_has_itself_goes_around_a_jitter_too(jitter):
    for seed in range(5):
        line = f"exponential --max-elapsed-time 10 {jitter} --seed {seed} -n 30"
        assert sum(drawn(line)) <= 10.0
    assert len(drawn(f"go --max-elapsed-time none {jitter} -n 200")) == 200
    java = "java --initial-interval 10 --multiplier 1 --randomization-factor 0 --jitter 0 -n 100"
    assert len(drawn(f"{java} --max-elapsed-time 899")) == 90


@pytest.mark.parametrize(
    "line", ["delays exponential", "feedback constant --delay 2 --jitter 0.5 0 0 0"]
)
def test_a_seed_fixes_what_is_drawn(line):
    once, again, other = (call(f"{line} --seed {seed}").out for seed in (1, 1, 2))
    assert once == again != other
    assert len({call(line).out for _ in range(5)}) == 5


def test_a_policy_of_ones_own_is_named_by_its_import_path(own, monkeypatch):
    assert drawn(f"{own} 500ms -n 3 --max-retries 2") == [0.5, 1.0]
    assert ranges(f"{own} 4 -n 3 --no-loud --most 9") == [(4, 4), (8, 8), (9, 9)]
    assert drawn("own_waits:stairs -n 2") == [3, 6]
    assert call("feedback own_waits:Told --step 2 0 0 1") == (0, "2\n4\n0\n", "")
    assert call("simulate contention --trials 1 --clients 2", f"mine={own} 1ms").status == 0
    ran = catch_runs(monkeypatch, 0)
    for line in (f"--policy {own} --step 2s --", f"--step 2s --policy={own}"):
        assert call(f"run {line} true").status == 0
    assert [backoff.step for _, backoff, *_ in ran] == [2.0, 2.0]


@pytest.mark.parametrize(
    "line",
    [
        "delays own_waits:Stairs --step=-1",
        "feedback own_waits:Told --step=-1 0",
        "simulate contention --clients 5 --trials 1 'own_waits:Stairs --step=-1'",
    ],
)
def test_it_has_to_return_delays(own, line):
    with pytest.raises(ValueError, match="returns must be a finite number of seconds >= 0"):
        call(line)


def test_its_help_comes_from_its_docstring(own):
    told = help_of(own)
    assert "Waits longer with each step." in told
    assert "--step DURATION How much longer: seconds >= 0. [required]" in told
    assert "--most INTEGER The longest wait, at least --step. none means no limit." in told
    assert "--loud / --no-loud Whether to shout." in told
    assert "--seen" not in told
    assert told.endswith(f"backoff-ticker delays {own} --step 2")
