"""Feedback policies that raise and lower the delay they returned last."""

from __future__ import annotations

from .._validation import as_difference, as_factor, as_seconds
from ._algorithm import AlgorithmBackOff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import ClassVar, Unpack

    from ._algorithm import AlgorithmOptions
    from ._base import Bounds

    Step = tuple[float, float]


class _Adaptive(AlgorithmBackOff):
    """The first delay is the initial one, after a failure or a success alike.

    From then on each is the last one times a factor plus a summand: a step.
    """

    __slots__ = ("initial_delay",)

    def __init__(
        self,
        initial_delay: float | timedelta,
        changes: tuple[float | timedelta, float | timedelta],
        options: AlgorithmOptions,
    ) -> None:
        """Take the parameters of a class, of which the two ``changes`` are named in ``_shown``."""
        for name, value in zip(self._shown[1:], changes, strict=True):
            setattr(self, name, _checked(name, value))
        self.initial_delay: float = as_seconds("initial_delay", initial_delay)
        super().__init__(**options)

    def _failure_step(self) -> Step:
        raise NotImplementedError

    def _success_step(self) -> Step:
        raise NotImplementedError

    def _after(self, last: float | None, step: Step) -> float:
        return self.initial_delay if last is None else last * step[0] + step[1]

    def _on_failure(self) -> float:
        return self._after(self.last_delay, self._failure_step())

    def _on_success(self) -> float:
        return self._after(self.last_delay, self._success_step())

    def _before_first(self) -> float:
        return self.initial_delay

    def _raw_bounds(self, n: int, last: Bounds | None) -> Bounds:  # noqa: ARG002 - see _Fixed
        least, greatest = (None, None) if last is None else last
        step = self._failure_step()
        return self._after(least, step), self._after(greatest, step)

    def _growth(self) -> Step:
        return self._failure_step()


def _checked(name: str, value: float | timedelta) -> float:
    """Return a ``delay_multiple_...`` or a ``delay_increment_...`` as a float."""
    if name.startswith("delay_multiple_"):
        return as_factor(name, value, 0)  # type: ignore[arg-type] # a timedelta is refused
    return as_difference(name, value)


class LILDBackOff(_Adaptive):
    """Add seconds to the delay after each failure, take seconds off after each success.

    The first delay is the initial one, after a failure or a success alike.

    Source: ``Algorithm::Backoff::LILD`` of Perl: linear increment, linear decrement.

    Args:
        initial_delay: The first delay: seconds >= 0, or a ``datetime.timedelta``.
        delay_increment_on_failure: Added after a failure: seconds of either sign, or a timedelta.
        delay_increment_on_success: Added after a success: seconds, mostly negative, or a timedelta.
        options: See ``AlgorithmBackOff``.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.
    """

    __slots__ = ("delay_increment_on_failure", "delay_increment_on_success")
    delay_increment_on_failure: float
    delay_increment_on_success: float

    _shown: ClassVar[tuple[str, ...]] = (
        "initial_delay",
        "delay_increment_on_failure",
        "delay_increment_on_success",
    )

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_increment_on_failure: float | timedelta,
        delay_increment_on_success: float | timedelta,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        changes = delay_increment_on_failure, delay_increment_on_success
        super().__init__(initial_delay, changes, options)

    def _failure_step(self) -> Step:
        return 1.0, self.delay_increment_on_failure

    def _success_step(self) -> Step:
        return 1.0, self.delay_increment_on_success


class LIMDBackOff(_Adaptive):
    """Add seconds to the delay after each failure, divide it after each success.

    The first delay is the initial one, after a failure or a success alike.

    Source: ``Algorithm::Backoff::LIMD`` of Perl: linear increment, multiplicative decrement.

    Args:
        initial_delay: The first delay: seconds >= 0, or a ``datetime.timedelta``.
        delay_increment_on_failure: Added after a failure: seconds of either sign, or a timedelta.
        delay_multiple_on_success: The factor after a success, >= 0, mostly below 1.
        options: See ``AlgorithmBackOff``.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.
    """

    __slots__ = ("delay_increment_on_failure", "delay_multiple_on_success")
    delay_increment_on_failure: float
    delay_multiple_on_success: float

    _shown: ClassVar[tuple[str, ...]] = (
        "initial_delay",
        "delay_increment_on_failure",
        "delay_multiple_on_success",
    )

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_increment_on_failure: float | timedelta,
        delay_multiple_on_success: float,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        changes = delay_increment_on_failure, delay_multiple_on_success
        super().__init__(initial_delay, changes, options)

    def _failure_step(self) -> Step:
        return 1.0, self.delay_increment_on_failure

    def _success_step(self) -> Step:
        return self.delay_multiple_on_success, 0.0


class MILDBackOff(_Adaptive):
    """Multiply the delay after each failure, take seconds off after each success.

    The first delay is the initial one, after a failure or a success alike.

    Source: ``Algorithm::Backoff::MILD`` of Perl: multiplicative increment, linear decrement.

    Args:
        initial_delay: The first delay: seconds >= 0, or a ``datetime.timedelta``.
        delay_multiple_on_failure: The factor after a failure, >= 0.
        delay_increment_on_success: Added after a success: seconds, mostly negative, or a timedelta.
        options: See ``AlgorithmBackOff``.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.
    """

    __slots__ = ("delay_increment_on_success", "delay_multiple_on_failure")
    delay_multiple_on_failure: float
    delay_increment_on_success: float

    _shown: ClassVar[tuple[str, ...]] = (
        "initial_delay",
        "delay_multiple_on_failure",
        "delay_increment_on_success",
    )

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_multiple_on_failure: float,
        delay_increment_on_success: float | timedelta,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        changes = delay_multiple_on_failure, delay_increment_on_success
        super().__init__(initial_delay, changes, options)

    def _failure_step(self) -> Step:
        return self.delay_multiple_on_failure, 0.0

    def _success_step(self) -> Step:
        return 1.0, self.delay_increment_on_success


class MIMDBackOff(_Adaptive):
    """Multiply the delay after each failure, divide it after each success.

    The first delay is the initial one, after a failure or a success alike.

    Source: ``Algorithm::Backoff::MIMD`` of Perl: both multiplicative.

    Args:
        initial_delay: The first delay: seconds >= 0, or a ``datetime.timedelta``.
        delay_multiple_on_failure: The factor after a failure, >= 0.
        delay_multiple_on_success: The factor after a success, >= 0, mostly below 1.
        options: See ``AlgorithmBackOff``.

    Raises:
        TypeError, ValueError: A parameter is no number in its range.
    """

    __slots__ = ("delay_multiple_on_failure", "delay_multiple_on_success")
    delay_multiple_on_failure: float
    delay_multiple_on_success: float

    _shown: ClassVar[tuple[str, ...]] = (
        "initial_delay",
        "delay_multiple_on_failure",
        "delay_multiple_on_success",
    )

    def __init__(
        self,
        initial_delay: float | timedelta,
        delay_multiple_on_failure: float,
        delay_multiple_on_success: float,
        **options: Unpack[AlgorithmOptions],
    ) -> None:
        changes = delay_multiple_on_failure, delay_multiple_on_success
        super().__init__(initial_delay, changes, options)

    def _failure_step(self) -> Step:
        return self.delay_multiple_on_failure, 0.0

    def _success_step(self) -> Step:
        return self.delay_multiple_on_success, 0.0
