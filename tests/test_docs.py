"""The code in README and docs runs, and prints what the comments beside it say."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.helpers import attempts_tracked

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Other packages that the pages use; a block is skipped where one is not installed.
PEER = re.compile(
    r"^(?:from|import) "
    r"((?:backoff|google|httpx|requests|stamina|starlette|tenacity|urllib3)\b[\w.]*)",
    re.MULTILINE,
)
EXPECTED = re.compile(r"# -> (.*?)(?=  # -> |$)", re.MULTILINE)

BLOCKS = [
    pytest.param(found.group(1), id=f"{page.name}-{number}")
    for page in PAGES
    for number, found in enumerate(BLOCK.finditer(page.read_text()), 1)
]


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_of_the_docs_prints_what_it_says(code, capsys):
    for package in PEER.findall(code):
        pytest.importorskip(package)
    with attempts_tracked() if "current_attempt" in code else nullcontext():
        exec(compile(code, "<docs>", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
    assert printed == EXPECTED.findall(code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_between_the_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
