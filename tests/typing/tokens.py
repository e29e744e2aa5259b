"""What type checkers make of tokens; checked by mypy and pyright, never run."""

from __future__ import annotations

from typing import assert_type

from backoff_ticker import CancellationToken, any_of

token = CancellationToken(timeout=1)
assert_type(token.cancelled, bool)
assert_type(any_of(token, token.child()).cancelled, bool)
token.cancelled = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
