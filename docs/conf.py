"""How Sphinx builds the documentation: ``sphinx-build -W -n docs site``. Needs no network."""

import re
import tomllib
from collections.abc import Iterator
from html import escape
from importlib import import_module
from importlib.util import find_spec
from inspect import getdoc, signature
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.transforms import SphinxTransform
from sphinx.writers.html5 import HTML5Translator

import backoff_ticker
from backoff_ticker import retry, testing, types
from backoff_ticker.retries._option_table import LOOP_OPTIONS, OPTIONS
from backoff_ticker.types import HedgeOptions

ROOT = Path(__file__).parents[1]
SOURCE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Source"]

project = "backoff_ticker"
author = "The backoff_ticker developers"
copyright = author  # noqa: A001 - Sphinx's name for it
release = version = backoff_ticker.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    *(["sphinx_copybutton"] if find_spec("sphinx_copybutton") else []),  # nothing else needs it
]
root_doc = "index"

html_theme = "furo"
html_title = f"backoff_ticker {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["custom.css"]
html_favicon = "_static/favicon.svg"
html_search_scorer = str(ROOT / "docs" / "search_scorer.js")
html_theme_options = {
    "source_repository": SOURCE,
    "source_branch": "main",
    "source_directory": "docs/",
    "navigation_with_keys": True,
    "top_of_page_buttons": ["view", "edit"],
    "light_css_variables": {"color-code-background": "#f6f8fa"},
}
pygments_style = "github-light"
pygments_dark_style = "github-dark"
viewcode_line_numbers = True

# Copied is what a reader types, without prompts and answers.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Markdown, with links to headings as GitHub makes them

myst_heading_anchors = 3

# Reference pages

add_module_names = False
toc_object_entries_show_parents = "hide"
python_display_short_literal_types = True
maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    # Where what a class inherits is no longer ours to describe.
    "inherited-members": "BaseException, Enum, Generic, OSError, Protocol, dict, str, tuple",
}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [("The decorated function raises", "params_style")]

# What signatures name and no page describes. Nothing refers to Python's own documentation, as its
# inventory would have to be fetched.
nitpick_ignore_regex = [
    (
        "py:class",
        r"(asyncio\..*)?AbstractEventLoop|asyncio\.Task|AbstractContextManager|Executor|Logger|ModuleType|Random|timedelta",
    ),
    ("py:class", r"janus\.Queue|os\.PathLike|CollectorRegistry|MeterProvider|Redis"),
    # Type variables, and aliases of types: the parameters' descriptions say what these are.
    ("py:class", r"Args|D|F|K|P|P\.args|P\.kwargs|T|backoff_ticker\..*\.T"),
    (
        "py:class",
        r"AlgorithmOptions|Bounds|CircuitOptions|Decorator|JitterKind|Policy",
    ),
    ("py:class", r"Around|Hooks?|Notify|ResultCheck|RetryOn|ErrorRule|Seconds|UnionType"),
    ("py:class", r"Application|starlette\.requests\.HTTPConnection"),
    ("py:class", r"Broker|Heartbeat|(temporalio\.common\.)?RetryPolicy"),
    ("py:exc", r"MiddlewareError|backoff_ticker\.testing\.exploring\._Told"),
    ("py:class", r"httpx\.(Async)?BaseTransport|(Async)?HTTPRetryOptions"),
    # Classes that users get and never name.
    ("py:class", r"backoff_ticker\..*\.(RetryHooks|SystemParker|VirtualParker|_NoWait)"),
]

# Pages that stand in the root of the repository

FROM_ROOT = {
    "changelog": "CHANGELOG",
    "code_of_conduct": "CODE_OF_CONDUCT",
    "contributing": "CONTRIBUTING",
    "security": "SECURITY",
}


def show_page_of_root(_app: Sphinx, page: str, source: list[str]) -> None:
    """Read these pages where they are, and let links to them lead to the site's own pages."""
    if page in FROM_ROOT:
        source[0] = (ROOT / f"{FROM_ROOT[page]}.md").read_text("utf-8").replace("](docs/", "](")
    for name, file in FROM_ROOT.items():
        source[0] = re.sub(rf"\]\((\.\./)*{file}\.md", f"](/{name}.md", source[0])


