"""A token that is cancelled when a Celery worker shuts down."""

from __future__ import annotations

import os
import threading

from ..cancellation import CancellationToken
from ..retries import set_default_token
from ._extras import imports_of_extra

with imports_of_extra("celery"):
    from celery.signals import worker_init, worker_process_init, worker_shutting_down


def shutdown_token() -> CancellationToken:
    """Return the token of this worker, which is cancelled when the worker is told to stop.

    Every call returns the same one. Call it where the tasks are defined, as the first call connects
    it with Celery's signals. In workers, it is then the default token of all retries:
    ``set_default_token(shutdown_token())``. It is cancelled as soon as the warm, soft or cold
    shutdown begins, in the main process and in those of the pool ``prefork``; the cause is the name
    of the signal, such as ``"SIGTERM"``, or a text. In other programs nothing cancels it.

    Thread safety: any thread.

    Example:
        >>> from backoff_ticker.integrations.celery import shutdown_token
        >>> shutdown_token().cancelled
        False
    """
    token = _tokens.get(0)
    if token is None:
        made = CancellationToken()
        token = _tokens.setdefault(0, made)
        if token is made:  # and no other thread has been faster
            _connect(token)
    return token


_tokens: dict[int, CancellationToken] = {}
"""Under 0 the token, once it is made."""


def _connect(token: CancellationToken) -> None:
    main_process: list[int] = []
    ends: list[int] = []  # of a pipe: its end in the main process is closed to tell the others

    def start(**_: object) -> None:
        main_process[:] = [os.getpid()]
        ends[:] = os.pipe()
        set_default_token(token)

    def stop(sig: str, **_: object) -> None:
        token.cancel(sig)
        if len(ends) > 1:
            os.close(ends.pop())

    def listen(**_: object) -> None:
        # A process of the pool; one that begins during the shutdown has a cancelled token.
        if len(ends) > 1 and os.getpid() not in main_process:
            os.close(ends.pop())
            threading.Thread(target=wait, daemon=True).start()

    def wait() -> None:
        os.read(ends[0], 1)
        token.cancel("the worker shuts down")

    worker_init.connect(start, weak=False)
    worker_shutting_down.connect(stop, weak=False)
    worker_process_init.connect(listen, weak=False)
