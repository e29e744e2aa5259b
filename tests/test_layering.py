"""Imports go in one direction, by folder, and only some folders touch time, locks and asyncio."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import backoff_ticker
from backoff_ticker import types

PACKAGE = Path(backoff_ticker.__file__).parent
ROOT = Path(__file__).parents[1]

# A folder may import from those before it. "leaf": the modules beside the package's __init__.
LAYERS = [
    "leaf",
    "clock",
    "waiting",
    "cancellation",
    "channels",
    "policies",
    "tickers",
    "circuits",
    "schedules",
    "retries",
    "hedging",
    "facade",
    "testing",
    "cli",
    "integrations",
]
CORE = LAYERS[: LAYERS.index("facade")]
FACADE = {"", "__main__", "_pytest_plugin", "types"}  # may import all

# Which folders of the core may import these modules.
ONLY_IN = {
    "time": {"clock"},
    "asyncio": {"waiting"},
    "janus": {"tickers"},
    "trio": {"waiting"},
    "signal": {"cancellation"},
    "queue": set(),
    "random": {"leaf"},
    "dataclasses": set(),
    "logging": {"retries", "schedules"},
    "concurrent": set(),
    "multiprocessing": set(),
    "sched": set(),
    "select": set(),
    "selectors": set(),
    "subprocess": set(),
}


@dataclass(frozen=True)
class Import:
    """One name that one module imports; modules of the package are named relative to it."""

    module: str
    source: str
    name: str
    own: bool  # the source is of the package
    typing_only: bool  # in ``if TYPE_CHECKING:``
    lazy: bool  # in a function


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {module: ast.parse(path.read_text()) for module, path in FILES.items()}


def is_folder(module):
    return FILES[module].name == "__init__.py"


def layer(module):
    if module in FACADE:
        return "facade"
    folder, dot, _ = module.partition(".")
    return folder if dot or is_folder(module) else "leaf"


def imports_in(tree, module, package):
    """Return what is imported in the source of a module, which lies in ``package``."""

    def visit(node, typing_only, lazy):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, "", False, typing_only, lazy)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1]
            source = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            own = bool(node.level) or source.partition(".")[0] == PACKAGE.name
            if own and not node.level:
                source = source.partition(".")[2]
            for alias in node.names:
                inner = f"{source}.{alias.name}".lstrip(".")
                if own and inner in FILES:
                    yield Import(module, inner, "", own, typing_only, lazy)
                else:
                    yield Import(module, source, alias.name, own, typing_only, lazy)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for child in node.body:
                yield from visit(child, True, lazy)
            for child in node.orelse:
                yield from visit(child, typing_only, lazy)
        else:
            inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for child in ast.iter_child_nodes(node):
                yield from visit(child, typing_only, lazy or inside)

    return list(visit(tree, False, False))


def imports_of(module):
    parts = module.split(".") if module else []
    return imports_in(TREES[module], module, parts if is_folder(module) else parts[:-1])


IMPORTS = [found for module in TREES for found in imports_of(module)]
OWN = [found for found in IMPORTS if found.own]
OUTSIDE = [found for found in IMPORTS if not found.own and not found.typing_only]


def outside(*layers):
    return [found for found in OUTSIDE if layer(found.module) in layers]


# The direction of imports, those for types and those inside functions included


def test_every_folder_has_its_layer():
    assert {layer(module) for module in FILES} == set(LAYERS)


def told(imports):
    """Return imports as a failed test should show them."""
    return sorted({f"{each.module} <- {each.source} {each.name}".rstrip() for each in imports})


def crosses(found):
    """Return whether an import leads into another folder; leaves and the facade are none."""
    return layer(found.source) not in (layer(found.module), "leaf", "facade")


@pytest.mark.parametrize("folder", [each for each in LAYERS if each != "facade"])
def test_a_folder_imports_from_lower_ones_only_what_their_init_names(folder):
    lower = {*LAYERS[: LAYERS.index(folder) + 1]}
    mine = [found for found in OWN if layer(found.module) == folder]
    assert told(found for found in mine if layer(found.source) not in lower) == []
    crossing = [found for found in mine if crosses(found)]
    past = [found for found in crossing if found.source != layer(found.source)]
    assert told(past) == [], "imported past the folder's __init__"
    offered = {(each.module, each.name) for each in OWN if is_folder(each.module)}
    assert told(each for each in crossing if (each.source, each.name) not in offered) == []


@pytest.mark.parametrize("folder", CORE[1:])
def test_what_a_folder_offers_somebody_imports(folder):
    """The ``__init__`` names what other folders, the facade or the tests of the package use."""
    inits = [each for each in OWN if each.module == folder and not each.typing_only]
    used = {each.name for each in OWN if each.source == folder}
    assert sorted({each.name for each in inits} - used - set(backoff_ticker.__all__)) == []


def test_no_files_import_each_other_in_a_circle():
    graph = {module: set() for module in FILES if module not in FACADE}
    for found in OWN:
        inside = found.module.startswith(f"{found.source}.")
        if found.module in graph and found.source in graph and not inside:
            graph[found.module].add(found.source)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names a circle


def test_only_what_stands_above_the_facade_imports_it():
    found = [each for each in OWN if each.source in FACADE]
    assert {each.source for each in found} <= {"", "types"}
    assert told(each for each in found if layer(each.module) in (*CORE, "facade")) == []


def test_integrations_use_public_names_and_what_they_share():
    own = [each for each in OWN if layer(each.module) == "integrations"]
    inside = [each for each in own if layer(each.source) == "integrations"]
    assert told(each for each in inside if not each.source.startswith("integrations._")) == []
    shared = "integrations._shared"  # for all others
    others = [each for each in own if each not in inside and each.module != shared]
    public = {*backoff_ticker.__all__, *types.__all__, "__version__"}
    assert told(each for each in others if each.name not in public) == []


# What is used of the standard library and of other packages


@pytest.mark.parametrize("name", ONLY_IN)
def test_only_its_folder_imports(name):
    found = {layer(each.module) for each in outside(*CORE) if each.source.split(".")[0] == name}
    assert found == ONLY_IN[name]


def test_the_core_uses_the_standard_library_and_janus():
    of_trio = {"waiting._trio_clock", "waiting._trio_run"}
    needed = [each for each in outside(*CORE, "facade") if each.module not in of_trio]
    packages = {each.source.split(".")[0] for each in needed}
    assert packages - set(sys.stdlib_module_names) <= {"janus", "pytest"}
    eager = [each for each in OWN if each.source in of_trio and not (each.lazy or each.typing_only)]
    assert {each.module for each in eager} <= of_trio, "imported where trio does not run"


def uses(names):
    """Return the layers of the core where one of ``names`` is used, plain or as an attribute."""
    return {
        layer(module)
        for module, tree in TREES.items()
        if layer(module) in CORE
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr in names)
    }


LOCKS = {"RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        ({"call_later"}, {"clock"}),
        ({"Thread"}, {"clock"}),
        ({"Lock"}, {"clock"}),
        ({"sleep"}, {"clock"}),
        (LOCKS, set()),
        ({"Queue"}, {"tickers"}),
        ({"eval", "exec", "pickle", "marshal"}, set()),
    ],
    ids=lambda names: "-".join(sorted(names)),
)
def test_only_its_folder_uses(names, folders):
    assert uses(names) == folders


# The documents


def test_the_arrows_of_the_architecture_page_are_the_imports():
    """But for those of what stands at the bottom of the picture, which all may import."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    picture = page.partition("```text\n")[2].partition("```")[0]
    drawn = re.findall(r"^(\w+)/ +[^→\n]*(?:→ (.*))?$", picture, flags=re.MULTILINE)
    base = {name for name, _ in drawn[-3:]} | {"leaf", "facade"}
    assert base == {"leaf", "facade", "clock", "waiting", "cancellation"}
    arrows = {name: {*filter(None, to.split(", "))} for name, to in drawn if name not in base}
    imported = {folder: set() for folder in LAYERS if folder not in base}
    for found in OWN:
        source = layer(found.source)
        if source not in base and layer(found.module) in imported:
            imported[layer(found.module)].add(source)
    assert arrows == {folder: found - {folder} for folder, found in imported.items()}


def test_the_architecture_page_lists_each_place_that_leans_on_the_interpreter():
    """Files with a comment ``# ATOMIC:``, and how many of them each has."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = dict(re.findall(r"^\| `([\w/]+\.py)` \| (\d+) \|", page, flags=re.MULTILINE))
    tagged = {
        path.relative_to(PACKAGE).as_posix(): str(path.read_text().count("# ATOMIC:"))
        for path in FILES.values()
        if path.name != "__init__.py" and "# ATOMIC:" in path.read_text()
    }
    assert listed == tagged


@pytest.mark.parametrize(
    "name",
    [
        "CONTRIBUTING.md",
        "docs/architecture.md",
        "docs/architecture_of_integrations.md",
        "docs/architecture_of_parts.md",
        "docs/inside_a_retry.md",
    ],
)
def test_the_files_that_the_documents_name_are_there(name):
    text = (ROOT / name).read_text()
    named = set(re.findall(r"(?<![\w./])[a-z]+/(?:_?[a-z]+/)*\w+\.py\b", text))
    assert named
    missing = {
        each
        for each in named
        if not any((top / each).is_file() for top in (ROOT, PACKAGE, PACKAGE.parent))
    }
    assert missing == set()
