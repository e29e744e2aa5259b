"""Imports go in one direction, by folder, and only some folders touch time, locks and asyncio."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "backoff_ticker"

# A folder may import from those before it. "leaf": the modules beside the package's __init__.
LAYERS = [
    "leaf",
    "clock",
    "waiting",
    "cancellation",
    "channels",
    "policies",
    "tickers",
    "retries",
    "facade",
    "testing",
    "cli",
]
CORE = LAYERS[: LAYERS.index("facade")]
FACADE = {"", "__main__", "_pytest_plugin"}

# Which folders of the core may import these modules.
ONLY_IN = {
    "time": {"clock"},
    "asyncio": {"waiting"},
    "janus": {"tickers"},
    "signal": {"cancellation"},
    "queue": set(),
    "random": {"leaf"},
    "dataclasses": set(),
    "logging": set(),
    "concurrent": set(),
    "multiprocessing": set(),
    "sched": set(),
    "select": set(),
    "selectors": set(),
    "subprocess": set(),
}
LAZY = {"asyncio", "janus"}


@dataclass(frozen=True)
class Import:
    """One name that one module imports.

    Attributes:
        module: Who imports, relative to the package: ``"clock._system"``; ``""`` is the facade.
        source: What it imports from: a module of the package, or the full name of another.
        name: The imported name.
        typing_only: Whether it stands in ``if TYPE_CHECKING:``.
        lazy: Whether it stands in a function.
    """

    module: str
    source: str
    name: str
    own: bool
    typing_only: bool
    lazy: bool


def name_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {module: ast.parse(path.read_text()) for module, path in FILES.items()}


def is_folder(module):
    return FILES[module].name == "__init__.py"


def layer(module):
    """Return the layer of a module of the package."""
    if module in FACADE:
        return "facade"
    folder, dot, _ = module.partition(".")
    return folder if dot or is_folder(module) else "leaf"


def imports_of(module):
    package = module.split(".") if module else []
    if not is_folder(module):
        package = package[:-1]

    def visit(node, typing_only, lazy):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, "", False, typing_only, lazy)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1]
            source = ".".join([*above, *filter(None, [node.module])]) if node.level else node.module
            for alias in node.names:
                inner = f"{source}.{alias.name}".lstrip(".")
                if node.level and inner in FILES:
                    yield Import(module, inner, "", True, typing_only, lazy)
                else:
                    yield Import(module, source, alias.name, bool(node.level), typing_only, lazy)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for child in node.body:
                yield from visit(child, True, lazy)
            for child in node.orelse:
                yield from visit(child, typing_only, lazy)
        else:
            inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            for child in ast.iter_child_nodes(node):
                yield from visit(child, typing_only, lazy or inside)

    return list(visit(TREES[module], False, False))


IMPORTS = [found for module in TREES for found in imports_of(module)]
OWN = [found for found in IMPORTS if found.own]
OUTSIDE = [found for found in IMPORTS if not found.own and not found.typing_only]


def outside(*layers):
    return [found for found in OUTSIDE if layer(found.module) in layers]


# The direction of imports, those for types and those inside functions included


def test_every_folder_has_its_layer():
    assert {layer(module) for module in FILES} == set(LAYERS)


@pytest.mark.parametrize("module", sorted(set(FILES) - FACADE))
def test_a_folder_imports_from_lower_ones_only(module):
    mine = LAYERS.index(layer(module))
    upward = [
        found
        for found in OWN
        if found.module == module
        and layer(found.source) != layer(module)
        and LAYERS.index(layer(found.source)) >= mine
    ]
    assert upward == []


@pytest.mark.parametrize("module", sorted(set(FILES) - FACADE))
def test_a_folder_imports_from_another_only_what_its_init_names(module):
    crossing = [
        found
        for found in OWN
        if found.module == module and layer(found.source) not in (layer(module), "leaf")
    ]
    for found in crossing:
        assert found.source == layer(found.source), "imported past the folder's __init__"
        offered = {each.name for each in OWN if each.module == found.source}
        assert found.name in offered


@pytest.mark.xfail(strict=True, reason="the circles inside the folders are being cut")
def test_no_files_import_each_other_in_a_circle():
    graph = {module: set() for module in FILES if module not in FACADE}
    for found in OWN:
        inside = found.module.startswith(f"{found.source}.")
        if found.module in graph and found.source in graph and not inside:
            graph[found.module].add(found.source)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names a circle


def test_nobody_imports_the_facade():
    assert [found for found in OWN if found.source in FACADE] == []


def test_the_test_sees_the_imports_there_are():
    """Each kind once, so that a blind spot shows."""
    assert Import("waiting._parking", "clock", "Clock", True, True, False) in OWN
    assert Import("waiting._wait_set", "_process", "", True, False, False) in OWN
    assert Import("tickers._core", "tickers._timer", "TickerTimer", True, False, True) in OWN
    assert Import("waiting._parking", "asyncio", "", False, False, True) in OUTSIDE


# What is used of the standard library and of other packages


@pytest.mark.parametrize("name", ONLY_IN)
def test_only_its_folder_imports(name):
    found = {layer(each.module) for each in outside(*CORE) if each.source.split(".")[0] == name}
    assert found == ONLY_IN[name]


def test_asyncio_and_janus_are_imported_inside_functions():
    heavy = [each for each in outside(*CORE) if each.source.split(".")[0] in LAZY]
    assert heavy
    assert [each for each in heavy if not each.lazy] == []


def test_the_core_uses_the_standard_library_and_janus():
    packages = {each.source.split(".")[0] for each in outside(*CORE, "facade")}
    assert packages - set(sys.stdlib_module_names) <= {"janus", "pytest"}


def test_matplotlib_is_loaded_by_a_picture_only():
    found = [each for each in OUTSIDE if each.source.split(".")[0] == "matplotlib"]
    assert found
    assert all(each.lazy and layer(each.module) == "cli" for each in found)


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


def test_nobody_sleeps():
    assert uses({"sleep"}) == set()


def test_only_clocks_arm_timers_of_a_loop_start_a_thread_and_have_raw_locks():
    assert uses({"call_later"}) == {"clock"}
    assert uses({"Thread"}) == {"clock"}
    assert uses({"Lock"}) == {"clock"}


def test_nothing_is_built_on_locks():
    built_on_locks = {"RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}
    assert uses(built_on_locks) == set()
    assert uses({"Queue"}) == {"tickers"}


def test_nothing_is_evaluated_or_unpickled():
    assert uses({"eval", "exec", "pickle", "marshal"}) == set()
