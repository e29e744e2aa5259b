"""Hooks for the configuration of gunicorn: a token that is cancelled when a worker shuts down.

For the worker classes ``sync`` and ``gthread``. In ``gunicorn.conf.py`` this line is enough:

    from backoff_ticker.integrations.gunicorn import post_worker_init, worker_exit, worker_int

If you have hooks of these names, let them call the hooks of this module.
"""

from __future__ import annotations

import os
import signal
import threading

from .. import CancellationToken, cancel_on_signals, configure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["post_worker_init", "shutdown_token", "worker_exit", "worker_int"]

_token = CancellationToken()  # each worker has its own copy after the fork


def shutdown_token() -> CancellationToken:
    """Return the token of this worker; every call returns the same one.

    It is cancelled as soon as SIGTERM, SIGINT or SIGQUIT comes. A worker that ends for another
    reason, such as ``max_requests``, lets its requests go on for half of ``graceful_timeout``, and
    cancels it then, or as it exits. The causes are texts, such as ``"SIGTERM"``.

    Example:
        >>> from backoff_ticker.integrations.gunicorn import shutdown_token
        >>> shutdown_token().cancelled
        False

    Thread safety: any thread.
    """
    return _token


def post_worker_init(worker: Any) -> None:
    """Make the token ready in a worker.

    SIGTERM cancels it from now on, before gunicorn's own handler runs, and it is the default token
    of all retries of the process: ``configure(token=shutdown_token())``.
    """
    block = cancel_on_signals(signal.SIGTERM, token=_token, chain=True)
    block.__enter__()  # it ends with the process
    configure(token=_token)
    threading.Thread(target=_watch, args=(worker, _token), daemon=True).start()


def _watch(worker: Any, token: CancellationToken) -> None:
    """Cancel the token before gunicorn, which calls no hook there, ends requests that wait."""
    while worker.alive and not token.wait(0.5):
        pass
    token.wait(worker.cfg.graceful_timeout / 2)
    token.cancel("the worker ends")


def worker_int(worker: Any) -> None:  # noqa: ARG001 - gunicorn has no types
    """Cancel the token: the worker got SIGINT or SIGQUIT.

    gunicorn ends the worker 0.1 s later: threads may still answer, a ``sync`` worker is broken off.
    """
    _token.cancel("SIGINT or SIGQUIT")


def worker_exit(server: Any, worker: Any) -> None:  # noqa: ARG001 - gunicorn has no types
    """Cancel the token: the worker ends.

    gunicorn also calls this hook in its main process, for a worker that it finds dead. The token
    stays as it is there, as later workers begin with a copy of it.
    """
    if worker.pid == os.getpid():
        _token.cancel("the worker exits")
