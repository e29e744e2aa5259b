"""Which files are watched, and how a caller names them."""

from __future__ import annotations

import inspect
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._validation import safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_HERE = os.path.realpath(Path(__file__).parent)


def name_of(thing: object) -> str:
    """Return how a caller is likely to name a file, module, function or class."""
    if isinstance(thing, (str, os.PathLike)):
        return repr(os.fspath(thing))
    name: str = getattr(thing, "__qualname__", "") or getattr(thing, "__name__", "")
    name = name.rpartition("<locals>.")[2]
    return name if name.replace(".", "_").isidentifier() else "..."


def watching(things: list[Any]) -> Callable[[str], bool]:
    """Return what tells whether a file is one of those of ``things``, or in a folder of theirs."""
    files = {_real(file) for thing in things for file in _files_of(thing)}
    if not files:
        raise ValueError("watch must name at least one file")
    folders = tuple(f"{file}{os.sep}" for file in files if Path(file).is_dir())

    def watched(file: str) -> bool:
        file = _real(file)
        # Whatever is watched, such as a folder with an environment in it: this itself is not.
        return (file in files or file.startswith(folders)) and not file.startswith(_HERE)

    return watched


def _files_of(watched: Any) -> Iterable[str]:
    if isinstance(watched, (str, os.PathLike)):
        if not watched or not Path(watched).exists():
            raise ValueError(f"watch must name files that exist, not {safe_repr(watched)}")
        return [os.fspath(watched)]
    if inspect.ismodule(watched) and hasattr(watched, "__path__"):
        return watched.__path__
    try:
        return [inspect.getfile(inspect.unwrap(getattr(watched, "func", watched)))]
    except (TypeError, OSError):
        raise TypeError(
            "watch (by default body) must be files, folders, modules, functions or classes that "
            f"are written in Python, not {safe_repr(watched)}"
        ) from None


@cache
def _real(file: str) -> str:
    return file if file.startswith("<") else os.path.realpath(file)
