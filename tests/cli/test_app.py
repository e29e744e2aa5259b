"""The command as a whole: help, exit status, closed streams, what a system may lack."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given, strategies as st

from backoff_ticker import POLICIES

from .calling import ROOT, call, catch_runs, environment, finish, start

FEEDBACK = {
    "constant": "constant-feedback",
    "exponential": "exponential-feedback",
    **{name: name for name in ("fibonacci", "lild", "limd", "mild", "mimd")},
}
VOCABULARY = """
delays feedback run retry-after exponential limd constant zero aws --interval --json --csv --seed
-n --policy --help -h --version --initial-delay --max-delay --look-ahead -- --timeout
--delay-increment-on-failure=4 --delay-multiple-on-success=.5 --on-exit-code 0 1 0:+2 -1 3 nan
none x 1,75 -x simulate --clients contention --trials
"""
FULL = Path("/dev/full")


def names_in(help_text):
    return re.findall(r"^  ([a-z-]+)  +\S", help_text.partition("Commands:")[2], re.MULTILINE)


def test_help_lists_the_commands_and_comes_if_there_is_none():
    said = call("--help")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("Usage: backoff-ticker [OPTIONS] COMMAND")
    assert names_in(said.out) == ["delays", "feedback", "retry-after", "run", "simulate"]
    assert call("-h") == said
    alone = call("")
    assert alone.out + alone.err == said.out
    assert re.fullmatch(r"backoff-ticker \d\S*\n", call("--version").out)


@pytest.mark.parametrize(
    ("command", "names"), [("delays", {name: name for name in POLICIES}), ("feedback", FEEDBACK)]
)
def test_help_lists_the_policies_with_what_they_do(command, names):
    said = call(f"{command} --help")
    assert (said.status, names_in(said.out)) == (0, [*names])
    listed = " ".join(said.out.split())
    for name, policy in ((name, POLICIES[of]) for name, of in names.items()):
        text = f"{policy.source}." if policy.preset else policy.make.__doc__.partition("\n\n")[0]
        assert f"{name} {text}" in listed
        told_alone = " ".join(call(f"{command} {name} --help").out.split())
        assert text in told_alone
        assert policy.source in told_alone


HELPS = [
    *("", "delays", "feedback", "retry-after", "run"),
    *("simulate", "simulate contention", "simulate outage"),
    *(f"delays {name}" for name in POLICIES),
    *(f"feedback {name}" for name in FEEDBACK),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", HELPS)
def test_each_help_has_examples_that_work(command, monkeypatch):
    catch_runs(monkeypatch, 0)
    text = call(f"{command} --help", COLUMNS="30").out.partition("Examples:\n")[2]
    examples = text.splitlines()
    assert examples
    for example in examples:
        name, *words = shlex.split(example.replace("COMMAND", "run"))
        assert name == "backoff-ticker"
        assert " ".join(words).startswith(command)
        said = call("", *words)
        assert (said.status, said.err) == (0, ""), example


SESSION = re.compile(
    r"^```(?:text|console)\n\$ backoff-ticker (.*?[^\\])\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
SESSIONS = [
    session
    for page in ("command.md", "command_in_detail.md")
    for session in SESSION.findall((ROOT / "docs" / page).read_text())
]


@pytest.mark.parametrize(
    "command",
    [
        *("delays", "feedback", "retry-after"),
        pytest.param("simulate contention", marks=pytest.mark.slow),
        pytest.param("simulate outage", marks=pytest.mark.slow),
    ],
)
def test_the_pages_about_the_command_show_what_it_prints(command):
    ((line, printed),) = (session for session in SESSIONS if session[0].startswith(command))
    assert call("", *shlex.split(line.replace("\\\n", " ")), COLUMNS="76") == (0, printed, "")


@pytest.mark.slow
def test_the_page_shows_what_run_prints_and_the_command_below_it(tmp_path):
    ((line, printed),) = (session for session in SESSIONS if session[0].startswith("run"))
    program = tmp_path / "curl"  # for a service that is up at the third attempt
    program.write_text(
        "#!/bin/sh\n"
        'test "$*" = "--fail --silent localhost:8000/health" || exit 9\n'
        'test "$BACKOFF_TICKER_ATTEMPT" -ge 3 || exit 7\n'
        "echo healthy\n"
    )
    program.chmod(0o755)
    process = start(
        *shlex.split(line.replace("\\\n", " ")),
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=environment(PATH=f"{tmp_path}:{environment()['PATH']}"),
    )
    assert finish(process) == (0, printed, "")


WORDS = st.sampled_from(VOCABULARY.split()) | st.text(max_size=5)


@given(st.lists(WORDS, max_size=7))
@hypothesis.example(["run", "delays", "--look-ahead"])
def test_no_arguments_raise_and_what_is_bad_prints_nothing_else(words):
    with pytest.MonkeyPatch.context() as patch:
        catch_runs(patch, 0)
        said = call("", *words)
    if said.status == 0:
        warned = re.fullmatch("backoff-ticker: warning: (.+) stands after .+\n", said.err)
        assert said.err == "" or (words[0] == "run" and warned[1] in words)
    else:
        assert said.status == 2 or (said.status == 1 and "retry-after" in words)
        assert said.out == ""
        assert said.err


@pytest.mark.slow
def test_without_docstrings_there_is_less_help():
    words = [sys.executable, "-OO", "-m", "backoff_ticker", "delays", "full-jitter", "--help"]
    assert b"--max-retries INTEGER" in subprocess.check_output(words, env=environment())


# Output that cannot be written, Ctrl-C


def test_a_reader_that_leaves_ends_the_command_quietly():
    read, write = os.pipe()
    os.close(read)
    said = finish(start("delays", "go", stdout=write))
    assert (said.status, said.err) == (1, "")
    os.close(write)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", "backoff-ticker: cannot go on: No space left on device\n"),
        ("sys.stderr = None", ""),  # Python itself would fail again, with another status
    ],
)
@pytest.mark.slow
def test_a_full_disk_is_told_if_anybody_listens(before, told):
    with FULL.open("wb") as full:
        assert finish(start("delays", "go", stdout=full, before=before))[::2] == (1, told)


@pytest.mark.parametrize(
    ("closed", "args", "status"), [(">&-", "delays zero", 0), ("2>&-", "delays x", 2)]
)
@pytest.mark.slow
def test_closed_streams_are_no_error(closed, args, status):
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m backoff_ticker {args} {closed}', sys.executable],
        capture_output=True,
        timeout=50,
        check=False,
        env=environment(),
    )
    assert done.returncode == status
    assert b"Traceback" not in done.stdout + done.stderr


LOST = """
import os, signal, weakref
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent may have it ignore
class Thing: pass
def dropped(reference):
    os.kill(os.getpid(), signal.SIGINT)
    raise RuntimeError("Python prints what callbacks raise, and goes on")
