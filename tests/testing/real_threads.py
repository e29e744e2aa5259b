"""Threads that a virtual clock does not know."""

import _thread
import sys
import threading

import pytest

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what threads do")


class RealThread:
    """Runs a function in a thread beneath the notice of ``threading``."""

    def __init__(self, function):
        self._ended = threading.Event()
        self._function = function
        self._error = None
        _thread.start_new_thread(self._run, ())

    def _run(self):
        try:
            self._function()
        except BaseException as error:
            self._error = error
        self._ended.set()

    def join(self, timeout):
        """Wait for its end, and raise what it has raised."""
        assert self._ended.wait(timeout), "a real thread has not ended"
        if self._error is not None:
            raise self._error
