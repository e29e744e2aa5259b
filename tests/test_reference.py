"""The reference pages of the documentation site describe each public name, once."""

from __future__ import annotations

import re
from pathlib import Path

import backoff_ticker
from backoff_ticker import testing

PAGES = sorted((Path(__file__).parents[1] / "docs" / "reference").glob("*.rst"))
DIRECTIVE = re.compile(r"^\.\. (currentmodule|auto\w+):: (\S+)$", re.MULTILINE)


def test_each_public_name_is_on_one_reference_page():
    described = []
    for page in PAGES:
        module = None
        for directive, name in DIRECTIVE.findall(page.read_text("utf-8")):
            if directive == "currentmodule":
                module = name
            else:
                described.append(f"{module}.{name}")
    modules = backoff_ticker, testing
    assert sorted(described) == sorted(
        f"{module.__name__}.{name}" for module in modules for name in module.__all__
    )
