"""A signal handler at the n-th place where CPython may run one; a trace function finds the places.

CPython runs handlers when a function is entered, after a call into C that raised nothing, and at a
jump back; nowhere else, not even between the return of a Python function and its caller.
"""

import contextvars
import dis
import gc
import sys
import weakref
from pathlib import Path

import backoff_ticker
from tests import effort
from tests.effort import has_lock

PACKAGE = str(Path(backoff_ticker.__file__).parent)
_CALLS = frozenset(["CALL", "CALL_FUNCTION_EX", "CALL_KW"])
_RESUMED_BY_AWAIT = 2

_codes = {}


def _instruction(frame):
    code = frame.f_code
    if code not in _codes:
        _codes[code] = {i.offset: i for i in dis.get_instructions(code)}
    return _codes[code][frame.f_lasti]


class Interrupted(BaseException):
    pass


def is_finalizer(frame):
    """Whether Python swallows what is raised in this call, such as for an earlier test's garbage.

    It is of a finalizer, of a callback of the collector, or of one of a weak reference, which is
    told a dead one.
    """
    code = frame.f_code
    arguments = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    return (
        code.co_name == "__del__"
        or any(isinstance(value, weakref.ref) and value() is None for value in arguments)
        or code in [getattr(callback, "__code__", None) for callback in gc.callbacks]
    )


def is_in_finalizer(frame):
    """Whether this call, or one that leads to it, is of a finalizer."""
    while frame is not None and not is_finalizer(frame):
        frame = frame.f_back
    return frame is not None


_watching = []


def _called(frame, event, arg):
    return _watching[0]._called(frame, event, arg) if _watching else None


class InterruptAt:
    """Calls ``handler`` once, at the n-th place in the package; by default that raises.

    Functions named in ``but`` are left out, with all that they call.
    """

    def __init__(self, place, handler=None, but=()):
        self.left = place
        self.where = None
        self.handler = handler
        self._but = but
        self._before = {}
        self._at = {}

    def __enter__(self):
        if sys.gettrace() is None:  # an exception out of it ends the tracing
            sys._getframe().f_trace_opcodes = True  # 3.12: needed before the tracing begins
            sys.settrace(_called)
        _watching.append(self)
        return self

    def __exit__(self, *_):
        _watching.clear()

    def forget(self):
        """Forget the frames that the interrupt has left, and so what they refer to."""
        self._before.clear()
        self._at.clear()

    def _called(self, frame, event, arg):
        caller, code = frame.f_back, frame.f_code
        if caller in self._before and (
            # A class is called through C, so there is a place after it; not so after super().
            code.co_name != "__init__" or caller.f_code.co_name == "__init__"
        ):
            self._before[caller] = "python"
        if not code.co_filename.startswith(PACKAGE) or self._is_left_out(frame):
            return None
        frame.f_trace = self._step  # 3.13: needed before opcodes are traced
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        resumed = _instruction(frame).arg or 0
        self._before[frame] = "await" if resumed >= _RESUMED_BY_AWAIT else "CALL"
        return self._step

    def _is_left_out(self, frame):
        while frame not in self._before and frame.f_code.co_filename.startswith(PACKAGE):
            if frame.f_code.co_name in self._but or is_finalizer(frame):
                return True
            frame = frame.f_back
        return False

    def _step(self, frame, event, arg):
        if event == "return":
            self._before.pop(frame, None)
            self._at.pop(frame, None)
        elif event == "exception":
            self._before[frame] = event
        elif event == "opcode":
            before, at = self._before.get(frame, ""), self._at.get(frame, -1)
            now = _instruction(frame)
            self._before[frame] = now.opname
            self._at[frame] = frame.f_lasti
            if before in _CALLS:
                # The call of a coroutine function makes a coroutine, and enters nothing. In Python
                # 3.15, `yield from` is a GET_ITER with an argument.
                awaits = now.opname in ("GET_AWAITABLE", "GET_YIELD_FROM_ITER")
                if not awaits and (now.opname != "GET_ITER" or not now.arg):
                    self._pass(frame)
            elif frame.f_lasti <= at and "JUMP_BACKWARD" in before and "NO_INT" not in before:
                self._pass(frame)
        return self._step

    def _pass(self, frame):
        self.left -= 1
        if self.left == 0:
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
            if self.handler is None:
                raise Interrupted
            self.handler()


def each_place(run, handler=None, but=(), *, all_of_them=False):
    """Run with an interrupt at the first place, at the second, until there is none.

    Without ``--all``, or ``all_of_them``, only some of the places are tried; fewer without the
    interpreter's lock, where each step of a trace function stops all threads.
    """
    effort.leave_the_tracer()
    step = 1 if all_of_them else effort.rounds(11 if has_lock() else 31, 1)
    place = 1 - step
    try:
        while True:
            place += step
            interrupt = InterruptAt(place, handler, but)
            contextvars.copy_context().run(run, interrupt)  # it may leave an attempt there
            if interrupt.where is None:
                return place - 1
    finally:
        sys.settrace(None)


def check_each_place(run, handler=None, *, at_least=1, **options):
    """Run as ``each_place()`` does, at so many places at least; ``run()`` tells what is wrong."""
    wrong = []

    def collect(interrupt):
        wrong.extend((interrupt.where, each) for each in run(interrupt))

    assert each_place(collect, handler, **options) >= at_least
    assert wrong == []
