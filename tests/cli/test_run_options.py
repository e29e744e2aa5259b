"""``backoff-ticker run``: what its options become; what it does has tests of its own."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import click
import pytest

from backoff_ticker import ExponentialBackOff, FullJitterBackOff
from backoff_ticker.cli._command_run import run_command
from backoff_ticker.cli._policy_options import PolicyOption
from backoff_ticker.policies._named import POLICIES

from .calling import LIMD, call


@pytest.fixture
def ran(monkeypatch):
    """What ``run`` was called with."""
    calls = []

    def run(command, backoff, **options):
        calls.append((command, backoff, options))
        return 75

    monkeypatch.setitem(sys.modules, "backoff_ticker.cli._run", SimpleNamespace(run=run))
    return calls


def test_run_with_its_defaults(capsys, ran):
    assert call(capsys, "run -- false") == (75, "", "")
    ((command, backoff, options),) = ran
    assert list(command) == ["false"]
    assert repr(backoff) == repr(ExponentialBackOff())
    assert options == {
        "max_attempts": None,
        "timeout": None,
        "attempt_timeout": None,
        "on_exit_code": None,
        "until_output": None,
        "quiet": False,
    }


def test_run_with_all_its_options(capsys, ran):
    line = (
        "run --base 1 --policy full-jitter --cap 20 --seed 5 --max-attempts 3 --timeout 1e3 "
        "--attempt-timeout 2.5 --until-output ^ok --quiet --on-exit-code"
    )
    assert call(capsys, line, "1, 75,75", "ls", "-q", "--seed", "--", "x y").status == 75
    ((command, backoff, options),) = ran
    assert list(command) == ["ls", "-q", "--seed", "--", "x y"]
    assert repr(backoff) == repr(FullJitterBackOff(1, 20))
    assert options == {
        "max_attempts": 3,
        "timeout": 1000.0,
        "attempt_timeout": 2.5,
        "on_exit_code": frozenset({1, 75}),
        "until_output": re.compile("^ok"),
        "quiet": True,
    }


def test_run_draws_what_the_seed_says(capsys, ran):
    for seed in (5, 5, 6):
        call(capsys, f"run --seed {seed} true")
    once, again, other = (backoff.next_backoff() for _, backoff, _ in ran)
    assert once == again != other


def test_the_limit_of_attempts_of_run_is_not_that_of_the_policy(capsys, ran):
    call(capsys, f"run --policy {LIMD} --max-attempts 3 true")
    ((_, backoff, options),) = ran
    assert (backoff.max_attempts, options["max_attempts"]) == (0, 3)


def test_run_takes_options_that_the_policy_may_have_as_none(capsys, ran):
    call(capsys, "run --max-elapsed-time none --no-look-ahead true")
    ((_, backoff, _),) = ran
    assert (backoff.max_elapsed_time, backoff.look_ahead) == (None, False)


def test_run_takes_none_for_a_limit_around_the_policy(capsys, ran):
    given = "--policy full-jitter --base 1 --cap none --max-interval none --jitter none"
    call(capsys, f"run {given} --max-retries none --max-jitter none true")
    ((_, backoff, _),) = ran
    assert repr(backoff) == repr(FullJitterBackOff(1, None))


def test_every_default_of_the_help_of_run_is_accepted_and_changes_nothing(capsys, ran):
    command = run_command()
    printed = [
        (option, re.findall(r"\[default: (.*)\]$", option.help)) for option in options(command)
    ]
    printed = [(option.opts[0], default) for option, found in printed for default in found]
    flags = [flag for flag, _ in printed]
    assert flags == ["--policy", "--max-attempts", "--timeout", "--attempt-timeout"]
    call(capsys, "run true")
    for flag, default in printed:
        assert call(capsys, f"run {flag} {default} true").status == 75
    assert {(repr(backoff), repr(given)) for _, backoff, given in ran} == {
        (repr(ran[0][1]), repr(ran[0][2]))
    }


def options(command):
    """Return the options of ``run`` itself."""
    return [
        option
        for option in command.params
        if isinstance(option, click.Option) and not isinstance(option, PolicyOption)
    ]


def test_run_takes_several_lists_of_exit_codes_as_one(capsys, ran):
    call(capsys, "run --on-exit-code 1,2 --on-exit-code 75 true")
    ((_, _, options),) = ran
    assert options["on_exit_code"] == frozenset({1, 2, 75})


def test_run_can_limit_any_policy(capsys, ran):
    call(
        capsys,
        "run --policy full-jitter --base 1 --cap 2 --max-retries 3 --max-elapsed-time 9 true",
    )
    ((_, backoff, _),) = ran
    assert repr(backoff) == (
        "with_max_retries(with_max_elapsed_time(FullJitterBackOff(base=1.0, cap=2.0), 9.0), 3)"
    )


def test_a_regex_that_python_warns_of_is_taken_without_a_word(capsys, ran):
    assert call(capsys, "run --until-output [[a] true") == (75, "", "")


def test_help_of_run_tells_the_options_of_its_policy(capsys):
    said = call(capsys, "run --help")
    assert said.status == 0
    assert "--initial-interval SECONDS" in said.out
    assert "--base" not in said.out
    assert said.out.count("COMMAND [ARGUMENTS]...") == 1
    said = call(capsys, "run --policy full-jitter --help")
    assert "--base SECONDS" in said.out
    assert "--initial-interval" not in said.out
    for name in POLICIES:
        text = call(capsys, f"run --policy {name} --help").out
        assert text.count("--max-attempts N") == 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("run", "missing argument"),
        ("run --", "missing argument"),
        ("run --foo true", "no such option: --foo"),
        ("run --policy xyz true", "no such policy: 'xyz' (there are constant, zero, "),
        ("run --base 1 true", "no such option of exponential: --base (its options: --initial-"),
        ("run --policy zero --cap 1 --base 1 true", "no such option of zero: --cap and --base"),
        ("run --policy full-jitter --base 1 true", "full-jitter needs --cap"),
        ("run --multiplier 0.5 true", "--multiplier must be >= 1, not 0.5"),
        ("run --timeout 0 true", "'0' is not a finite number of seconds > 0"),
        ("run --max-interval none true", "invalid value for '--max-interval': 'none' is not a"),
        ("run --multiplier x true", "invalid value for '--multiplier': 'x' is not a number"),
        ("run --timeout nan true", "'nan' is not a finite number of seconds > 0"),
        ("run --timeout x true", "invalid value for '--timeout': 'x' is not a number"),
        ("run --attempt-timeout -1 true", "'-1' is not a finite number of seconds > 0"),
        ("run --max-attempts 0 true", "'0' is not a whole number >= 1"),
        ("run --until-output ( true", "'(' is not a regular expression: missing )"),
        *(
            (
                f"run --on-exit-code {codes} true",
                f"{codes!r} is not a list of exit codes, 1 to 255, as in 1,75",
            )
            for codes in ("x", "0", "256", "1,", "1,,2", ",", "-1", "1;2", "1.0", "\u0661")
        ),
    ],
)
def test_bad_options_are_told_in_one_line_and_nothing_runs(capsys, ran, line, expected):
    assert expected in call(capsys, line).complaint
    assert ran == []
