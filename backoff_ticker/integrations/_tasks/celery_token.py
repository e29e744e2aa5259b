"""A token that is cancelled when a Celery worker shuts down."""

from __future__ import annotations

import os
import threading

from ... import CancellationToken, configure
from .._shared import imports_of_extra

with imports_of_extra("celery"):
    from celery.signals import worker_init, worker_process_init, worker_shutting_down

_token = CancellationToken()
_main_process: list[int] = []
_ends: list[int] = []
"""The ends of a pipe. The main process closes its end, to tell the others."""


def shutdown_token() -> CancellationToken:
    """Return the token of this worker, which is cancelled when the worker is told to stop.

    Every call returns the same one. Call it where the tasks are defined, as the first call connects
    it with Celery's signals. In workers, it is then the default token of all retries:
    ``configure(token=shutdown_token())``. It is cancelled as soon as the warm, soft or cold
    shutdown begins, in the main process and in those of the pool ``prefork``; the cause is the name
    of the signal, such as ``"SIGTERM"``, or a text. In other programs nothing cancels it.

    Thread safety: any thread.
    """
    worker_init.connect(_start, weak=False)  # a second time it has no effect
    worker_shutting_down.connect(_stop, weak=False)
    worker_process_init.connect(_listen, weak=False)
    return _token


def _start(**_: object) -> None:
    _main_process[:] = [os.getpid()]
    _ends[:] = os.pipe()
    configure(token=_token)


def _stop(sig: str, **_: object) -> None:
    _token.cancel(sig)
    if len(_ends) > 1:
        os.close(_ends.pop())


def _listen(**_: object) -> None:
    # A process of the pool; one that begins during the shutdown has a cancelled token.
    if len(_ends) > 1 and os.getpid() not in _main_process:
        os.close(_ends.pop())
        threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    os.read(_ends[0], 1)
    _token.cancel("the worker shuts down")
