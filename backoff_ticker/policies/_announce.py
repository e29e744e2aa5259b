"""How a token deep inside a policy reaches the run that asks the policy.

A policy may hold others at any depth, inside classes that this package has never seen, where a
run cannot search. While it asks such a policy, it listens, and a policy inside that holds a token
announces it.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._sentinels import Stop
    from ..cancellation import CancellationToken


class _Listener(threading.local):
    hear: Callable[[CancellationToken], object] | None = None


_listener = _Listener()


def announce(token: CancellationToken) -> None:
    """Tell the run that asks in this thread, if there is one, that ``token`` cancels it."""
    hear = _listener.hear
    if hear is not None:
        hear(token)


def listening(
    ask: Callable[[], float | Stop], hear: Callable[[CancellationToken], object]
) -> float | Stop:
    """Return ``ask()``; ``hear(token)`` is called for each token announced meanwhile."""
    outer = _listener.hear
    _listener.hear = hear
    try:
        return ask()
    finally:
        _listener.hear = outer