# Pictures


class BothVariants(SphinxTransform):
    """Let a page that names the light variant of a picture show the dark one to dark browsers."""

    default_priority = 300

    def apply(self) -> None:
        """Add the dark variant after each light one; the theme hides one of them."""
        for light in list(self.document.findall(nodes.image)):
            if light["uri"].endswith(".light.svg"):
                dark = light.deepcopy()
                dark["uri"] = light["uri"].replace(".light.svg", ".dark.svg")
                light["classes"].append("only-light")
                dark["classes"].append("only-dark")
                light.parent.insert(light.parent.index(light) + 1, dark)


# Search

# What people search for, and the page that answers first. Search finds these words as entries of
# the index, whose score is above those of words in a text.
ANSWERS = {
    "cancellation": "cancel, cancellation token, deadline, token, stop",
    "channels": "channel, queue, select",
    "circuit_breaker": "circuit, circuit breaker",
    "command": "command line, shell",
    "hedging": "hedge",
    "how_to/choose_a_time_limit": "time limit, timeout",
    "how_to/find_races": "race, race condition, deadlock, interleaving",
    "how_to/log_and_count": "log, logging",
    "how_to/metrics": "metrics, prometheus, opentelemetry",
    "how_to/poll_a_fleet": "fleet, interval",
    "how_to/poll_until_done": "poll, polling",
    "how_to/reconnect_a_client": "reconnect",
    "how_to/retry_celery_tasks": "celery",
    "how_to/retry_dramatiq_messages": "dramatiq",
    "how_to/retry_http": "http, httpx, requests, retry-after, 429, 503",
    "how_to/retry_temporal_activities": "temporal",
    "how_to/share_a_budget": "redis, budget",
    "how_to/work_queue": "work queue, workqueue, debounce, idle timeout",
    "how_to/shut_down": "ctrl-c, shut down, shutdown, signal, sigint, sigterm",
    "how_to/shut_down_django": "django",
    "how_to/shut_down_fastapi": "fastapi, starlette, uvicorn",
    "how_to/shut_down_gunicorn": "gunicorn",
    "interrupts": "ctrl-c, KeyboardInterrupt, interrupt, signal handler",
    "policies": "backoff, back-off, jitter, policy",
    "retries": "retry, retries, attempts",
    "schedules": "schedule, schedules, worker",
    "testing": "test, testing, virtual clock, fake clock",
    "thread_safety": "thread safety, gil, free-threaded",
    "tickers": "ticker, tick, periodic",
}


class IndexAnswers(SphinxTransform):
    """Put what a page answers into the index."""

    default_priority = 300

    def apply(self) -> None:
        """Add the entries before the page's text."""
        if words := ANSWERS.get(self.env.docname):
            entries = [("single", word, "", "main", None) for word in words.split(", ")]
            self.document.insert(0, addnodes.index(entries=entries))


# Tables, whose rows become stacks of cells on a phone


class LabelCells(SphinxTransform):
    """Let each cell know the heading of its column, which stands before it in a stack."""

    default_priority = 300

    def apply(self) -> None:
        """Note the headings, but for the first column, which names the row."""
        for table in self.document.findall(nodes.table):
            head, *rows = table.findall(nodes.row)
            if isinstance(head.parent, nodes.thead):
                labels = [cell.astext() for cell in head]
                for row in rows:
                    for cell, label in list(zip(row, labels, strict=True))[1:]:
                        cell["label"] = label


class Translator(HTML5Translator):
    """Write the headings into the cells."""

    def starttag(self, node: nodes.Element, *arguments: object, **attributes: object) -> str:
        """Return a tag, with the heading that style sheets show."""
        if isinstance(node, nodes.entry) and "label" in node:
            attributes["data-label"] = node["label"]
        return super().starttag(node, *arguments, **attributes)


# Reference pages begin with what they describe

SECTION = re.compile(r"^(.+)\n[=-]{3,}$|^\.\. (currentmodule|auto\w+):: (\S+)$", re.MULTILINE)


