"""Those that retry: loops written by hand, the package, and its peers, and how they are timed."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

from backoff_ticker import (
    CancellationToken,
    RetryBudget,
    ZeroBackOff,
    attempts,
    configure,
    retry,
    retry_call,
    retry_call_async,
)
from backoff_ticker.testing import no_wait
from tests.benchmarks._measures import defined, timed
from tests.benchmarks._table import is_installed

MOST = 5
"""The attempts a call may make where a subject has such a limit."""


class Subject:
    """A statement that makes one call with its retries, as a user writes it.

    The plan says whether each coming call fails; ``around()`` is entered before it is timed.
    """

    def __init__(self, statement, measure, plan, around):
        self._statement, self._measure = statement, measure
        self._plan, self._around = plan, around

    def measure(self, calls, enough):
        """Return the nanoseconds of CPU that a call takes, of those made in ``enough`` seconds.

        The collector is on, as for users; what was there before is kept from it.
        """
        gc.collect()
        gc.freeze()
        try:
            with self._around():
                return {"ns CPU": self._measure(calls, enough)}
        finally:
            gc.unfreeze()

    def check(self, fails):
        """Make one call, and see to it that it took so many failures and one success."""
        self.measure(1, 0.0)
        if list(islice(self._plan, fails + 1)) != [True] * fails + [False]:
            raise AssertionError(f"not {fails} failures, then a success: {self._statement}")


@dataclass(frozen=True)
class Case:
    """What is called: a function or a coroutine function that fails so often, then succeeds."""

    fails: int
    awaits: bool

    def subject(self, statement, around=nullcontext, **names):
        """Return a subject; its statement calls ``operation``, or ``call``, the wrapped one.

        Args:
            statement: ``AWAIT`` and ``ASYNC`` stand for the two words, or for nothing.
            around: Entered around each measurement.
            names: ``wrap`` makes ``call`` out of the operation.
        """
        plan = cycle([True] * self.fails + [False])
        kind = "flaky" if self.fails else "operation"
        operation = names["operation"] = defined(kind, OPERATIONS, self.awaits, plan=plan)
        if "wrap" in names:
            names["call"] = names.pop("wrap")(operation)
        return Subject(statement, timed(statement, self.awaits, **names), plan, around)


OPERATIONS = """
ASYNC def operation():
    return "done"

ASYNC def flaky():
    if next(plan):
        raise ConnectionError("refused")
    return "done"
"""

LOOP = "loop by hand, attempts shown"
BARE_LOOP = "loop by hand"
CUT_BY_HAND = "loop by hand, asyncio.timeout(3600)"
CUTTING = ("@retry(ZeroBackOff(), token=)", "@retry(ZeroBackOff(), timeout=3600)")
"""What cuts attempts of coroutine functions."""


DELAYS = [0.0] * (MOST - 1)

SHOWN = ContextVar("shown", default=None)


class Shown:
    """What a program by hand shows of an attempt to the functions that it calls."""

    __slots__ = ("name", "number", "outer", "token", "waited")

    def __init__(self, name, number, waited, token, outer):
        self.name = name
        self.number = number
        self.waited = waited
        self.token = token
        self.outer = outer


LOOP_BY_HAND = """
def loop(operation):
    ASYNC def call():
        for attempt in range(MOST):
            shown = SHOWN.set(Shown("call", attempt + 1, 0.0, None, SHOWN.get()))
            try:
                return AWAIT operation()
            except Exception:
                if attempt == MOST - 1:
                    raise
                delay = DELAYS[attempt]
                if delay > 0.0:
                    AWAIT sleep(delay)
            finally:
                SHOWN.reset(shown)
        return None

    return call
"""
"""What one writes instead of using a library."""

BARE_LOOP_BY_HAND = """
def loop(operation):
    ASYNC def call():
        for attempt in range(MOST):
            try:
                return AWAIT operation()
            except Exception:
                if attempt == MOST - 1:
                    raise
                delay = DELAYS[attempt]
                if delay > 0.0:
                    AWAIT sleep(delay)
        return None

    return call
