"""Which requests HTTP clients send again, when, with which options; one request in all attempts."""

from __future__ import annotations

import logging
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, Generic, TypedDict, TypeVar

from .. import attempts, current_clock, parse_retry_after, retry, retry_call, retry_call_async
from ._shared import as_seconds, check_policy, escaped, shown_error, unknown_option

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from datetime import timedelta
    from typing import Literal

    from .. import BackOff, BudgetLike, CancellationToken, CircuitBreaker, Clock, Outcome

    Seconds = float | timedelta
    Hook = Callable[[Outcome], object]
    Notify = Callable[[Exception, float], object]
    Kind = Literal["final", "unsent", "broken", "other"]

R = TypeVar("R")
T = TypeVar("T")

# The idempotent methods, by RFC 9110, section 9.2.2:
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})
# What may be different the next time. The other 5xx are not: 501 (the server does not know the
# method), 505 (nor the version), 508 (its resources form a loop).
STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504})
MAX_ATTEMPTS: Final = 5
MAX_RETRY_AFTER: Final = 60.0

_FIELDS: Final = (("retry-after-ms", 1000), ("x-ms-retry-after-ms", 1000), ("retry-after", 1))
_LOGGER: Final = logging.getLogger("backoff_ticker.http")


class HTTPRetryOptions(TypedDict, total=False):
    """What is retried, and the options of ``retry`` that have the same meaning here."""

    methods: Collection[str]
    statuses: Collection[int]
    max_attempts: int | None
    max_retry_after: Seconds | None
    timeout: Seconds | None
    max_elapsed_time: Seconds | None
    token: CancellationToken | None
    budget: BudgetLike | None
    breaker: CircuitBreaker | None
    notify: Notify | Sequence[Notify] | None
    around: Hook | Sequence[Hook] | None
    on_attempt: Hook | Sequence[Hook] | None
    on_retry: Hook | Sequence[Hook] | None
    on_success: Hook | Sequence[Hook] | None
    on_give_up: Hook | Sequence[Hook] | None
    clock: Clock | None


class AsyncHTTPRetryOptions(HTTPRetryOptions, total=False):
    """The same, with the option that only coroutines have."""

    attempt_timeout: Seconds | None


class Rules:
    """Which requests and answers of one client are retried, and the options of its retries.

    ``name`` is the class that users know, and the operation for hooks.
    """

    def __init__(
        self, name: str, allowed: Any, policy: BackOff | None, options: Mapping[str, Any]
    ) -> None:
        known = allowed.__optional_keys__
        for option in options:
            if option not in known:
                raise unknown_option(f"{name}()", option, sorted(known))
        self.name = name
        limits = {"max_attempts": MAX_ATTEMPTS, "max_retry_after": MAX_RETRY_AFTER}
        self.options: dict[str, Any] = {**limits, **options}
        self.methods = as_methods("methods", self.options.pop("methods", METHODS))
        self.statuses = as_statuses("statuses", self.options.pop("statuses", STATUSES))
        self.policy = policy
        awaits = allowed is AsyncHTTPRetryOptions
        self.longest_wait = checked_limits(policy, self.options, awaits=awaits)

    def time_left(self, elapsed: float) -> float | None:
        """Return the seconds that an attempt may take, which begins after ``elapsed`` of a run."""
        token = self.options.get("token")
        left = None if token is None else token.remaining()
        for name, passed in ("timeout", elapsed), ("attempt_timeout", 0.0):
            if (limit := self.options.get(name)) is not None:
                limit = as_seconds(name, limit) - passed
                left = limit if left is None else min(left, limit)
        return left


def hooks_in(options: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    given = options.get(name)
    if isinstance(given, (list, tuple)):
        return tuple(given)
    return () if given is None else (given,)


def asked_wait(headers: Any, clock: Clock | None) -> float | None:
    """Return the seconds that a server asks to wait; None if it names none, or 0.

    Milliseconds are more exact, so they come first. A 0 says nothing: the policy decides.
    """
    now = (current_clock() if clock is None else clock).time()
    get_all = getattr(headers, "getall", None)  # of aiohttp, whose get() returns the first
    for name, unit in _FIELDS:
        value = ", ".join(get_all(name, ())) if get_all else headers.get(name)
        if seconds := parse_retry_after(value, now):
            return seconds / unit
    return None


def checked_limits(
    policy: BackOff | None, options: Mapping[str, Any], *, awaits: bool = False
) -> float:
    """Check a policy and options of ``retry``; return the longest wait that may be asked for."""
    if awaits:
        attempts(**options)  # checks them
    else:
        retry(**options)(lambda: None)  # refuses coroutine functions, too
    if policy is not None:
        check_policy(policy)
    longest = options["max_retry_after"]
    return inf if longest is None else as_seconds("max_retry_after", longest)


def log_retry(request: tuple[str, str | None, str], status: int | None, outcome: Outcome) -> None:
    """Log that a request is sent again: its method, host and path; all else may be secret."""
    error = outcome.last_error
    if not isinstance(error, Exception):
        return
    method, host, path = (escaped(part or "") for part in request)
    attempt, wait = outcome.attempts, round(outcome.delay or 0.0, 3)
    fields = {"host": host, "method": method, "path": path, "status": status}
    _LOGGER.info(
        "%s %s%s failed in attempt %d, again in %g s: %s",
        *(method, host, path, attempt, wait, shown_error(error) if status is None else status),
        extra={**fields, "attempt": attempt, "wait": wait},
    )


def as_methods(name: str, value: Collection[str]) -> frozenset[str]:
    for method in _listed(name, value):
        if not isinstance(method, str):
            raise TypeError(f"{name} must be names such as 'GET', not {method!r}")
    return frozenset(method.upper() for method in value)


def as_statuses(name: str, value: Collection[int]) -> frozenset[int]:
    for status in _listed(name, value):
        if isinstance(status, bool) or not isinstance(status, int):
            raise TypeError(f"{name} must be ints, not {status!r}")
        if not 100 <= status <= 599:  # noqa: PLR2004 - by RFC 9110
            raise ValueError(f"{name} must be statuses of HTTP, 100 to 599, not {status}")
    return frozenset(value)


def _listed(name: str, value: object) -> Collection[Any]:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise TypeError(f"{name} must be a list, tuple or set, not {value!r}")
    return value


# A request in all its attempts


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
            if (last := self._last(error)) is None:
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
            if (last := self._last(error)) is None:
                if (closing := self._end(close)) is not None:
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
