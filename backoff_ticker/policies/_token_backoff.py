"""A policy around a policy: a token that stops it."""

from __future__ import annotations

from .._sentinels import STOP
from .._validation import safe_repr
from ._announce import announce
from ._base import is_known
from ._running import is_feedback
from ._wrapper import TakesFeedback, Wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import overload

    from .._sentinels import Stop
    from ..cancellation import CancellationToken
    from ._base import Bounds, Calls
    from ._protocol import BackOff, FeedbackBackOff


class TokenBackOff(Wrapper):
    """Another policy's delays until a token is cancelled. Made by ``with_token``.

    Attributes:
        backoff: The policy inside.
        token: The token.
        announces: Whether it tells the run that asks of its token, because the run cannot know.
    """

    __slots__ = ("announces", "token")

    def __init__(self, backoff: BackOff, token: CancellationToken) -> None:
        super().__init__(backoff)
        if not callable(getattr(token, "wait_set", None)) or isinstance(token, type):
            raise TypeError(f"token must be a CancellationToken, not {safe_repr(token)}")
        self.token: CancellationToken = token
        self.announces: bool = True

    def _may_ask(self) -> bool:
        if self.announces:
            announce(self.token)
        return not self.token.cancelled

    def _begin_copy(self) -> None:
        self.announces = True

    def _span(self, first: int, last: int) -> Bounds | None:
        return None if self.token.cancelled else super()._span(first, last)

    def _each_bounds(self) -> Iterator[Bounds | None]:
        for bounds in super()._each_bounds():
            yield None if self.token.cancelled else bounds

    def _calls(self) -> Calls:
        return 0, super()._calls()[1]

    def _success(self, timestamp: float | None) -> float | Stop:
        return super()._success(timestamp) if self._may_ask() else STOP

    def __repr__(self) -> str:
        return f"with_token({self.backoff!r}, {self.token!r})"


class FeedbackTokenBackOff(TakesFeedback, TokenBackOff):
    """The same around a feedback policy."""

    __slots__ = ()


if TYPE_CHECKING:

    @overload
    def with_token(backoff: FeedbackBackOff, token: CancellationToken) -> FeedbackTokenBackOff: ...
    @overload
    def with_token(backoff: BackOff, token: CancellationToken) -> TokenBackOff: ...


def with_token(backoff: BackOff, token: CancellationToken) -> TokenBackOff:
    """Return a policy that gives ``STOP``, without asking ``backoff``, once ``token`` is cancelled.

    From then on its ``bounds`` are None, those of the calls to come.

    A ticker that runs it, inside whatever other policies, waits for the token as if it had been
    given to the ticker: a cancel ends a running wait at once, also in a part of a chain whose turn
    has not come. Inside a policy class of your own it counts from the first time it is asked.

    Source: ``WithContext`` of cenkalti/backoff v4.

    Raises:
        TypeError: ``backoff`` is no policy, or ``token`` is no token.
    """
    kind = FeedbackTokenBackOff if is_feedback(backoff) else TokenBackOff
    return kind(backoff, token)


def token_policies(policy: object) -> list[TokenBackOff] | None:
    """Return the policies with a token inside ``policy``, at any depth, itself included.

    None if only asking it can tell, because there is a class of a user's own.
    """
    if not is_known(policy):
        return None
    found = [policy] if isinstance(policy, TokenBackOff) else []
    for inner in policy._inside():
        deeper = token_policies(inner)
        if deeper is None:
            return None
        found += deeper
    return found
