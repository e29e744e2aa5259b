"""Feedback policies whose delay follows from the number of failures in a row."""

from __future__ import annotations

from .._validation import LARGEST, as_factor, as_seconds
from ._algorithm import AlgorithmBackOff
from ._base import either, geometric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import ClassVar, Unpack

    from ._algorithm import AlgorithmOptions
    from ._base import Bounds


class _Fixed(AlgorithmBackOff):
    """The delay after a success is always the same."""

    __slots__ = ("delay_on_success",)

    def __init__(self, delay_on_success: float | timedelta, options: AlgorithmOptions) -> None:
        self.delay_on_success: float = as_seconds("delay_on_success", delay_on_success)
        super().__init__(**options)

    def _raw(self, n: int) -> float:
        """Return the raw delay after the ``n``-th failure in a row."""
        raise NotImplementedError

    def _on_failure(self) -> float:
        return self._raw(self.attempts)

    def _on_success(self) -> float:
        return self.delay_on_success

    def _raw_bounds(self, n: int, last: Bounds | None) -> Bounds:  # noqa: ARG002 - see _adaptive
        raw = self._raw(n)
        return raw, raw


class ConstantFeedbackBackOff(_Fixed):
    """Wait the same time after each failure, another time after a success.

    Source: ``Algorithm::Backoff::Constant`` of Perl.

    Args:
        delay: After a failure: seconds >= 0, or a ``datetime.timedelta``.
        delay_on_success: After a success, seconds >= 0.
        options: See ``AlgorithmBackOff``.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.
    """

    __slots__ = ("delay",)

    _shown: ClassVar[tuple[str, ...]] = ("delay", "delay_on_success")

    def __init__(
        self,
        delay: float | timedelta,
        delay_on_success: float | timedelta = 0.0,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.delay: float = as_seconds("delay", delay)
        super().__init__(delay_on_success, options)

    def _raw(self, n: int) -> float:  # noqa: ARG002 - each failure is like the others
        return self.delay

    def _growth(self) -> Bounds:
        return 0.0, self.delay


class ExponentialFeedbackBackOff(_Fixed):
    """Wait longer by a factor after each failure, another time after a success.

    The raw delay is ``initial_delay * exponent_base ** (attempts - 1)``, so a cap does not slow
    its growth; a success restarts it.

    Source: ``Algorithm::Backoff::Exponential`` of Perl.

    Args:
        initial_delay: After the first failure: seconds >= 0, or a ``datetime.timedelta``.
        exponent_base: The factor, >= 0.
        delay_on_success: After a success, seconds >= 0.
        options: See ``AlgorithmBackOff``.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.
    """

    __slots__ = ("exponent_base", "initial_delay")

    _shown: ClassVar[tuple[str, ...]] = ("initial_delay", "exponent_base", "delay_on_success")

    def __init__(
        self,
        initial_delay: float | timedelta,
        exponent_base: float = 2.0,
        delay_on_success: float | timedelta = 0.0,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay: float = as_seconds("initial_delay", initial_delay)
        self.exponent_base: float = as_factor("exponent_base", exponent_base, 0)
        super().__init__(delay_on_success, options)

    def _raw(self, n: int) -> float:
        return geometric(self.initial_delay, self.exponent_base, n - 1)


class FibonacciBackOff(_Fixed):
    """Wait after each failure as long as after the two before together.

    The raw delays are ``initial_delay1``, ``initial_delay2`` and then sums of the last two, to
    which limits and jitter do nothing; a success restarts them.

    Source: ``Algorithm::Backoff::Fibonacci`` of Perl.

    Args:
        initial_delay1: After the first failure: seconds >= 0, or a ``datetime.timedelta``.
        initial_delay2: After the second failure, seconds >= 0.
        delay_on_success: After a success, seconds >= 0.
        options: See ``AlgorithmBackOff``.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.
    """

    __slots__ = ("initial_delay1", "initial_delay2")

    _shown: ClassVar[tuple[str, ...]] = ("initial_delay1", "initial_delay2", "delay_on_success")

    def __init__(
        self,
        initial_delay1: float | timedelta,
        initial_delay2: float | timedelta,
        delay_on_success: float | timedelta = 0.0,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay1: float = as_seconds("initial_delay1", initial_delay1)
        self.initial_delay2: float = as_seconds("initial_delay2", initial_delay2)
        super().__init__(delay_on_success, options)

    def _span(self, first: int, last: int) -> Bounds | None:
        if first > 1 or last == 1:
            return super()._span(first, last)
        return either(self._at(1), super()._span(2, last))  # the second can be the least of all

    def _raw(self, n: int) -> float:
        if n == 1:
            return self.initial_delay1
        if self.initial_delay1 == self.initial_delay2 == 0.0:
            return 0.0
        if n >= len(_FIBONACCI):
            return LARGEST
        first, second = _FIBONACCI[n - 2], _FIBONACCI[n - 1]
        return min(self.initial_delay1 * first + self.initial_delay2 * second, LARGEST)


def _fibonacci() -> list[float]:
    """Return the Fibonacci numbers 0, 1, 1, 2, ... that a float can hold."""
    numbers = [0.0, 1.0]
    while numbers[-1] + numbers[-2] <= LARGEST:
        numbers.append(numbers[-1] + numbers[-2])
    return numbers


_FIBONACCI = _fibonacci()
