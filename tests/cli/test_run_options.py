"""``backoff-ticker run``: what its options become; what it does has tests of its own."""

import re

import pytest

from backoff_ticker import ExponentialBackOff, FullJitterBackOff

from .calling import LIMD, call, catch_runs


@pytest.fixture
def ran(monkeypatch):
    """What ``run`` was called with."""
    return catch_runs(monkeypatch, 75)


LIMITS = ("max_attempts", "timeout", "attempt_timeout", "on_exit_code", "until_output")
NO_LIMITS = dict.fromkeys(LIMITS)


def test_run_with_its_defaults(ran):
    assert call("run -- false") == (75, "", "")
    ((command, backoff, limits, switches),) = ran
    assert command == ("false",)
    assert repr(backoff) == repr(ExponentialBackOff())
    assert (limits, switches) == (NO_LIMITS, {"keep_stdin": False, "quiet": False})


def test_run_with_all_its_options(ran):
    line = (
        "run --base 1 --policy full-jitter --cap 20 --seed 5 --max-attempts 3 --timeout 16m40s "
        "--attempt-timeout 2500ms --until-output ^ok --quiet --keep-stdin "
        "--on-exit-code 2 --on-exit-code"
    )
    assert call(line, "1, 75,75", "ls", "-q", "--seed", "--", "x y").status == 75
    ((command, backoff, limits, switches),) = ran
    assert command == ("ls", "-q", "--seed", "--", "x y")
    assert repr(backoff) == repr(FullJitterBackOff(1, 20))
    assert limits == {
        "max_attempts": 3,
        "timeout": 1000.0,
        "attempt_timeout": 2.5,
        "on_exit_code": frozenset({1, 2, 75}),
        "until_output": re.compile("^ok"),
    }
    assert switches == {"keep_stdin": True, "quiet": True}


@pytest.mark.parametrize(
    ("line", "late"),
    [
        ("run false --max-attempts 3", "--max-attempts"),
        ("run sh --policy=zero --seed 1 -- --quiet", "--policy=zero --seed"),
        ("run -- false --policy x", ""),
        ("run --policy constant --interval 1 sh --interval 2", "--interval"),
        ("run -- false --max-attempts 3", ""),
        ("run --quiet false --max-attempts 3", ""),
        ("run grep -q --help --cap", ""),
        ("run echo -- --timeout 5", ""),
    ],
)
def test_options_of_run_that_stand_after_the_command_are_handed_on_with_a_warning(ran, line, late):
    said = call(line)
    ((command, backoff, limits, _),) = ran
    assert line.endswith(" ".join(command))
    assert limits == NO_LIMITS
    assert "constant" in line or repr(backoff) == repr(ExponentialBackOff())
    assert said.err == (
        late
        and f"backoff-ticker: warning: {late} stands after {command[0]!r}, which gets it; "
        "put it before the command, or -- before the command if that is meant\n"
    )


def test_the_limit_of_attempts_of_run_is_not_that_of_the_policy(ran):
    call(f"run --policy {LIMD} --max-attempts 3 true")
    ((_, backoff, limits, _),) = ran
    assert (backoff.max_attempts, limits["max_attempts"]) == (0, 3)


def test_run_takes_none_for_what_can_be_none(ran):
    call("run --max-elapsed-time none --max-interval none --no-look-ahead true")
    given = "--policy full-jitter --base 1 --cap none --max-interval none --jitter none"
    call(f"run {given} --max-retries none --max-jitter none true")
    call("run --max-attempts none --timeout none --attempt-timeout none true")
    (_, first, _, _), (_, second, _, _), (_, _, limits, _) = ran
    assert (first.max_elapsed_time, first.max_interval, first.look_ahead) == (None, None, False)
    assert repr(second) == repr(FullJitterBackOff(1, None))
    assert limits == NO_LIMITS


def test_a_regex_that_python_warns_of_is_taken_without_a_word(ran):
    assert call("run --until-output [[a] true") == (75, "", "")


def test_help_of_run_tells_the_options_of_its_policy():
    said = call("run --help")
    assert said.status == 0
    assert "--initial-interval DURATION" in said.out
    assert "--base" not in said.out
    said = call("run --policy full-jitter --help")
    assert "--base DURATION" in said.out
    assert "--initial-interval" not in said.out
    for code in ("0", "1-255", "124", "126, 127"):
        assert f"\n  {code} " in said.out
    assert call("run --policy limd --help").out.count("--max-attempts") == 1
