"""Cancellation tokens, shared by threads and event loops."""

from __future__ import annotations

from ._scope import Scope as Scope
from ._signals import cancel_on_signals as cancel_on_signals
from ._token import (
    CancellationToken as CancellationToken,
    any_of as any_of,
    derive_token as derive_token,
    require_token as require_token,
)
