"""The reference pages of the documentation site describe each public name, once."""

import ast
import re
from inspect import getdoc, signature
from pathlib import Path

import backoff_ticker
from backoff_ticker import POLICIES, StopReason, retry, testing, types

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
INTEGRATIONS = Path(backoff_ticker.__file__).parent / "integrations"
PAGES = sorted(set(FOLDER.rglob("*.rst")) - {FOLDER / "index.rst"})
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
    modules = backoff_ticker, testing, types
    public = [f"{module.__name__}.{name}" for module in modules for name in module.__all__]
    assert sorted(described) == sorted([*public, *names_of_integrations()])


def names_of_integrations():
    """Return the public classes and functions of the integrations, without importing any."""
    for path in INTEGRATIONS.glob("[!_]*.py"):
        body = ast.parse(path.read_text("utf-8")).body
        names = [
            node.name
            for node in body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")
        ]
        for node in body:  # with __all__, a module may offer what another one defines
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = ast.literal_eval(node.value)
        yield from (f"backoff_ticker.integrations.{path.stem}.{name}" for name in names)


def test_each_reference_page_is_linked_from_the_first_page_or_from_that_of_the_integrations():
    starts = [(FOLDER / name).read_text("utf-8") for name in ("index.rst", "integrations.rst")]
    linked = {path for text in starts for path in re.findall(r":doc:`([\w/]+)`", text)}
    assert {str(page.relative_to(FOLDER).with_suffix("")) for page in PAGES} == linked


def test_a_page_with_many_names_begins_with_a_table_of_them():
    many = set(FOLDER.glob("*.rst")) - {FOLDER / "index.rst", FOLDER / "integrations.rst"}
    assert [page for page in many if ".. contents-of-page::\n" not in page.read_text("utf-8")] == []


def test_the_table_of_options_gets_each_option_from_the_docstring_of_retry():
    text = (FOLDER / "retries.rst").read_text("utf-8")
    _, _, table = text.partition("\nOptions\n")
    table, _, _ = table.partition("\nRetries\n")
    assert ".. options-of-retries::\n" in table
    arguments, _, _ = getdoc(retry).partition("Args:\n")[2].partition("Raises:\n")
    described = re.findall(r"^    (\w+): \S.+?[.:](?:\s|$)", arguments, re.MULTILINE | re.DOTALL)
    assert described == list(signature(retry).parameters)


def test_each_policy_of_the_command_is_a_public_class_on_a_page_for_users():
    text = "".join(
        (FOLDER.parent / name).read_text("utf-8")
        for name in ("policies.md", "policies_in_detail.md")
    )
    public = {name.lower(): name for name in backoff_ticker.__all__}
    own = [each.name for each in POLICIES.values() if not each.preset]
    missing = [
        name
        for name in own
        if (public.get(f"{name.replace('-', '')}backoff") or "no class") not in text
    ]
    assert own != []
    assert missing == []


def test_each_reason_to_stop_is_in_the_order_in_which_a_run_is_ended():
    text = (FOLDER.parent / "retries_in_detail.md").read_text("utf-8")
    reasons = {str(reason) for reason in StopReason} - {"succeeded"}
    assert {reason for reason in reasons if f"`{reason}`" not in text} == set()
