"""Checks of tokens that users give."""

from __future__ import annotations

from ..cancellation import CancellationToken


def check_token(token: object, name: str = "token") -> None:
    """Raise a TypeError that names the parameter unless ``token`` is a token."""
    if not isinstance(token, CancellationToken):
        raise TypeError(f"{name} must be a CancellationToken, not {token!r}")
