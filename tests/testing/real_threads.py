"""Threads that a virtual clock does not know."""

from __future__ import annotations

import _thread
import sys
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what threads do")


class RealThread:
    def __init__(self, function: Callable[[], object]) -> None:
        self._ended = threading.Event()
        self._function = function
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self._function()
        finally:
            self._ended.set()

    def join(self, timeout: float) -> None:
        assert self._ended.wait(timeout), "a real thread has not ended"


def in_real_thread(function: Callable[[], object]) -> RealThread:
    """Start a function in a thread beneath the notice of ``threading``."""
    return RealThread(function)
