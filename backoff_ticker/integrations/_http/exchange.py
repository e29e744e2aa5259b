"""One request in all its attempts, in a thread or a coroutine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ... import retry_call, retry_call_async
from .rules import asked_wait, hooks_in, log_retry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Literal

    from ... import Outcome
    from .rules import Rules

    Kind = Literal["final", "unsent", "broken", "other"]

R = TypeVar("R")
T = TypeVar("T")


class Exchange(Generic[R]):
    """One request in all its attempts; a subclass knows the client."""

    status_name: str  # of the attribute of a response

    def __init__(self, rules: Rules, method: str, url: Any) -> None:
        self._response: R | None = None
        self._refusal: Exception | None = None  # the error that stands for the response
        self._rules = rules
        self._method = method
        self._url = url  # has a host and a path
        self._is_closed = False

    def begin(self, outcome: Outcome) -> None:
        self._response, self._refusal, self._is_closed = None, None, False

    def error_of(self, response: R) -> Exception:
        """Return the error that a response whose status is retried is for hooks."""
        raise NotImplementedError

    def kind_of(self, error: Exception) -> Kind:
        """Return what an error says; "final": another attempt would fail, too, or has no body."""
        raise NotImplementedError

    def on(self, error: Exception) -> float | bool:
        """Return whether a failure is retried, or the seconds that the server asks to wait."""
        kind = self.kind_of(error)
        if kind == "unsent":
            return True
        if kind == "final" or self._method not in self._rules.methods:
            return False
        if error is self._refusal:
            response: Any = self._response
            asked = asked_wait(response.headers, self._rules.options.get("clock"))
            return True if asked is None else asked <= self._rules.longest_wait and asked
        return kind == "broken" or type(error) is TimeoutError  # it took too long

    def run(self, send: Callable[[], R], close: Callable[[R], object]) -> R:
        options = self._options(close)
        try:
            return retry_call(lambda: self._checked(send()), self._rules.policy, **options)
        except BaseException as error:
            last = self._last(error)
            if last is None:
                self._end(close)
                raise
            return last

    async def run_async(
        self, send: Callable[[], Awaitable[R]], close: Callable[[R], Awaitable[object]]
    ) -> R:

        async def attempt() -> R:
            return self._checked(await send())

        options = self._options(close)
        try:
            return await retry_call_async(attempt, self._rules.policy, **options)
        except BaseException as error:
            last = self._last(error)
            if last is None:
                closing = self._end(close)
                if closing is not None:
                    await closing
                raise
            return last

    def _options(self, close: Callable[[R], object]) -> dict[str, Any]:
        """Return the options of the run: before a wait ours come first, else last."""
        options = self._rules.options
        return {
            **options,
            "on": self.on,
            "name": self._rules.name,
            "on_retry": (partial(self._end, close), *hooks_in(options, "on_retry")),
            "on_attempt": (*hooks_in(options, "on_attempt"), self.begin),
        }

    def _end(self, close: Callable[[R], T], outcome: Outcome | None = None) -> T | None:
        """Log an attempt that a wait follows, if any; close its response."""
        self._is_closed = True
        response = self._response
        if outcome is not None:
            status = None if response is None else getattr(response, self.status_name)
            log_retry((self._method, self._url.host, self._url.path), status, outcome)
        return None if response is None else close(response)

    def _checked(self, response: R) -> R:
        self._response = response
        if getattr(response, self.status_name) in self._rules.statuses:
            self._refusal = self.error_of(response)
            raise self._refusal
        return response

    def _last(self, error: BaseException) -> R | None:
        # The traceback of the error refers to this object: it must not refer to the error.
        refusal, self._refusal = self._refusal, None
        # A time limit may end the run although the wait has begun, because the wait took longer
        # than it should. The response is closed by then, so the error is raised.
        return None if self._is_closed or error is not refusal else self._response