"""
"""The same without the attempt that is shown."""


def by_hand(case):
    """Return the baselines, the first of which is what ratios are to."""
    sleep = asyncio.sleep if case.awaits else time.sleep
    names = {"MOST": MOST, "DELAYS": DELAYS, "SHOWN": SHOWN, "Shown": Shown, "sleep": sleep}
    loop = defined("loop", LOOP_BY_HAND, case.awaits, **names)
    bare = defined("loop", BARE_LOOP_BY_HAND, case.awaits, **names)

    def cut(operation):
        async def attempt():
            async with asyncio.timeout(3600):
                return await operation()

        return loop(attempt)

    subjects = {
        LOOP: case.subject("AWAIT call()", wrap=loop),
        BARE_LOOP: case.subject("AWAIT call()", wrap=bare),
    }
    if case.awaits:
        subjects[CUT_BY_HAND] = case.subject("AWAIT call()", wrap=cut)
    return subjects


def nothing(_):
    """Stand for a hook, or for a sleep."""


async def nothing_async(_):
    """Stand for a sleep in a loop."""


@contextmanager
def unslept():
    """Let sleeps do nothing; with 0 seconds they would cost far more than what is measured."""
    kept = time.sleep, asyncio.sleep
    time.sleep, asyncio.sleep = nothing, nothing_async
    try:
        yield
    finally:
        time.sleep, asyncio.sleep = kept


def package(case):
    """Return what the package has to offer."""
    zero = ZeroBackOff()
    refilled = RetryBudget(retry_cost=0.001)  # by each success, with more than three retries take
    hooks = dict.fromkeys(("on_attempt", "on_retry", "on_success", "on_give_up"), nothing)
    late_hooks = dict.fromkeys(("notify", "on_retry", "on_give_up"), lambda *_: None)
    plain = retry(zero)
    decorators = {
        "": plain,
        ", max_attempts=5": retry(zero, max_attempts=MOST),
        ", token=": retry(zero, token=CancellationToken()),
        ", timeout=3600": retry(zero, timeout=3600),
        ", budget=": retry(zero, budget=refilled),
        ", three late hooks": retry(zero, **late_hooks),
        ", four hooks": retry(zero, **hooks),
    }
    arounds = {
        "default hook": partial(configure, on_retry=nothing),
        "default token": partial(configure, token=CancellationToken()),
    }
    function = retry_call_async if case.awaits else retry_call
    call = partial(case.subject, retry_call=function, zero=zero)
    # Unless nothing fails, a default policy would wait.
    default = {"around": no_wait} if case.fails else {}
    suffix = ", in no_wait()" if case.fails else ""
    name = function.__name__
    return {
        f"@retry{suffix}": case.subject("AWAIT call()", wrap=retry, **default),
        **{
            f"@retry(ZeroBackOff(){text})": case.subject("AWAIT call()", wrap=decorator)
            for text, decorator in decorators.items()
        },
        f"{name}(f){suffix}": call("AWAIT retry_call(operation)", **default),
        f"{name}(f, ZeroBackOff())": call("AWAIT retry_call(operation, zero)"),
        f"{name}(f, ZeroBackOff(), max_attempts=5)": call(
            f"AWAIT retry_call(operation, zero, max_attempts={MOST})"
        ),
        **{
            f"@retry(ZeroBackOff()), {text}": case.subject("AWAIT call()", around, wrap=plain)
            for text, around in arounds.items()
        },
        "attempts(ZeroBackOff())": case.subject(
            "ASYNC for attempt in attempts(zero):\n    with attempt:\n        AWAIT operation()",
            attempts=attempts,
            zero=zero,
        ),
    }


def with_tenacity(case):
    import tenacity

    decorator = tenacity.retry(
        retry=tenacity.retry_if_exception_type(Exception),
        stop=tenacity.stop_after_attempt(MOST),
        wait=tenacity.wait_none(),
        sleep=nothing_async if case.awaits else nothing,
        reraise=True,
    )
    return {"tenacity @retry": case.subject("AWAIT call()", wrap=decorator)}


def with_backoff(case):
    import backoff

    decorator = backoff.on_exception(
        backoff.constant, Exception, interval=0, max_tries=MOST, jitter=None, logger=None
    )
    return {"backoff.on_exception": case.subject("AWAIT call()", unslept, wrap=decorator)}


def with_stamina(case):
    import stamina

    @contextmanager
    def silent():
        stamina.instrumentation.set_on_retry_hooks([])
        try:
            with unslept():
                yield
        finally:
            stamina.instrumentation.set_on_retry_hooks(None)

    waits = dict.fromkeys(("wait_initial", "wait_max", "wait_jitter"), 0)
    decorator = stamina.retry(on=Exception, attempts=MOST, timeout=None, **waits)
    return {"stamina.retry, no hooks": case.subject("AWAIT call()", silent, wrap=decorator)}


def with_google_api_core(case):
    from google.api_core import retry as sync, retry_async

    kind = retry_async.AsyncRetry if case.awaits else sync.Retry
    decorator = kind(
        predicate=sync.if_exception_type(Exception), initial=0, maximum=0, timeout=None
    )
    name = f"google-api-core {kind.__name__}"
    return {name: case.subject("AWAIT call()", unslept, wrap=decorator)}


def peers():
    """Return those that are installed; say which are not."""
    builds = {
        "tenacity": with_tenacity,
        "backoff": with_backoff,
        "stamina": with_stamina,
        "google.api_core": with_google_api_core,
    }
    warnings.simplefilter("ignore")  # what they warn of is no matter of ours
    return [build for package, build in builds.items() if is_installed(package)]
