"""The ImportError of an integration whose package is missing or too old."""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def imports_of_extra(name: str) -> Iterator[None]:
    """Let the error of an import that fails in this block, or is too old, tell how to mend it."""
    try:
        yield
    except ImportError as error:
        error.msg = f"{error}: pip install 'backoff-ticker[{name}]'"
        raise
