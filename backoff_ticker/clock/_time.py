"""Functions of the module ``time`` that nobody has replaced.

Libraries for tests, such as freezegun, put others in place, in the module and wherever it was
imported, and this package may be imported only afterwards. A wait must not depend on those. So the
functions are taken from a second instance of the module.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_spec: Any = time.__spec__
_own = _spec.loader.create_module(_spec)
_spec.loader.exec_module(_own)

if TYPE_CHECKING:
    _own = time

monotonic = _own.monotonic
wall_time = _own.time