class Finder:
    def find_spec(self, name, *ignored):
        if name == "MODULE":
            thing = Thing()
            reference = weakref.ref(thing, dropped)
            del thing
sys.meta_path.insert(0, Finder())
"""
"""Has Ctrl-C come while a callback of the collector runs, as importing a module has them."""


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("backoff_ticker.cli._run", "run sleep 1000"),
        pytest.param("click", "delays go", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_while_modules_are_imported_is_not_lost(module, line):
    process = start(*line.split(), before=LOST.replace("MODULE", module))
    assert finish(process) == (-2, "", "")


# What a system may lack


MORE = "backoff-ticker: the command needs more packages: pip install 'backoff-ticker[cli]'\n"


@pytest.mark.parametrize(
    ("missing", "status", "told"),
    [
        ("sys.modules['rich'] = None", 2, re.escape(MORE)),
        *(
            pytest.param(*row, marks=pytest.mark.slow)
            for row in [
                ("sys.modules['click'] = None", 2, re.escape(MORE)),
                ("sys.modules['click'] = sys.stderr = None", 2, ""),
                ("sys.modules['csv'] = None", 1, "(?s)Traceback.*csv.*"),  # it is not of the extra
            ]
        ),
    ],
)
def test_without_the_extra_the_command_says_what_to_install(missing, status, told):
    said = finish(start("delays", "go", before=missing))
    assert said[:2] == (status, "")
    assert re.fullmatch(told, said.err)


WITHOUT_POSIX = """
import signal
for name in ("termios", "fcntl", "pty", "tty", "_posixsubprocess"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGQUIT", "SIGCHLD", "SIGPIPE", "SIGCONT", "SIGKILL", "pthread_sigmask"):
    delattr(signal, name)
"""


@pytest.mark.slow
def test_a_system_without_process_groups_has_all_commands_but_run():
    line = "delays constant 4 --plain -n1"
    assert finish(start(*line.split(), before=WITHOUT_POSIX)) == (0, "4\n", "")
    said = finish(start("run", "--", "true", before=WITHOUT_POSIX))
    assert "run needs signals as POSIX has them" in said.complaint
