"""The command as a whole: help, bad input, extras that are missing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from inspect import signature
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from backoff_ticker.cli import _policy_help
from backoff_ticker.cli._policy_options import _WRAPPERS
from backoff_ticker.policies._named import POLICIES

from .calling import LIMD, ROOT, call, environment, finish, start

FEEDBACK = [
    "constant-feedback",
    "exponential-feedback",
    "fibonacci",
    "lild",
    "limd",
    "mild",
    "mimd",
]
VOCABULARY = """
delays feedback run retry-after exponential limd constant zero aws --interval --json --csv --seed
-n --policy --help -h --version --initial-delay --max-delay --look-ahead -- --plot --timeout
--delay-increment-on-failure=4 --delay-multiple-on-success=.5 --on-exit-code 0 1 0:+2 -1 3 nan
none x 1,75 -x
"""


# Help and version


@pytest.mark.parametrize("line", ["--help", "-h"])
def test_help_lists_the_commands(capsys, line):
    said = call(capsys, line)
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("Usage: backoff-ticker [OPTIONS] COMMAND")
    listed = re.findall(r"^  ([a-z-]+)  ", said.out.partition("Commands:")[2], re.MULTILINE)
    assert listed == ["delays", "feedback", "run", "retry-after"]


@pytest.mark.parametrize(("command", "names"), [("delays", list(POLICIES)), ("feedback", FEEDBACK)])
def test_help_lists_the_policies_with_their_sources(capsys, command, names):
    said = call(capsys, f"{command} --help")
    assert said.status == 0
    listed = re.findall(r"^  ([a-z-]+)  +\S", said.out.partition("Policies:")[2], re.MULTILINE)
    assert listed == names
    told = " ".join(said.out.split())
    for name in names:
        assert f"{name} {POLICIES[name].source}" in told


@pytest.mark.parametrize("name", POLICIES)
def test_help_tells_every_option_of_a_policy(capsys, name):
    told = " ".join(call(capsys, f"delays {name} --help").out.split())
    assert POLICIES[name].source in told
    for parameter in signature(POLICIES[name]).parameters.values():
        spelled = f"--{parameter.name.replace('_', '-')}"
        assert (spelled in told) == (parameter.name not in ("rng", "clock"))


def test_help_has_a_sentence_for_every_option_and_no_more():
    options = {
        name
        for policy in POLICIES.values()
        for name in signature(policy).parameters
        if name not in ("rng", "clock")
    }
    assert set(_policy_help._HELP) == options
    assert set(_policy_help.AROUND) == set(_WRAPPERS)
    for name, special in _policy_help._HELP_OF.items():
        assert special.keys() <= signature(POLICIES[name]).parameters.keys()


def test_help_gives_units_and_defaults(capsys):
    told = " ".join(call(capsys, "delays exponential --help").out.split())
    for text in (
        "--initial-interval SECONDS The first interval. [default: 0.5]",
        "--multiplier NUMBER Each interval is so many times the one before, >= 1. [default: 1.5]",
        (
            "--max-interval SECONDS The greatest interval; a delay around it can be longer. "
            "[default: 60]"
        ),
        "--look-ahead / --no-look-ahead",
        "[default: --look-ahead]",
        "as if each delay had been waited for",
    ):
        assert text in told
    told = " ".join(call(capsys, f"feedback {LIMD} --help").out.split())
    assert "--max-attempts N" in told
    assert "--initial-delay SECONDS The first delay. [required]" in told
    told = " ".join(call(capsys, "delays java --help").out.split())
    assert "[default: 60]" in told
    assert "[default: --no-look-ahead]" in told


@pytest.mark.parametrize("columns", ["60", "70", "80", "100"])
@pytest.mark.parametrize("line", ["delays java --help", "run --help"])
def test_help_breaks_no_option_in_two(capsys, monkeypatch, columns, line):
    monkeypatch.setenv("COLUMNS", columns)
    said = call(capsys, line).out
    assert re.findall(r".*[a-z]-$", said, re.MULTILINE) == []
    assert said.isascii()


def test_help_tells_what_the_policy_has_from_what_is_put_around_it(capsys):
    def sections(name):
        text = call(capsys, f"delays {name} --help").out
        _, own, around, _ = re.split(
            "(?m)^(?:Options of the policy|Around the policy|Options):", text
        )
        return " ".join(own.split()), " ".join(around.split())

    own, around = sections("go")
    assert "--max-interval SECONDS The greatest interval;" in own
    assert "--max-interval" not in around
    own, around = sections("full-jitter")
    assert "--max-interval" not in own
    assert (
        "--max-interval SECONDS Let no delay be longer, random part included; none: no limit but "
        "the policy's own. [default: none]"
    ) in around
    grpc = call(capsys, "delays grpc --help").out
    assert "Options of the policy" not in grpc
    assert "Around the policy" in grpc


def test_help_of_a_parameter_is_that_of_its_policy(capsys):
    def told(name):
        return " ".join(call(capsys, f"delays {name} --help").out.split())

    assert "Each interval is so many times the one before" in told("go")
    assert "Each limit is so many times the one before" in told("full-jitter")
    assert "--base SECONDS The first limit of a delay" in told("equal-jitter")
    decorrelated = told("decorrelated-jitter")
    assert "--base SECONDS The least delay." in decorrelated
    assert "A delay can be so many times the one before, >= 1. [default: 3]" in decorrelated


def test_version(capsys, monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: f"1.2.3 of {name}")
    assert call(capsys, "--version") == (0, "backoff-ticker 1.2.3 of backoff-ticker\n", "")

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert call(capsys, "--version").out == "backoff-ticker (not installed)\n"


# Bad input


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "missing command: delays, feedback, run and retry-after (see backoff-ticker --help)"),
        ("delayz", "no such command: 'delayz' (did you mean delays? there are delays, feedback,"),
        ("xyz", "no such command: 'xyz' (there are delays, feedback, run and retry-after)"),
        ("--foo", "no such option: --foo"),
        ("delays", "missing policy: constant, zero, stop, exponential, "),
        ("delays expo", "no such policy: 'expo' (did you mean exponential? there are constant,"),
        ("delays LIMD", "no such policy: 'LIMD' (did you mean limd? there are constant,"),
        ("delays xyz", "no such policy: 'xyz' (there are constant, zero, "),
        ("delays -n 5 go", "option -n must stand after the name of the policy"),
        ("delays go 5", "got unexpected extra argument (5)"),
        ("delays grpc --multiplier 2", "no such option: --multiplier"),
        ("delays aws --cap 5", "no such option: --cap"),
        (
            "delays exponential --initial 1",
            "no such option: --initial (did you mean --initial-interval?)",
        ),
        ("delays exponential --seed", "option '--seed' requires an argument"),
        ("delays exponential --look-ahead=3", "option '--look-ahead' does not take a value"),
        ("delays full-jitter", "full-jitter needs --base and --cap"),
        ("delays constant", "constant needs --interval"),
        (
            "delays constant --interval -1",
            "--interval must be a finite number of seconds >= 0, not -1.0",
        ),
        ("delays constant --interval 1e999", "must be a finite number of seconds >= 0, not inf"),
        ("delays constant --interval x", "invalid value for '--interval': 'x' is not a number"),
        ("delays constant --interval none", "'none' is not a number"),
        (
            "delays exponential --initial-interval nan",
            "--initial-interval must be a finite number of seconds >= 0, not nan",
        ),
        (
            "delays exponential --max-interval 0.1",
            "--max-interval must be >= --initial-interval (0.5), not 0.1",
        ),
        ("delays full-jitter --base 2 --cap 1", "--cap must be >= --base (2.0), not 1.0"),
        ("delays go --json --csv", "--json, --csv and --plain exclude each other"),
        ("delays go -n 0", "invalid value for '-n': '0' is not a whole number from 1 to 10000"),
        ("delays go -n 1000000000", "'1000000000' is not a whole number from 1 to 10000"),
        ("delays go -n x", "'x' is not a whole number from 1 to 10000"),
        ("delays go --seed -1", "'-1' is not a whole number >= 0"),
        ("delays go --seed 1.5", "'1.5' is not a whole number >= 0"),
    ],
)
def test_bad_input_is_told_in_one_line(capsys, line, expected):
    assert expected in call(capsys, line).complaint


@pytest.mark.parametrize(
    "value", ["a\nb", "\x1b[31m", "\udcff", "9" * 10_000, "x" * 10_000, "\u2028", ""]
)
@pytest.mark.parametrize("line", ["", "delays", "delays go", "delays go --seed", "feedback limd"])
def test_no_text_breaks_the_line(capsys, line, value):
    said = call(capsys, line, value).complaint
    assert said.removesuffix("...").isprintable()
    assert len(said) < 1100


WORDS = st.sampled_from(VOCABULARY.split()) | st.text(max_size=5)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS, max_size=7))
def test_no_arguments_raise_and_what_is_bad_prints_nothing_else(capsys, monkeypatch, words):
    double = SimpleNamespace(run=lambda command, backoff, **options: 0)
    monkeypatch.setitem(sys.modules, "backoff_ticker.cli._run", double)
    if "--plot" in words:
        words = words[: words.index("--plot")]
    said = call(capsys, "", *words)
    if said.status == 0:
        assert said.err == ""
    else:
        assert said.status == 2 or (said.status == 1 and words[0] == "retry-after")
        assert said.out == ""
        assert said.err.startswith("backoff-ticker: ")
        assert said.err.count("\n") == 1


# Extras


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_the_extra_the_command_says_what_to_install(package):
    said = finish(start("delays", "go", before=f"sys.modules[{package!r}] = None"))
    assert said.complaint == ("the command needs more packages: pip install 'backoff-ticker[cli]'")


def test_another_missing_module_is_not_taken_for_the_extra():
    said = finish(start("delays", "go", before="sys.modules['inspect'] = None"))
    assert said.status == 1
    assert "inspect" in said.err.splitlines()[-1]


def test_the_core_works_without_the_extra():
    script = (
        "import sys; sys.modules['click'] = sys.modules['rich'] = None; import backoff_ticker.cli"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=50, env=environment())


def test_python_m_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "backoff_ticker", "delays", "zero", "-n", "1", "--csv"],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        cwd=ROOT,
        env=environment(),
    )
    assert done.stdout.splitlines()[1:] == ["1,0.0,0.0,0.0,0.0,0.0"]
    assert done.stderr == ""