def summarise_reference(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Replace ``.. contents-of-page::`` by a table of names for each section of the page."""
    if ".. contents-of-page::\n" not in source[0]:
        return
    rows: dict[str, list[str]] = {}
    for heading, directive, name in SECTION.findall(source[0]):
        if heading:
            section = heading
        elif directive == "currentmodule":
            module = import_module(name)
        else:
            path = f"{module.__name__}.{name}"
            owner, _, last = path.rpartition(".")
            summary = LITERAL.sub(link, summary_of(import_module(owner), last))
            rows.setdefault(section, []).append(
                f"   * - :py:obj:`{last} <{path}>`\n     - {summary}\n"
            )
    tables = [
        f"**{section}**\n\n.. list-table::\n   :class: names\n\n" + "".join(names)
        for section, names in rows.items()
    ]
    source[0] = source[0].replace(".. contents-of-page::\n", "\n".join(tables))


# The options of retries: a table, and types and defaults among the parameters of ``retry``

# What types are called that have a name for type checkers only.
KINDS = {
    "Around": "function or list of functions",
    "Hooks": "function or list of functions",
    "Notify": "function or list of functions",
    "ResultCheck": "function",
    "RetryOn": "type of errors, tuple, mapping or function",
    "Seconds": "seconds or ``timedelta``",
    "object": "value, or function of the ``Outcome``",
}

# These come first in the table.
MOST_USED = "on", "max_attempts", "max_elapsed_time", "timeout", "attempt_timeout", "token"


def list_options(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Replace ``.. options-of-retries::`` by a table: what each option is, and who lacks it."""
    if ".. options-of-retries::\n" not in source[0]:
        return
    rows = [("option", "type", "what it is")]
    for name in dict.fromkeys([*MOST_USED, *OPTIONS]):
        lacking = ["plain functions"] * (name == "attempt_timeout")
        lacking += ["loops"] * (name not in LOOP_OPTIONS)
        lacking += ["hedged calls"] * (name not in {*HedgeOptions.__optional_keys__, "fallback"})
        exception = f" (not in {' and '.join(lacking)})" if lacking else ""
        kind = LITERAL.sub(link, kind_of(name).removesuffix(", default ``None``"))
        rows.append((f"``{name}``", kind, f"{help_of(name)}{exception}."))
    lines = [".. list-table::\n   :header-rows: 1\n"]
    lines += ["\n     - ".join(("   * - " + row[0], *row[1:])) for row in rows]
    source[0] = source[0].replace(".. options-of-retries::\n", "\n".join(lines) + "\n")


def help_of(option: str) -> str:
    """Return how the docstring of ``retry`` begins to describe an option."""
    found = re.search(
        rf"^    {option}: (.+?)[.:](\s|$)", getdoc(retry) or "", re.MULTILINE | re.DOTALL
    )
    return LITERAL.sub(link, " ".join(found[1].split())) if found else ""


def kind_of(option: str) -> str:
    """Return the type and the default of an option of ``retry``, in words."""
    parameter = signature(retry).parameters[option]
    kind = parameter.annotation.removesuffix(" | None")
    kind = KINDS.get(kind, f"``{kind}``")
    if isinstance(parameter.default, float):
        return f"{kind}, default {parameter.default / 3600:g} h"
    return f"{kind}, default ``None``" if parameter.default is None else kind


def type_options(
    _app: Sphinx, _what: str, name: str, _value: object, _options: object, lines: list[str]
) -> None:
    """Give each parameter of ``retry`` its type and default."""
    if name != "backoff_ticker.retry":
        return
    lines[:] = [line for line in lines if not line.startswith("    **options: ")]
    start = lines.index("Args:")
    end = lines.index("Raises:")
    for number in range(start, end):
        found = re.match(r"    (\w+): ", lines[number])
        if found:
            rest = lines[number].removeprefix(found[0])
            lines[number] = f"    {found[1]} ({kind_of(found[1])}): {rest}"


def summary_of(module: ModuleType, name: str) -> str:
    """Return the first line of the docstring of a public name."""
    value = getattr(module, name)
    if isinstance(value, type) or callable(value):
        return (value.__doc__ or "").partition("\n")[0]
    defined_in = f"{module.__name__}.{module._MODULE_OF[name]}"
    return ModuleAnalyzer.for_module(defined_in).find_attr_docs()["", name][0]


# What search engines show of a page


def describe_page(
    _app: Sphinx,
    _page: str,
    _template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give each page its first paragraph as its description."""
    first = doctree and next(doctree.findall(nodes.paragraph), None)
    if first:
        text = escape(" ".join(first.astext().split()), quote=True)
        context["metatags"] += f'<meta name="description" content="{text}">'


# Docstrings

# Public names in literals of docstrings become links.
PATHS = {
    name: f"{module.__name__}.{name}"
    for module in (backoff_ticker, testing, types)
    for name in module.__all__
}
LITERAL = re.compile(r"``(\w+)(\.\w+)?(\(\))?``")

# In guides, the first mention of a public name in each section leads to the reference. Other pages
# name what other libraries call by the same names.
GUIDES = re.compile(
    r"(cancellation|channels|circuit_breaker|hedging|policies|retries|testing|tickers)\w*|how_to/.*"
    r"|tutorial"
)
# What variables are called in the text, and their classes.
VARIABLES = {
    "channel": "Channel",
    "clock": "VirtualClock",
    "ticker": "Ticker",
    "token": "CancellationToken",
}
CODE = re.compile(r"@?(\w+)(?:\.(\w+))?(\(.*\))?", re.DOTALL)


class LinkNames(SphinxTransform):
    """Link code such as ``Ticker``, ``select(token, channel)`` and ``token.cancel()``."""

    default_priority = 300

    def apply(self) -> None:
        """Put a link around the first mention of each name in a section."""
        if not GUIDES.fullmatch(self.env.docname):
            return
        linked = set()
        for literal in list(self.document.findall(nodes.literal)):
            target = target_of(literal.astext())
            parents = list(parents_of(literal))
            section = next((one for one in parents if isinstance(one, nodes.section)), None)
            in_link = any(isinstance(one, nodes.reference | nodes.title) for one in parents)
            if target and not in_link and (section, target) not in linked:
                linked.add((section, target))
                reference = addnodes.pending_xref(
                    refdomain="py", reftype="obj", reftarget=target, refdoc=self.env.docname
                )
                literal.replace_self(reference)
                reference += literal


def target_of(code: str) -> str | None:
    """Return the full name of what a piece of code names first, if that is public."""
    match = CODE.fullmatch(code)
    if not match:
        return None
    name, attribute, call = match.groups()
    if attribute and call:
        name = VARIABLES.get(name, name)
    path = PATHS.get(name)
    return f"{path}.{attribute}" if path and attribute else path


def parents_of(node: nodes.Node) -> Iterator[nodes.Node]:
    """Return what a node is in, from the inside outwards."""
    while node.parent:
        node = node.parent
        yield node


# A line such as "Thread safety: ..." of a docstring begins a paragraph of its own.
LABEL = re.compile(
    r"(If cancelled|If cancelled or interrupted|If interrupted|In a running event loop|Source"
    r"|Thread safety|Wakes when|What counts): "
)

# What describes a name ends where one of these lines comes.
DETAILS = re.compile(LABEL.pattern + r"|(Args|Attributes|Raises|Returns):$")


def link(literal: re.Match[str]) -> str:
    """Return a link to a public name, or a method of a public class."""
    name, method, call = literal.groups("")
    path = PATHS.get(name)
    return f":py:obj:`{name}{method}{call} <{path}{method}>`" if path else literal[0]


def with_early_example(lines: list[str]) -> list[str]:
    """Return a docstring whose example follows the description, before all details."""
    if "Example:" not in lines:
        return lines
    start = lines.index("Example:")
    following = (n for n in range(start + 1, len(lines)) if lines[n].strip() and lines[n][0] != " ")
    end = next(following, len(lines))
    example, others = lines[start:end], lines[:start] + lines[end:]
    place = next((n for n, line in enumerate(others) if DETAILS.match(line)), len(others))
    if place > start:
        return lines
    return [*others[:place], "", *example, "", *others[place:]]


def prepare_docstring(
    _app: Sphinx, what: str, _name: str, _value: object, _options: object, lines: list[str]
) -> None:
    """Move the example up; link public names; make labels bold, each in a paragraph of its own."""
    lines[:] = with_early_example(lines)
    lines[:] = [line if line.startswith("Source: ") else LITERAL.sub(link, line) for line in lines]
    if what in {"attribute", "property"}:
        # Napoleon would take what stands before a colon for a type, unless the line ends there.
        first, colon, rest = lines[0].partition(": ")
        lines[:1] = [first + colon.strip(), rest] if colon else [first]
    for number in reversed(range(len(lines))):
        if LABEL.match(lines[number]):
            lines[number] = LABEL.sub(r"**\1:** ", lines[number], count=1)
            lines.insert(number, "")


def shorten_signature(
    _app: Sphinx,
    what: str,
    _name: str,
    value: type,
    _options: object,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Leave out what no reader needs: parameters of classes that nobody calls, shared options."""
    if what == "class" and signature and "Args:" not in (value.__doc__ or ""):
        return "", None
    if not signature:
        return signature, returned
    signature = signature.replace("<class 'Exception'>", "Exception")
    if what == "function" and "breaker: " in signature:  # the options of retries
        if value.__name__ == "retry":
            signature = re.sub(r": [^=]*?(?= = |, |\)$)", "", signature).replace(" = ", "=")
            signature = signature.replace("NO_FALLBACK", "...")
            return signature.replace("21600.0", "timedelta(hours=6)"), None
        signature = re.sub(r"\*, (pool: .*?, )?on: .*", r"\1**options)", signature)
        signature = signature.replace("pool: ", "*, pool: ")
        returned = returned and re.sub(r"\[\S*AsyncOptions\]$", "", returned)
    return signature, returned


def skip_field(
    _app: Sphinx, _what: str, _name: str, value: object, _skip: object, _options: object
) -> bool | None:
    """Leave out the fields of named tuples: the docstring of the class describes them."""
    return (value.__doc__ or "").startswith("Alias for field number") or None


def name_public_bases(
    _app: Sphinx, _name: str, _value: object, _options: object, bases: list[type | str]
) -> None:
    """Name the bases of an error as they are imported."""
    for number, base in enumerate(bases):
        module, _, _ = base.__module__.rpartition("._")
        if module:
            bases[number] = f":exc:`~{module}.{base.__name__}`"


def find_source(_app: Sphinx, _module: str, name: str) -> str | None:
    """Return where an error is defined: it says that it is of the package itself."""
    names = backoff_ticker._MODULE_OF
    return f"backoff_ticker.{names[name]}" if names.get(name) == "_errors" else None


def find_type(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.TextElement
) -> nodes.Element | None:
    """Link a name in a signature to ``backoff_ticker.types``, if it is there."""
    name = node["reftarget"].rpartition(".")[2]
    if node.get("refdomain") != "py" or name not in types.__all__:
        return None
    path = PATHS[name]
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", path, node, text)


def analyze_without_overloads(self: ModuleAnalyzer) -> None:
    """Let ``retry`` have one signature: its overloads differ for type checkers only."""
    analyze(self)
    self.overloads = {}


# At run time the module of channels does without ``typing``, and its type variable is None.
T = TypeVar("T")
T.__module__ = "backoff_ticker.channels._channel"
import_module(T.__module__).T = T

analyze = ModuleAnalyzer.analyze
ModuleAnalyzer.analyze = analyze_without_overloads

for field in PyObject.doc_field_types:
    if field.name == "variable":
        field.label = "Attributes"


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.add_transform(BothVariants)
    app.add_transform(IndexAnswers)
    app.add_transform(LabelCells)
    app.set_translator("html", Translator)
    app.add_transform(LinkNames)
    app.connect("source-read", show_page_of_root)
    app.connect("source-read", summarise_reference)
    app.connect("source-read", list_options)
    app.connect("html-page-context", describe_page)
    app.connect("autodoc-process-docstring", type_options, priority=300)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-bases", name_public_bases)
    app.connect("autodoc-skip-member", skip_field)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("viewcode-follow-imported", find_source)
    app.connect("missing-reference", find_type)
