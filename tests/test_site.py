"""``.ci/check_site.py``, which checks the built documentation site, finds what it has to find."""

from pathlib import Path

import pytest

from tests.helpers import python

SCRIPT = Path(__file__).parents[1] / ".ci" / "check_site.py"
HEAD = '<title>Page</title><meta name="description" content="A page.">'


def faults(folder):
    found = python(SCRIPT, folder)
    assert found.returncode == bool(found.stderr)
    return found.stderr.splitlines()


def test_what_loads_from_another_host_is_named(tmp_path):
    own = (
        '<link rel="stylesheet" href="a.css"><img src="a.svg"><a href="https://other.example">x</a>'
    )
    tmp_path.joinpath("index.html").write_text(HEAD + own)
    tmp_path.joinpath("a.css").write_text("a { background: url(data:image/png;base64,AA) }")
    assert faults(tmp_path) == []
    tmp_path.joinpath("index.html").write_text(HEAD + own + '<img src="//cdn.example/a.png">')
    tmp_path.joinpath("a.css").write_text("@import 'https://fonts.example/a.css';")
    assert [fault.partition(": loads ")[0] for fault in faults(tmp_path)] == ["index.html", "a.css"]


@pytest.mark.parametrize("link", ["b.html", "a.html#nowhere", "#nowhere", "a/b.html"])
def test_a_link_that_leads_nowhere_is_named(tmp_path, link):
    tmp_path.joinpath("a.html").write_text(HEAD + '<p id="here"></p>')
    right = '<a href="a.html#here">x</a><a href="a.html">x</a><a href="#">x</a>'
    tmp_path.joinpath("index.html").write_text(f'{HEAD}{right}<a href="{link}">x</a>')
    assert faults(tmp_path) == [f"index.html: leads nowhere: {link}"]


def test_a_page_without_title_or_description_and_an_empty_site_are_named(tmp_path):
    assert faults(tmp_path) == [f"{tmp_path}: no page"]
    tmp_path.joinpath("index.html").write_text("<p>text</p>")
    assert faults(tmp_path) == ["index.html: no title", "index.html: no description"]
