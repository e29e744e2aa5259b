"""The original functions of the module ``time``, even if a test has replaced them.

Test libraries such as freezegun replace them in the module and wherever it was imported, perhaps
before this package is imported. A wait must not depend on the replacements. So the functions are
taken from a second instance of the module.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    _own = time
else:
    _own = time.__spec__.loader.create_module(time.__spec__)
    time.__spec__.loader.exec_module(_own)

monotonic = _own.monotonic
wall_time = _own.time

_NEAR = 1e6
"""Seconds below which a float is precise enough for ``later()`` to round by a product, which takes
a third of the time; sums of whole nanoseconds are exact either way."""


def later(now: float, seconds: float) -> float:
    """Return when a duration that begins now is over, to the nanosecond.

    A sum of floats may be a fraction of a nanosecond later than what a clock ever shows at that
    time; whoever waits for it would wait a nanosecond more.
    """
    end = now + seconds
    rounded = round(end * 1e9) / 1e9 if -_NEAR < end < _NEAR else round(end, 9)
    return rounded if rounded > now or end <= now else round(now + 1e-9, 9)


def let_other_threads_run(seconds: float = 0) -> None:
    """Give up the processor, and the interpreter's lock if there is one, for a moment."""
    _own.sleep(seconds)
