"""Threads that a virtual clock does not know."""

import _thread
import sys
import threading

import pytest

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what threads do")


class RealThread:
    def __init__(self, function):
        self._ended = threading.Event()
        self._function = function
        _thread.start_new_thread(self._run, ())

    def _run(self):
        try:
            self._function()
        finally:
            self._ended.set()

    def join(self, timeout):
        assert self._ended.wait(timeout), "a real thread has not ended"


def in_real_thread(function):
    """Start a function in a thread beneath the notice of ``threading``."""
    return RealThread(function)
