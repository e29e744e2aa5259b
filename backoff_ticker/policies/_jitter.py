"""Wrappers that add a random part to the delays of any policy."""

from __future__ import annotations

from .._random import as_rng, draw_from
from .._validation import LARGEST, as_fraction, as_seconds, safe_repr, whole_repr
from ._wrapper import BackOffWrapper, overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from random import Random
    from typing import Literal

    from ._base import Bounds
    from ._protocol import BackOff, FeedbackBackOff
    from ._wrapper import FeedbackWrapper

    JitterKind = Literal["full", "equal"] | float

_KINDS = {"full": (0.0, 1.0), "equal": (0.5, 1.0)}
"""By name: the least and the greatest multiple of a delay that can be drawn."""


class _Jitter(BackOffWrapper):
    """What ``with_jitter()`` and ``with_added_jitter()`` return: delays with a random part."""

    __slots__ = ("_greatest", "_least", "_rng", "jitter", "max_jitter")

    def __init__(
        self,
        backoff: BackOff,
        jitter: JitterKind | None,
        max_jitter: float | timedelta,
        rng: Random | None,
    ) -> None:
        super().__init__(backoff)
        self.jitter: JitterKind | None = jitter
        self.max_jitter: float = as_seconds("max_jitter", max_jitter)
        self._rng = as_rng("rng", rng)
        if isinstance(self.jitter, str):
            self._least, self._greatest = _KINDS[self.jitter]
        else:
            fraction = self.jitter or 0.0
            self._least, self._greatest = 1.0 - fraction, 1.0 + fraction

    def _range(self, delay: float) -> Bounds:
        return delay * self._least, min(delay * self._greatest + self.max_jitter, LARGEST)

    def transform(self, delay: float) -> float:
        least, greatest = self._range(delay)
        if least == greatest:
            return least
        return min(least + (greatest - least) * draw_from(self._rng), greatest)

    def __repr__(self) -> str:
        if self.jitter is None:
            return f"with_added_jitter({whole_repr(self.backoff)}, {self.max_jitter!r})"
        return f"with_jitter({whole_repr(self.backoff)}, {self.jitter!r})"


def _as_jitter(jitter: JitterKind | None) -> JitterKind:
    if isinstance(jitter, str) and jitter in _KINDS:
        return jitter
    if jitter is None or isinstance(jitter, str):
        expected = '"full" or "equal", or a fraction'
        kind = TypeError if jitter is None else ValueError
        raise kind(f"jitter must be {expected}, not {safe_repr(jitter)}")
    return as_fraction("jitter", jitter)


@overload
def with_jitter(
    backoff: FeedbackBackOff, jitter: JitterKind = "full", rng: Random | None = None
) -> FeedbackWrapper: ...
@overload
def with_jitter(
    backoff: BackOff, jitter: JitterKind = "full", rng: Random | None = None
) -> BackOffWrapper: ...
def with_jitter(
    backoff: BackOff, jitter: JitterKind = "full", rng: Random | None = None
) -> BackOffWrapper:
    """Return a policy that draws each delay at random, from a range that ``backoff`` sets.

    It is meant for policies without jitter of their own. Put limits such as ``with_max_interval``
    around the result; a limit inside does not see the random part.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, for ``"full"`` and
    ``"equal"``; the ``RandomizationFactor`` of cenkalti/backoff v4 for a number.

    Args:
        backoff: The policy.
        jitter: ``"full"`` draws from 0 to the delay, ``"equal"`` from half of the delay to the
            delay. A number f, 0 <= f < 1, draws from ``delay * (1 - f)`` to ``delay * (1 + f)``;
            with 0 nothing is drawn.
        rng: As in ``ExponentialBackOff``.

    Example:
        >>> from backoff_ticker import ConstantBackOff, with_jitter
        >>> with_jitter(ConstantBackOff(8), "equal").bounds(1)
        (4.0, 8.0)
    """
    return _Jitter(backoff, _as_jitter(jitter), 0.0, rng)


@overload
def with_added_jitter(
    backoff: FeedbackBackOff, max_jitter: float | timedelta, rng: Random | None = None
) -> FeedbackWrapper: ...
@overload
def with_added_jitter(
    backoff: BackOff, max_jitter: float | timedelta, rng: Random | None = None
) -> BackOffWrapper: ...
def with_added_jitter(
    backoff: BackOff, max_jitter: float | timedelta, rng: Random | None = None
) -> BackOffWrapper:
    """Return a policy that adds a random time to each delay of ``backoff``.

    No delay becomes shorter, so it suits a wait that a server asked for. To limit the sum, put
    ``with_max_interval`` around the result.

    Source: "Exponential backoff" in the documentation of Google Cloud Storage, for any policy.

    Args:
        backoff: The policy.
        max_jitter: The greatest time to add: seconds >= 0 or a timedelta. With 0 nothing is drawn.
        rng: As in ``ExponentialBackOff``.

    Example:
        >>> from backoff_ticker import ConstantBackOff, with_added_jitter
        >>> with_added_jitter(ConstantBackOff(8), 2).bounds(1)
        (8.0, 10.0)
    """
    return _Jitter(backoff, None, max_jitter, rng)
