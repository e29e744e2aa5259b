"""Each room imports only from lower floors, and only some rooms touch time, locks and asyncio."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "backoff_ticker"

# Each room may import from any floor above it in this list, never from its own or one below.
FLOORS = [
    [
        "_announce",
        "_errors",
        "_fork",
        "_marks",
        "_numbers",
        "_process_bound",
        "_protocols",
        "_schedule",
        "_source",
        "_stop",
        "retries._awaitables",
        "retries._options",
        "retries._outcome",
        "retries._skipping",
    ],
    [
        "_claim",
        "_loop_timers",
        "_report",
        "_retry_after",
        "_turn",
        "_wait_set",
        "policies.__init__",
        "policies._copying",
        "retries.__init__",
        "retries._budget",
        "retries._errors",
    ],
    [
        "_offer",
        "_rendezvous",
        "_scheduler",
        "policies._base",
        "policies._random",
        "retries._ending",
    ],
    [
        "_buffer",
        "_clock",
        "_waiting",
        "policies._constant",
        "policies._aws_jitter",
        "policies._truncated",
    ],
    [
        "_scope",
        "_sending",
        "_token_tree",
        "policies._algorithm_bounds",
        "policies._elapsed",
        "policies._running",
        "retries._script",
    ],
    ["_channel", "_token", "policies._exponential", "policies._algorithm", "policies._wrapper"],
    [
        "_signals",
        "_timer",
        "policies._chain",
        "policies._algorithm_adaptive",
        "policies._algorithm_fixed",
        "policies._limits",
        "policies._token_backoff",
        "policies._with_jitter",
        "retries._cut",
    ],
    ["_policy_run", "_select", "policies._named", "retries._rules"],
    ["_ticker_timer", "retries._pause", "retries._run"],
    ["_ticker_state", "retries._play"],
    ["_ticker_core", "retries._attempt", "retries._drive"],
    ["_push", "retries._go_on", "retries._loop"],
    ["_ticker_face", "retries._call"],
    ["_async_ticker", "_ticker", "retries._generators", "retries._hedge"],
    ["retries._decorator"],
    ["__init__"],
]
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}

# (who, what): why. Imports inside functions that the rules below would forbid.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("_clock", "_timer"): "a clock makes timers, whose channel has waits that a clock measures",
}

# Where these may be imported at all. Nobody imports them when the package is imported, so asyncio
# and janus stand inside functions.
ONLY_IN = {
    "time": {"_clock"},
    "asyncio": {"_waiting"},
    "janus": {"_ticker_face"},
    "signal": {"_signals"},
    "queue": {"_scheduler"},
    "random": {"policies._random"},
    "typing": {"_protocols", "retries._options"},
    "dataclasses": set(),
    "logging": set(),
    "concurrent": set(),
    "multiprocessing": set(),
    "sched": set(),
    "select": set(),
    "selectors": set(),
    "subprocess": set(),
    "warnings": set(),
}
LAZY = {"asyncio", "janus"}

# Standard modules imported inside functions, because most programs never need them.
LAZY_STANDARD = {
    ("__init__", "importlib"),
    ("_report", "traceback"),
    ("_schedule", "datetime"),
    ("policies._named", "inspect"),
    ("policies._copying", "copy"),
    ("retries._decorator", "inspect"),
}


def room_of(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


ALL = {room_of(path): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {room: ast.parse(source) for room, source in ALL.items()}

# What stands on top is never imported by the core, and may use more than it.
TOP = {room for room in ALL if room == "__main__" or room.startswith(("cli.", "testing."))}
SOURCES = {room: source for room, source in ALL.items() if room not in TOP}


class Imports(ast.NodeVisitor):
    """Collects ``(module, whether inside a function)``, imports for type checkers left out."""

    def __init__(self, room):
        self.found = []
        self._package = ["backoff_ticker", *room.split(".")[:-1]]
        self._depth = 0

    def visit_If(self, node):
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that ast looks for
    visit_Lambda = visit_FunctionDef  # noqa: N815

    def visit_Import(self, node):
        self.found += [(alias.name, self._depth > 0) for alias in node.names]

    def visit_ImportFrom(self, node):
        base = self._package[: len(self._package) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            name = f"{module}.{alias.name}"
            is_room = name.removeprefix("backoff_ticker.") in ALL
            self.found.append((name if is_room else module, self._depth > 0))


def imports(room):
    visitor = Imports(room)
    visitor.visit(TREES[room])
    return visitor.found


def own(module):
    """Return the room that a module of the package is, or None for others."""
    if module == "backoff_ticker":
        return "__init__"
    name = module.removeprefix("backoff_ticker.")
    if name == module:
        return None
    return name if name in ALL else f"{name}.__init__"


EDGES = [
    (room, own(module), lazy)
    for room in SOURCES
    for module, lazy in imports(room)
    if own(module) is not None
]
OUTSIDE = [
    (room, module.partition(".")[0], lazy)
    for room in SOURCES
    for module, lazy in imports(room)
    if own(module) is None
]


def test_every_file_has_its_floor_and_every_floor_its_files():
    listed = [room for floor in FLOORS for room in floor]
    assert sorted(listed) == sorted(SOURCES)
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("room", SOURCES)
def test_each_room_imports_only_from_lower_floors(room):
    upward = {
        (who, what)
        for who, what, _ in EDGES
        if who == room and FLOOR[what] >= FLOOR[who] and (who, what) not in EXCEPTIONS
    }
    assert upward == set()


def test_each_exception_is_needed_and_stands_inside_a_function():
    upward = {(who, what, lazy) for who, what, lazy in EDGES if FLOOR[what] >= FLOOR[who]}
    assert upward == {(who, what, True) for who, what in EXCEPTIONS}


def test_the_facade_names_each_room_it_loads():
    (table,) = [
        node.value
        for node in TREES["__init__"].body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_ROOM_OF"
    ]
    assert set(ast.literal_eval(table).values()) < set(SOURCES)
    assert [edge for edge in EDGES if edge[0] == "__init__"] == []


def test_what_stands_on_top_is_not_imported_by_the_core():
    assert [(who, what) for who, what, _ in EDGES if what in TOP] == []


def test_only_what_stands_on_top_uses_other_packages():
    outside = {
        (module.partition(".")[0], lazy)
        for room in TOP
        for module, lazy in imports(room)
        if own(module) is None
    }
    packages = {(name, lazy) for name, lazy in outside if name not in sys.stdlib_module_names}
    assert {name for name, _ in packages} == {"click", "rich", "matplotlib", "pytest"}
    assert ("matplotlib", False) not in packages


def test_no_room_imports_the_facade():
    assert [who for who, what, _ in EDGES if what == "__init__"] == []


def test_the_test_sees_the_imports_there_are():
    """Each kind once, so that a blind spot shows."""
    assert ("_ticker_core", "_fork", False) in EDGES
    assert ("policies._running", "_clock", False) in EDGES
    assert ("_ticker_face", "_push", True) in EDGES
    assert ("policies._wrapper", "policies._copying", False) in EDGES
    assert ("_waiting", "asyncio", True) in OUTSIDE
    assert ("_signals", "_protocols", False) not in EDGES


@pytest.mark.parametrize("module", ONLY_IN)
def test_only_its_room_imports(module):
    importers = {who for who, what, _ in OUTSIDE if what == module}
    assert importers <= ONLY_IN[module]
    assert importers == ONLY_IN[module], "the table lists a room that does not import it"


def test_asyncio_and_janus_are_imported_inside_functions():
    assert [(who, what) for who, what, lazy in OUTSIDE if what in LAZY and not lazy] == []


def test_standard_modules_are_imported_at_the_top_with_few_exceptions():
    lazy = {(who, what) for who, what, lazy in OUTSIDE if lazy and what not in LAZY}
    assert lazy == LAZY_STANDARD


def test_imports_at_run_time_come_from_the_standard_library_or_janus():
    outside = {what for _, what, _ in OUTSIDE}
    assert outside - set(sys.stdlib_module_names) == {"janus"}


def uses(names):
    """Return ``(room, expression)`` for each use of one of ``names``, plain or as an attribute."""
    return [
        (room, ast.unparse(node))
        for room, tree in TREES.items()
        if room in SOURCES
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr in names)
    ]


def test_nobody_sleeps():
    assert uses({"sleep"}) == []


def test_only_one_room_arms_timers_of_a_loop():
    assert {room for room, _ in uses({"call_later"})} == {"_loop_timers"}


def test_raw_locks_are_bells_in_two_rooms_and_nobody_has_anything_built_on_one():
    assert {room for room, _ in uses({"Lock"})} == {"_clock", "_scheduler"}
    built_on_locks = {"RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}
    assert uses(built_on_locks) == []
    queues = {("_push", "asyncio.Queue"), ("_ticker_face", "janus.Queue")}
    assert set(uses({"Queue"})) == queues


def test_only_the_scheduler_starts_a_thread():
    assert {room for room, _ in uses({"Thread"})} == {"_scheduler"}


def test_the_sender_looks_for_queues_of_asyncio_and_janus_without_importing_them():
    assert 'sys.modules.get("asyncio")' in SOURCES["_push"]
    assert 'sys.modules.get("janus")' in SOURCES["_push"]


def test_only_the_facade_imports_by_name():
    assert {room for room, _ in uses({"import_module", "__import__"})} == {"__init__"}


def test_nothing_is_evaluated_or_unpickled():
    found = uses({"eval", "exec", "pickle", "marshal", "compile"})
    assert {use for use in found if use[1] != "re.compile"} == set()
