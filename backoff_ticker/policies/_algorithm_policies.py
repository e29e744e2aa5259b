"""The seven policies of Perl's Algorithm::Backoff: the parameters and the rule of each."""

from __future__ import annotations

from .._validation import LARGEST, as_difference, as_factor, as_seconds
from ._algorithm import AlgorithmBackOff
from ._base import geometric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Unpack

    from ._algorithm import AlgorithmOptions, Rule


# The delay follows from the number of failures in a row, and is constant after a success


class ConstantFeedbackBackOff(AlgorithmBackOff):
    """Waits the same time after each failure, and another time after a success.

    Source: ``Algorithm::Backoff::Constant`` of Perl.

    Args:
        delay: The delay after a failure: seconds >= 0 or a timedelta.
        delay_on_success: The delay after a success: seconds >= 0 or a timedelta.
        options: Those of ``AlgorithmBackOff``.

    Example:
        >>> from backoff_ticker import ConstantFeedbackBackOff
        >>> policy = ConstantFeedbackBackOff(5, delay_on_success=1)
        >>> [policy.failure(), policy.failure(), policy.success()]
        [5.0, 5.0, 1.0]
    """

    __slots__ = ("delay", "delay_on_success")

    def __init__(
        self,
        delay: float | timedelta,
        delay_on_success: float | timedelta = 0.0,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.delay: float = as_seconds("delay", delay)
        self.delay_on_success: float = as_seconds("delay_on_success", delay_on_success)
        super().__init__(**options)

    def _rule(self, attempts: int) -> Rule:
        return None, 0.0, self.delay if attempts else self.delay_on_success


class ExponentialFeedbackBackOff(AlgorithmBackOff):
    """Multiplies the delay by a factor after each failure; waits another time after a success.

    The raw delay is ``initial_delay * exponent_base ** (attempts - 1)``. It grows on even while
    ``max_delay`` caps the delay. A success starts it again.

    Source: ``Algorithm::Backoff::Exponential`` of Perl.

    Args:
        initial_delay: The delay after the first failure: seconds >= 0 or a timedelta.
        exponent_base: The factor: a number >= 0.
        delay_on_success: The delay after a success: seconds >= 0 or a timedelta.
        options: Those of ``AlgorithmBackOff``.

    Example:
        >>> from backoff_ticker import ExponentialFeedbackBackOff
        >>> policy = ExponentialFeedbackBackOff(5, delay_on_success=1)
        >>> [policy.failure(), policy.failure(), policy.success(), policy.failure()]
        [5.0, 10.0, 1.0, 5.0]
    """

    __slots__ = ("delay_on_success", "exponent_base", "initial_delay")

    def __init__(
        self,
        initial_delay: float | timedelta,
        exponent_base: float = 2.0,
        delay_on_success: float | timedelta = 0.0,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay: float = as_seconds("initial_delay", initial_delay)
        self.exponent_base: float = as_factor("exponent_base", exponent_base, 0)
        self.delay_on_success: float = as_seconds("delay_on_success", delay_on_success)
        super().__init__(**options)

    def _rule(self, attempts: int) -> Rule:
        if not attempts:
            return None, 0.0, self.delay_on_success
        return None, 0.0, geometric(self.initial_delay, self.exponent_base, attempts - 1)


class FibonacciBackOff(AlgorithmBackOff):
    """Waits the sum of the two previous delays after each failure; another time after a success.

    The raw delays are ``initial_delay1``, ``initial_delay2``, and from then on the sum of the two
    previous raw delays, without jitter and limits. A success starts them again.

    Source: ``Algorithm::Backoff::Fibonacci`` of Perl.

    Args:
        initial_delay1: The delay after the first failure: seconds >= 0 or a timedelta.
        initial_delay2: The delay after the second failure: seconds >= 0 or a timedelta.
        delay_on_success: The delay after a success: seconds >= 0 or a timedelta.
        options: Those of ``AlgorithmBackOff``.

    Example:
        >>> from backoff_ticker import FibonacciBackOff
        >>> policy = FibonacciBackOff(2, 3)
        >>> [policy.failure() for _ in range(6)]
        [2.0, 3.0, 5.0, 8.0, 13.0, 21.0]
    """

    __slots__ = ("delay_on_success", "initial_delay1", "initial_delay2")

    def __init__(
        self,
        initial_delay1: float | timedelta,
        initial_delay2: float | timedelta,
        delay_on_success: float | timedelta = 0.0,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay1: float = as_seconds("initial_delay1", initial_delay1)
        self.initial_delay2: float = as_seconds("initial_delay2", initial_delay2)
        self.delay_on_success: float = as_seconds("delay_on_success", delay_on_success)
        super().__init__(**options)

    def _rule(self, attempts: int) -> Rule:
        return None, 0.0, self._nth(attempts) if attempts else self.delay_on_success

    def _nth(self, n: int) -> float:
        if n == 1:
            return self.initial_delay1
        if self.initial_delay1 == self.initial_delay2 == 0.0:
            return 0.0
        if n >= len(_FIBONACCI):
            return LARGEST
        first, second = _FIBONACCI[n - 2], _FIBONACCI[n - 1]
        return min(self.initial_delay1 * first + self.initial_delay2 * second, LARGEST)


_FIBONACCI = [0.0, 1.0]  # and so on, up to the largest float
while _FIBONACCI[-1] + _FIBONACCI[-2] <= LARGEST:
    _FIBONACCI.append(_FIBONACCI[-1] + _FIBONACCI[-2])


# The delay follows from the previous one; the first is the initial one, also after a success


class LILDBackOff(AlgorithmBackOff):
    """Adds seconds to the delay after each failure, and subtracts seconds after each success.

    Linear increment, linear decrement. Any first delay is the initial one.

    Source: ``Algorithm::Backoff::LILD`` of Perl.

    Args:
        initial_delay: The first delay: seconds >= 0 or a timedelta.
        delay_increment_on_failure: Added after a failure: seconds or a timedelta, of either sign.
        delay_increment_on_success: Added after a success: seconds or a timedelta, usually negative.
        options: Those of ``AlgorithmBackOff``.

    Example:
        >>> from backoff_ticker import LILDBackOff
        >>> policy = LILDBackOff(2, 4, -3)
        >>> [policy.failure(), policy.failure(), policy.success()]
        [2.0, 6.0, 3.0]
    """

    __slots__ = ("delay_increment_on_failure", "delay_increment_on_success", "initial_delay")

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_increment_on_failure: float | timedelta,
        delay_increment_on_success: float | timedelta,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay: float = as_seconds("initial_delay", initial_delay)
        self.delay_increment_on_failure: float = as_difference(
            "delay_increment_on_failure", delay_increment_on_failure
        )
        self.delay_increment_on_success: float = as_difference(
            "delay_increment_on_success", delay_increment_on_success
        )
        super().__init__(**options)

    def _rule(self, attempts: int) -> Rule:
        if attempts:
            return self.initial_delay, 1.0, self.delay_increment_on_failure
        return self.initial_delay, 1.0, self.delay_increment_on_success


class LIMDBackOff(AlgorithmBackOff):
    """Adds seconds to the delay after each failure, and divides it after each success.

    Linear increment, multiplicative decrement. Any first delay is the initial one.

    Source: ``Algorithm::Backoff::LIMD`` of Perl.

    Args:
        initial_delay: The first delay: seconds >= 0 or a timedelta.
        delay_increment_on_failure: Added after a failure: seconds or a timedelta, of either sign.
        delay_multiple_on_success: The factor after a success: a number >= 0, usually below 1.
        options: Those of ``AlgorithmBackOff``.

    Example:
        >>> from backoff_ticker import LIMDBackOff
        >>> policy = LIMDBackOff(2, 4, 0.5)
        >>> [policy.failure(), policy.failure(), policy.success()]
        [2.0, 6.0, 3.0]
    """

    __slots__ = ("delay_increment_on_failure", "delay_multiple_on_success", "initial_delay")

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_increment_on_failure: float | timedelta,
        delay_multiple_on_success: float,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay: float = as_seconds("initial_delay", initial_delay)
        self.delay_increment_on_failure: float = as_difference(
            "delay_increment_on_failure", delay_increment_on_failure
        )
        self.delay_multiple_on_success: float = as_factor(
            "delay_multiple_on_success", delay_multiple_on_success, 0
        )
        super().__init__(**options)

    def _rule(self, attempts: int) -> Rule:
        if attempts:
            return self.initial_delay, 1.0, self.delay_increment_on_failure
        return self.initial_delay, self.delay_multiple_on_success, 0.0


class MILDBackOff(AlgorithmBackOff):
    """Multiplies the delay after each failure, and subtracts seconds after each success.

    Multiplicative increment, linear decrement. Any first delay is the initial one.

    Source: ``Algorithm::Backoff::MILD`` of Perl.

    Args:
        initial_delay: The first delay: seconds >= 0 or a timedelta.
        delay_multiple_on_failure: The factor after a failure: a number >= 0.
        delay_increment_on_success: Added after a success: seconds or a timedelta, usually negative.
        options: Those of ``AlgorithmBackOff``.

    Example:
        >>> from backoff_ticker import MILDBackOff
        >>> policy = MILDBackOff(2, 3, -4)
        >>> [policy.failure(), policy.failure(), policy.success()]
        [2.0, 6.0, 2.0]
    """

    __slots__ = ("delay_increment_on_success", "delay_multiple_on_failure", "initial_delay")

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_multiple_on_failure: float,
        delay_increment_on_success: float | timedelta,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay: float = as_seconds("initial_delay", initial_delay)
        self.delay_multiple_on_failure: float = as_factor(
            "delay_multiple_on_failure", delay_multiple_on_failure, 0
        )
        self.delay_increment_on_success: float = as_difference(
            "delay_increment_on_success", delay_increment_on_success
        )
        super().__init__(**options)

    def _rule(self, attempts: int) -> Rule:
        if attempts:
            return self.initial_delay, self.delay_multiple_on_failure, 0.0
        return self.initial_delay, 1.0, self.delay_increment_on_success


class MIMDBackOff(AlgorithmBackOff):
    """Multiplies the delay after each failure, and divides it after each success.

    Multiplicative increment, multiplicative decrement. Any first delay is the initial one.

    Source: ``Algorithm::Backoff::MIMD`` of Perl.

    Args:
        initial_delay: The first delay: seconds >= 0 or a timedelta.
        delay_multiple_on_failure: The factor after a failure: a number >= 0.
        delay_multiple_on_success: The factor after a success: a number >= 0, usually below 1.
        options: Those of ``AlgorithmBackOff``.

    Example:
        >>> from backoff_ticker import MIMDBackOff
        >>> policy = MIMDBackOff(2, 3, 0.5)
        >>> [policy.failure(), policy.failure(), policy.success()]
        [2.0, 6.0, 3.0]
    """

    __slots__ = ("delay_multiple_on_failure", "delay_multiple_on_success", "initial_delay")

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_multiple_on_failure: float,
        delay_multiple_on_success: float,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        self.initial_delay: float = as_seconds("initial_delay", initial_delay)
        self.delay_multiple_on_failure: float = as_factor(
            "delay_multiple_on_failure", delay_multiple_on_failure, 0
        )
        self.delay_multiple_on_success: float = as_factor(
            "delay_multiple_on_success", delay_multiple_on_success, 0
        )
        super().__init__(**options)

    def _rule(self, attempts: int) -> Rule:
        if attempts:
            return self.initial_delay, self.delay_multiple_on_failure, 0.0
        return self.initial_delay, self.delay_multiple_on_success, 0.0
