"""The code and the commands in README and docs run, and print what stands beside them."""

import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers import configure_django, python
from tests.integrations.processes import FILE, write_files

ROOT = Path(__file__).parent.parent
PATIENCE = 110.0
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
LANGUAGES = {"console", "go", "pycon", "python", "sh", "text", "toml", "yaml"}
"""Code is not hidden from these tests by another name, such as ``py``."""

EXPECTED = re.compile(r"# -> (.*?)(?=  # -> |$)", re.MULTILINE)
COMMAND = re.compile(r"^(\$ )?(backoff-ticker (?:.*\\\n)*.*)$", re.MULTILINE)
RUN = "import sys; from backoff_ticker.cli import main; sys.exit(main())"
COMMAND_OF_RUN = re.compile(r" -- .*", re.DOTALL)
NO_LOOPTIME = [f"-pno:looptime_{each}" for each in ("chronometers", "plugin", "timeproxies")]


def name_of(page):
    return str(page.relative_to(ROOT)).removeprefix("docs/")


WAITS = "# step3.py\n"  # for more than a second of real time
BLOCKS = [
    pytest.param(
        language,
        code,
        id=f"{name_of(page)}-{number}",
        marks=[pytest.mark.slow] * code.startswith(WAITS),
    )
    for page in PAGES
    for number, (language, code) in enumerate(
        (found.groups() for found in FENCE.finditer(page.read_text("utf-8"))), 1
    )
]


def blocks_in(*languages):
    return [block for block in BLOCKS if block.values[0] in languages]


def silence_stamina(request):
    """Where structlog is installed, stamina logs each retry, which structlog prints."""
    from stamina.instrumentation import set_on_retry_hooks

    set_on_retry_hooks(())
    request.addfinalizer(lambda: set_on_retry_hooks(None))


@pytest.mark.parametrize("language, code", blocks_in("python"))
def test_a_block_of_the_docs_prints_what_it_says(language, code, capsys, request):
    if "get_asgi_application" in code:
        configure_django()
    if "import stamina" in code:
        silence_stamina(request)
    if code.startswith("# test_"):
        pytest.skip("pytest runs it below")
    # What would run until it is stopped is not run.
    name = "docs" if "\nif __name__ ==" in code else "__main__"
    exec(compile(code, "<docs>", "exec"), {"__name__": name})
    printed = capsys.readouterr().out.splitlines()
    assert printed == EXPECTED.findall(code)


@pytest.mark.parametrize("language, code", blocks_in("pycon"))
def test_a_session_of_the_docs_answers_what_it_says(language, code):
    session = doctest.DocTestParser().get_doctest(code, {}, "docs", None, None)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session).failed == 0


FILES_OF_TESTS = {
    page: files
    for page in PAGES
    if (files := [found for found in FILE.findall(page.read_text("utf-8")) if "test_" in found[0]])
}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("page", FILES_OF_TESTS, ids=name_of)
def test_the_tests_of_a_page_pass(page, tmp_path):
    """A block is a file if its first line is a comment with its name."""
    write_files(page, tmp_path)
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *NO_LOOPTIME]
    done = python(*command, cwd=tmp_path, timeout=PATIENCE, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout
    wanted = sum(code.count("def test_") for _, code in FILES_OF_TESTS[page])
    assert f"{wanted} passed" in done.stdout


COMMANDS = [
    pytest.param(command, id=f"{block.id}-{number}")
    for block in blocks_in("sh", "console", "text")
    for number, (_, command) in enumerate(COMMAND.findall(block.values[1]), 1)
]


@pytest.mark.slow
@pytest.mark.posix
@pytest.mark.timeout(120)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_docs_works(command):
    """What ``run`` is to run may need a network, so an ``echo`` stands in for it."""
    if command.startswith("backoff-ticker run "):
        command = COMMAND_OF_RUN.sub(" -- echo ready", command)
    _, *arguments = shlex.split(command.replace("\\\n", " "), comments=True)
    done = python("-c", RUN, *arguments, cwd=ROOT, timeout=PATIENCE, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr


GUIDES = (
    *("cancellation", "channels", "circuit_breaker", "command", "hedging", "policies"),
    *("retries", "schedules", "testing", "tickers", "trio"),
)


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_says_what_most_people_need(name):
    """What fewer need has pages of its own, beneath the guide."""
    words = (ROOT / "docs" / f"{name}.md").read_text("utf-8").split()
    assert len(words) <= 1200


@pytest.mark.posix
def test_ctrl_c_ends_the_first_example_of_the_readme_at_once(tmp_path):
    program = tmp_path / "service.py"
    program.write_text(dict(FILE.findall(PAGES[0].read_text("utf-8")))["service.py"], "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        printed = ""
        while not ("alive" in printed and "polled" in printed):  # in any order, or in one line
            printed += process.stdout.read(1)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=PATIENCE / 10)
        assert time.monotonic() - began < 30 - 1  # what its thread waits for
        assert printed.endswith("stopped by SIGINT\n")
        assert process.returncode == 0


WIDTH = 76
"""Columns of code that a page shows on a laptop, beside the menu and the table of contents."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_leads_somewhere_hides_no_code_and_has_no_code_to_scroll(page):
    text = page.read_text("utf-8")
    blocks = FENCE.findall(text)
    assert {name for name, _ in blocks if not name.startswith("{")} <= LANGUAGES
    lines = [line for _, code in blocks for line in code.splitlines()]
    assert page == PAGES[0] or [line for line in lines if len(line) > WIDTH] == []
    links = re.findall(r"\]\((?!https?:)([^)#]+)", FENCE.sub("", text))
    assert [link for link in links if not (page.parent / link).exists()] == []
