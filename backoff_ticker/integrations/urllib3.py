"""A ``Retry`` for urllib3, and so for requests, that waits as a policy says."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from .. import ConstantBackOff, RetryAfter, attempts
from . import _http
from ._shared import imports_of_extra

with imports_of_extra("urllib3"):
    from urllib3.exceptions import MaxRetryError, ResponseError
    from urllib3.util import Retry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from urllib3 import BaseHTTPResponse
    from urllib3.connectionpool import ConnectionPool

    from .. import BackOff, BudgetLike, CancellationToken, Clock, Outcome
    from ._http import Hook, Notify, Seconds

    Request = tuple[str, ConnectionPool | None, str]  # method, pool, URL

__all__ = ["BackOffRetry"]

_METHODS: Final = _http.METHODS - {"PUT"}
_REPLACED: Final = ("backoff_factor", "backoff_jitter", "backoff_max", "retry_after_max")


class BackOffRetry(Retry):
    """A ``urllib3.util.Retry`` that waits as a back-off policy says; its waits can be cancelled.

    It goes wherever a ``Retry`` does: ``PoolManager(retries=...)``, ``http.request(...,
    retries=...)``, and for requests ``HTTPAdapter(max_retries=...)``. What it retries, how it
    counts and what it raises in the end is urllib3's: ``MaxRetryError``, or ``RetryError`` in
    requests; with ``raise_on_status=False`` the last response is returned. Different are

    - the waits: the policy's, or what the server asks for (``Retry-After`` in seconds or as a date,
      ``Retry-After-Ms``, ``X-Ms-Retry-After-Ms``). A cancel of the token ends them at once;
    - the end: ``STOP`` of the policy and an empty budget end the retries, too;
    - the defaults: 4 retries; for statuses in ``status_forcelist``, too; not for PUT;
    - errors after which the request may have arrived, other than timeouts and lost connections:
      urllib3 repeats every method after them, this class only those in ``allowed_methods``;
    - responses that are retried: urllib3 reads them to the end, however long that takes; this class
      closes them. (With ``preload_content=True``, the default of urllib3 alone, they have been read
      by then.)

    PUT is left out because urllib3 and requests cannot rewind an iterator or a generator: they
    would send what is left of it. If your bodies are bytes, texts or seekable files, add it.

    Example:
        >>> import urllib3
        >>> from backoff_ticker import ExponentialBackOff
        >>> from backoff_ticker.integrations.urllib3 import BackOffRetry
        >>> http = urllib3.PoolManager(retries=BackOffRetry(ExponentialBackOff(0.1), total=2))

    Each request has a copy of the policy, which starts with the first failure. A request that is
    under way cannot be cut; its timeouts end it. After a cancel ``Cancelled`` is raised, after the
    token's deadline ``DeadlineExceeded``, which requests wraps in its ``ConnectionError``.

    Args:
        policy: The back-off policy; None means ``ExponentialBackOff()``.
        total: The greatest number of retries and redirects together, as in urllib3.
        allowed_methods: The methods that may be repeated; None: all; empty: none.
        status_forcelist: The statuses that are retried. urllib3 also retries 413, 429 and 503 that
            have a ``Retry-After``, unless ``respect_retry_after_header=False``.
        max_retry_after: The longest wait that a server can ask for, in seconds or as a timedelta;
            after an answer that asks for a longer one the request is not sent again, and after a
            redirect the wait is cut to it. None: no bound.
        token, budget, notify, on_retry, clock: As in ``retry``. The error of an answer is a
            ``urllib3.exceptions.ResponseError``. Each answer whose status is not in
            ``status_forcelist`` fills the budget.
        **options: The other options of ``urllib3.util.Retry``, such as ``connect``, ``read``,
            ``raise_on_status``, ``respect_retry_after_header``; not ``backoff_factor`` and the
            like, whose place the policy and ``max_retry_after`` take.
    """

    _run: _Run | None = None

    def __init__(
        self,
        policy: BackOff | None = None,
        *,
        total: bool | int | None = _http.MAX_ATTEMPTS - 1,
        allowed_methods: Collection[str] | None = _METHODS,
        status_forcelist: Collection[int] | None = _http.STATUSES,
        max_retry_after: Seconds | None = _http.MAX_RETRY_AFTER,
        token: CancellationToken | None = None,
        budget: BudgetLike | None = None,
        notify: Notify | Sequence[Notify] | None = None,
        on_retry: Hook | Sequence[Hook] | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            total=total,
            allowed_methods=None,
            status_forcelist=_http.as_statuses("status_forcelist", status_forcelist or ()),
            **options,
        )
        if allowed_methods is not None:
            self.allowed_methods: Any = _http.as_methods("allowed_methods", allowed_methods)
        for name in _REPLACED:  # new() passes them, with their defaults
            if name in options and options[name] != getattr(_PLAIN, name):
                raise TypeError(f"BackOffRetry() has no {name}: see policy and max_retry_after")
        self._policy = policy
        limits = {"token": token, "clock": clock, "max_retry_after": max_retry_after}
        told = {"budget": budget, "notify": notify, "on_retry": on_retry}
        self._limits: dict[str, Any] = limits
        self._options: dict[str, Any] = {**limits, **told}
        self._longest_wait = _http.checked_limits(policy, self._options)

    def new(self, **kw: Any) -> Self:
        """Return a copy with other options; it goes on with the waits of this one."""
        made = super().new(**{"policy": self._policy, **self._options, **kw})
        made._run = self._run
        return made

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        error: Exception | None = None,
        _pool: ConnectionPool | None = None,
        _stacktrace: TracebackType | None = None,
    ) -> Self:
        """Return what follows a failure or a redirect, or raise; called by urllib3."""
        try:
            may_repeat = method is not None and self._is_method_retryable(method)
            if not (error is None or may_repeat or self._is_connection_error(error)):
                raise error.with_traceback(_stacktrace)  # noqa: TRY301 - as urllib3 raises others
            made = super().increment(method, url, response, error, _pool, _stacktrace)
        except Exception:
            if self._run is not None:
                self._run.leave()
            self._free_unless_returned(response)
            raise
        if response is not None and response.get_redirect_location():
            return made
        reason: Exception | None = error
        if reason is None:
            status = 0 if response is None else response.status
            reason = ResponseError(ResponseError.SPECIFIC_ERROR.format(status_code=status))
        try:
            made._note(reason, response, (method or "", _pool, url or "/"))
        except Exception as raised:
            if raised is reason or isinstance(raised, RetryAfter):  # where retries are switched off
                self._free_unless_returned(response)
                pool: Any = _pool  # may be None, as in urllib3
                raise MaxRetryError(pool, url, reason) from reason
            _free(response)
            raise
        finally:
            del error, reason  # their tracebacks refer to this frame: a reference cycle
        _free(response)
        return made

    def is_retry(
        self,
        method: str,
        status_code: int,
        has_retry_after: bool = False,  # noqa: FBT002 - of urllib3
    ) -> bool:
        """Return whether an answer is retried; if it is a success, fill the budget."""
        if super().is_retry(method, status_code, has_retry_after):
            return True
        run, self._run = self._run, None
        budget = self._options["budget"]
        if status_code in self.status_forcelist:
            if run is not None:
                run.leave()
        elif run is not None:
            run.succeed()
        elif budget is not None:
            budget.success()
        return False

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        """Wait before the next attempt."""
        if self._run is not None:
            self._run.wait()

    def sleep_for_retry(self, response: BaseHTTPResponse) -> bool:
        """Wait as the server asks: urllib3 calls this before it follows a redirect."""
        if (seconds := self._asked(response)) is None:
            return False
        run = _Run(ConstantBackOff(0), self._limits)
        with suppress(RetryAfter):  # raised where retries are switched off: no wait
            run.fail(RetryAfter(seconds))
            run.wait()
        return True

    def _is_method_retryable(self, method: str) -> bool:
        """Return whether a method may be repeated: urllib3 takes an empty collection for all."""
        return self.allowed_methods is None or method.upper() in self.allowed_methods

    def _asked(self, response: BaseHTTPResponse) -> float | None:
        respects = self.respect_retry_after_header
        return _http.asked_wait(response.headers, self._limits["clock"]) if respects else None

    def _note(self, error: Exception, response: BaseHTTPResponse | None, request: Request) -> None:
        """Tell the run, which begins with the first failure; it raises if no attempt follows."""
        seconds = None if response is None else self._asked(response)
        if seconds is not None and seconds > self._longest_wait:
            if self._run is not None:
                self._run.leave()
            raise error
        if self._run is None:
            self._run = _Run(self._policy, self._options)
        self._run.failed = request, None if response is None else response.status
        self._run.fail(error if seconds is None else RetryAfter(seconds, error))

    def _free_unless_returned(self, response: BaseHTTPResponse | None) -> None:
        is_moved = response is not None and response.get_redirect_location()
        if self.raise_on_redirect if is_moved else self.raise_on_status:
            _free(response)


_PLAIN: Final = Retry()


class _Run:
    """The attempts of one request, from its first failure."""

    failed: tuple[Request, int | None] | None = None  # and the status of its last answer

    def __init__(self, policy: BackOff | None, options: Mapping[str, Any]) -> None:
        options = {**options, "on_retry": (self._log, *_http.hooks_in(options, "on_retry"))}
        self._attempts = iter(attempts(policy, **options))
        self._attempt = next(self._attempts)

    def _log(self, outcome: Outcome) -> None:
        if self.failed is not None:
            (method, pool, url), status = self.failed
            request = method, getattr(pool, "host", None), urlsplit(url).path or "/"
            _http.log_retry(request, status, outcome)

    def fail(self, error: Exception) -> None:
        """End an attempt; raise the error of the run if no other follows."""
        try:
            with self._attempt:
                raise error
        finally:
            del error

    def succeed(self) -> None:
        with self._attempt:
            pass

    def leave(self) -> None:
        """End the run because urllib3 ends it here: the attempt was made, and no other follows.

        A run that is just dropped would give back to the budget what that attempt has cost.
        """
        with suppress(_NoFurtherAttempt), self._attempt:
            raise _NoFurtherAttempt

    def wait(self) -> None:
        self._attempt = next(self._attempts)


class _NoFurtherAttempt(BaseException):
    """Ends an attempt as an interrupt does: no hook is called, nothing is retried."""


def _free(response: BaseHTTPResponse | None) -> None:
    """Close a response that is not read to its end, and give its connection back to the pool."""
    if response is not None and getattr(response, "length_remaining", None) != 0:
        response.close()
        response.release_conn()
