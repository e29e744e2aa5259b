"""What to say where a package of an extra is missing."""

from __future__ import annotations

from ._program import PACKAGE


def is_missing(error: ModuleNotFoundError, *packages: str) -> bool:
    """Whether it was one of ``packages``, or a module in one, that was not found."""
    return str(error.name).partition(".")[0] in packages


def install_hint(what: str, extra: str) -> str:
    """Return that ``what`` needs the packages of ``extra``, and how to install them."""
    return f"{what} needs more packages: pip install '{PACKAGE}[{extra}]'"
