"""Cancellation tokens, shared by threads and event loops.

* ``_tree``: what is cancelled together, with which cause, and which callbacks run.
* ``_token``: the token, and ``any_of``.
* ``_scope``: ``async with token.scope()``, which cancels code through asyncio or trio.
* ``_signals``: a token that signals cancel; the event loop notices them at once.
"""

from __future__ import annotations

from ._scope import CancellableBlock as CancellableBlock, Scope as Scope
from ._signals import SignalBlock as SignalBlock, cancel_on_signals as cancel_on_signals
from ._token import (
    CancellationToken as CancellationToken,
    any_of as any_of,
    derive_token as derive_token,
    require_token as require_token,
)
from ._tree import CallbackHandle as CallbackHandle
