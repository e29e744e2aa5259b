"""Truncated exponential back-off as Cloud Storage recommends it."""

from __future__ import annotations

from .._random import as_rng, draw_from
from .._validation import as_factor, as_seconds
from ._base import Policy, geometric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random
    from typing import ClassVar

    from ._base import Bounds


class TruncatedExponentialBackOff(Policy):
    """Wait 1 s, 2 s, 4 s, ... and a little random time, together never more than a maximum.

    Call number ``n`` (from 0) returns ``min(plain + random, maximum_backoff)``, where ``plain`` is
    ``initial_backoff * multiplier**n``, in the source ``2**n``, and ``random`` is drawn uniformly
    from 0 to ``max_jitter``. The random part is added before the cap, so once ``plain`` has
    reached the cap every delay is exactly ``maximum_backoff``. It never stops: put
    ``with_max_retries`` or ``with_max_elapsed_time`` around it.

    Source: "Exponential backoff" in the documentation of Google Cloud Storage, which calls 32 or
    64 s typical maxima and draws up to 1,000 ms.

    Args:
        maximum_backoff: The greatest delay: seconds >= 0, or a ``datetime.timedelta``.
        max_jitter: The greatest random part, seconds >= 0; 0 draws nothing.
        rng: A ``random.Random`` to draw from; copies share it. None: a generator of the package's
            own, which no seed fixes and a forked child seeds anew.
        initial_backoff: The first delay before the random part is added, seconds >= 0.
        multiplier: >= 1.

    Attributes:
        retries: Delays returned since ``reset()``.

    Raises:
        TypeError, ValueError: A parameter is no finite number in its range.

    Not to be called by several threads at once; whoever runs a policy runs a copy of its own.
    """

    __slots__ = (
        "_rng",
        "initial_backoff",
        "max_jitter",
        "maximum_backoff",
        "multiplier",
        "retries",
    )

    _shown: ClassVar[tuple[str, ...]] = ("maximum_backoff", "max_jitter")
    _shown_unless: ClassVar[dict[str, object]] = {"initial_backoff": 1.0, "multiplier": 2.0}

    def __init__(
        self,
        maximum_backoff: float | timedelta = 64.0,
        max_jitter: float | timedelta = 1.0,
        rng: Random | None = None,
        *,
        initial_backoff: float | timedelta = 1.0,
        multiplier: float = 2.0,
    ) -> None:
        self.maximum_backoff: float = as_seconds("maximum_backoff", maximum_backoff)
        self.max_jitter: float = as_seconds("max_jitter", max_jitter)
        self.initial_backoff: float = as_seconds("initial_backoff", initial_backoff)
        self.multiplier: float = as_factor("multiplier", multiplier, 1)
        self.retries: int = 0
        self._rng = as_rng("rng", rng)

    def next_backoff(self) -> float:
        """Return the next delay in seconds."""
        plain = self._plain(self.retries)
        self.retries += 1
        random = self.max_jitter * draw_from(self._rng) if self.max_jitter else 0.0
        return min(plain + random, self.maximum_backoff)

    def reset(self) -> None:
        """Begin anew with the first delay."""
        self.retries = 0

    def _plain(self, retries: int) -> float:
        return geometric(self.initial_backoff, self.multiplier, retries)

    def _at(self, n: int) -> Bounds:
        plain = self._plain(n - 1)
        most = self.maximum_backoff
        return min(plain, most), min(plain + self.max_jitter, most)
