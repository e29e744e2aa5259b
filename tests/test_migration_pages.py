"""Each public name of a package that a page compares with has a row there, or in its detail."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
FIRST_CELL = re.compile(r"^\| ((?:[^|\\]|\\.)*) \|", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")}


def exported(module):
    return set(getattr(module, "__all__", ())) or public(module)


def parameters(function):
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }


def of_tenacity(tenacity):
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    return (
        exported(tenacity)
        | parameters(tenacity.Retrying)
        | (public(tenacity.Retrying) - {"iter_state"})
        | public(state)
        | (public(tenacity.RetryError(None)) - public(Exception()))
        | {"exp_base", "initial", "TornadoRetrying", "nap"}
    )


def of_backoff(backoff):
    return (
        exported(backoff)
        | parameters(backoff.on_exception)
        | parameters(backoff.on_predicate)
        | {"base", "factor", "max_value", "interval", "value"}
        | {"target", "args", "kwargs", "tries", "elapsed", "wait", "exception"}
    )


def of_stamina(stamina):
    from stamina import instrumentation

    return (
        (exported(stamina) - {"instrumentation"})
        | exported(instrumentation)
        | parameters(stamina.retry)
        | (parameters(stamina.set_testing) - {"testing"})  # True or False in the rows
        | public(stamina.Attempt)
        | public(stamina.RetryingCaller)
        | set(instrumentation.RetryDetails.__annotations__)
    )


def of_google(retry):
    targets = retry.retry_target, retry.retry_target_stream
    return (
        exported(retry)
        | parameters(retry.Retry)
        | public(retry.Retry)
        | {name for target in targets for name in parameters(target)}
        | {reason.name for reason in retry.RetryFailureReason}
        | {"RetryError"}
    )


def of_urllib3(retry):
    return parameters(retry.Retry) | public(retry.Retry) | {"RequestHistory", "MaxRetryError"}


@pytest.mark.parametrize(
    ("page", "module", "names_of"),
    [
        ("from_tenacity.md", "tenacity", of_tenacity),
        ("from_backoff.md", "backoff", of_backoff),
        ("from_stamina.md", "stamina", of_stamina),
        ("from_google_api_core.md", "google.api_core.retry", of_google),
        ("from_urllib3.md", "urllib3.util.retry", of_urllib3),
    ],
)
def test_each_public_name_has_a_row(page, module, names_of):
    pytest.importorskip(module)
    pages = [DOCS / page, *DOCS.glob(page.replace(".md", "_in_detail.md"))]
    cells = [cell for each in pages for cell in FIRST_CELL.findall(each.read_text("utf-8"))]
    rows = {
        name for cell in cells for code in CODE.findall(cell) for name in re.findall(r"\w+", code)
    }
    assert sorted(names_of(import_module(module)) - rows) == []
