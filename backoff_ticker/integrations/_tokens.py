"""Checks of tokens that users give."""

from __future__ import annotations

from ..cancellation import CancellationToken


def check_token(token: object) -> None:
    """Raise a TypeError unless ``token`` is a token."""
    if not isinstance(token, CancellationToken):
        raise TypeError(f"token must be a CancellationToken, not {token!r}")
