"""Two threads, the second one at each instruction of the first in turn.

Without the interpreter's lock another thread may come between any two instructions. Here it does,
at the same place in each run: the first function runs up to an instruction, then the second one
runs in a thread of its own until it has returned, or waits for the first.
"""

import _thread
import sys
import threading
from functools import partial

from backoff_ticker.clock import let_other_threads_run
from backoff_ticker.waiting import _claim

from . import effort
from .helpers import PATIENCE
from .stress.places import PACKAGE


class _Second:
    """A function in a thread that no clock tracks."""

    def __init__(self, function, patch):
        self._function = function
        self._returned = threading.Event()
        self._returned_or_waits = threading.Event()
        self._ident = None
        self._outcome = None
        patch.setattr(_claim, "let_other_threads_run", self._wait)

    def _wait(self, seconds=0):
        if threading.get_ident() == self._ident:
            self._returned_or_waits.set()
        let_other_threads_run(seconds)

    def run(self):
        """Let it run until it has returned, or waits for this thread."""
        _thread.start_new_thread(self._run, ())
        assert self._returned_or_waits.wait(PATIENCE)

    def _run(self):
        self._ident = threading.get_ident()
        try:
            self._outcome = self._function()
        except BaseException as error:
            self._outcome = error
        self._returned.set()
        self._returned_or_waits.set()

    def outcome(self):
        """Return what it returned or raised."""
        assert self._returned.wait(PATIENCE)
        return self._outcome


class _Interruption:
    """Calls ``action`` once, before the n-th instruction of this package in this thread."""

    def __init__(self, number, action):
        self.left = number
        self._action = action

    def __enter__(self):
        sys._getframe().f_trace_opcodes = True  # 3.12: needed before the tracing begins
        sys.settrace(self._called)

    def __exit__(self, *_):
        sys.settrace(None)

    def _called(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace = self._step  # 3.13: needed before opcodes are traced
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame, event, arg):
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                self._action()
        return self._step


def each_interleaving(begin, monkeypatch):
    """Run pairs of functions, and yield what the first and the second one returned.

    Without ``--all`` only some of the instructions are tried.

    Args:
        begin: Returns the next pair. The second one runs before the first instruction of the first
            one, then before its second instruction, and so on.
        monkeypatch: Tells when the second one waits.
    """
    effort.leave_the_tracer()
    step = effort.rounds(2, 1)
    number, left = 1 - step, 0
    while left <= 0:
        number += step
        first, function = begin()
        with monkeypatch.context() as patch:
            second = _Second(function, patch)
            interruption = _Interruption(number, second.run)
            with interruption:
                outcome = first()
            left = interruption.left
            if left > 0:
                second.run()  # after the first
            yield outcome, second.outcome()


def each_meeting(make, acts, monkeypatch):
    """Run a pair of functions of one scene, each time of a new one; yield it and the outcomes."""
    scenes = []

    def begin():
        scenes[:] = [scene := make()]
        return [partial(act, scene) for act in acts]

    for outcomes in each_interleaving(begin, monkeypatch):
        yield scenes[0], outcomes
