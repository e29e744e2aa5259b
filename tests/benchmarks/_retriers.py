"""Those that retry: loops written by hand, the package, and its peers, for ``retries``."""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from backoff_ticker import (
    CancellationToken,
    ConstantBackOff,
    RetryBudget,
    ZeroBackOff,
    attempts,
    retry,
    retry_call,
    retry_call_async,
    set_default_hooks,
    set_default_token,
)
from backoff_ticker.retries._settings import settings
from backoff_ticker.testing import no_wait
from tests.benchmarks._retrying import MOST
from tests.benchmarks._table import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks._retrying import Case, Subject

    Subjects = dict[str, Subject]

BY_HAND = "loop by hand"
CUT_BY_HAND = "loop by hand, asyncio.timeout(3600)"
CUTTING = ("@retry(ZeroBackOff(), token=)", "@retry(ZeroBackOff(), timeout=3600)")
"""What cuts attempts of coroutine functions."""

DELAYS = [0.0] * (MOST - 1)


def loop_by_hand(operation: Callable) -> Callable:
    """Return the loop that one writes instead of using a library."""

    def call() -> object:
        for attempt in range(MOST):
            try:
                return operation()
            except Exception:
                if attempt == MOST - 1:
                    raise
                delay = DELAYS[attempt]
                if delay > 0.0:
                    time.sleep(delay)
        return None

    return call


def loop_by_hand_async(operation: Callable) -> Callable:
    """Return its twin for coroutine functions."""

    async def call() -> object:
        for attempt in range(MOST):
            try:
                return await operation()
            except Exception:
                if attempt == MOST - 1:
                    raise
                delay = DELAYS[attempt]
                if delay > 0.0:
                    await asyncio.sleep(delay)
        return None

    return call


def cut_loop_by_hand_async(operation: Callable) -> Callable:
    """Return a loop of which each attempt is cut when its time is up."""

    async def attempt() -> object:
        async with asyncio.timeout(3600):
            return await operation()

    return loop_by_hand_async(attempt)


def by_hand(case: Case) -> Subjects:
    """Return the baselines."""
    if not case.awaits:
        return {BY_HAND: case.subject("call()", wrap=loop_by_hand)}
    return {
        BY_HAND: case.subject("await call()", wrap=loop_by_hand_async),
        CUT_BY_HAND: case.subject("await call()", wrap=cut_loop_by_hand_async),
    }


def nothing(_: object) -> None:
    """Stand for a hook, or for a sleep."""


@contextmanager
def tracked() -> Iterator[None]:
    """Keep track of attempts, as retries do once ``current_attempt`` has been imported."""
    settings.change("tracks_attempts", True)
    try:
        yield
    finally:
        settings.change("tracks_attempts", False)


def package(case: Case) -> Subjects:
    """Return what the package has to offer."""
    zero = ZeroBackOff()
    refilled = RetryBudget(retry_cost=0.001)  # by each success, with more than three retries take
    hooks = dict.fromkeys(("on_attempt", "on_retry", "on_success", "on_give_up"), nothing)
    decorators = {
        "ZeroBackOff()": retry(zero),
        "ZeroBackOff(), max_attempts=5": retry(zero, max_attempts=MOST),
        "ConstantBackOff(0), max_attempts=5": retry(ConstantBackOff(0), max_attempts=MOST),
        "ZeroBackOff(), token=": retry(zero, token=CancellationToken()),
        "ZeroBackOff(), timeout=3600": retry(zero, timeout=3600),
        "ZeroBackOff(), budget=": retry(zero, budget=refilled),
        "ZeroBackOff(), four hooks": retry(zero, **hooks),
    }
    function, name = (
        (retry_call_async, "retry_call_async") if case.awaits else (retry_call, "retry_call")
    )
    names = {"retry_call": function, "zero": zero}
    # Unless nothing fails, a default policy would wait.
    default = {"around": no_wait} if case.fails else {}
    suffix = ", in no_wait()" if case.fails else ""
    plain = retry(zero)
    looped = "{} for attempt in attempts(zero):\n    with attempt:\n        AWAIT operation()"
    return {
        f"@retry{suffix}": case.subject("AWAIT call()", wrap=retry, **default),
        **{
            f"@retry({text})": case.subject("AWAIT call()", wrap=decorator)
            for text, decorator in decorators.items()
        },
        f"{name}(f){suffix}": case.subject("AWAIT retry_call(operation)", **names, **default),
        f"{name}(f, ZeroBackOff())": case.subject("AWAIT retry_call(operation, zero)", **names),
        f"{name}(f, ZeroBackOff(), max_attempts=5)": case.subject(
            f"AWAIT retry_call(operation, zero, max_attempts={MOST})", **names
        ),
        "@retry(ZeroBackOff()), default hook": case.subject(
            "AWAIT call()", partial(set_default_hooks, on_retry=nothing), wrap=plain
        ),
        "@retry(ZeroBackOff()), default token": case.subject(
            "AWAIT call()", partial(set_default_token, CancellationToken()), wrap=plain
        ),
        "@retry(ZeroBackOff()), current_attempt in use": case.subject(
            "AWAIT call()", tracked, wrap=plain
        ),
        "attempts(ZeroBackOff())": case.subject(
            looped.format("ASYNC"), attempts=attempts, zero=zero
        ),
        "attempts(ZeroBackOff(), max_attempts=5)": case.subject(
            looped.format("ASYNC").replace("(zero)", f"(zero, max_attempts={MOST})"),
            attempts=attempts,
            zero=zero,
        ),
    }


async def nothing_async(_: object) -> None:
    """Stand for a sleep in a loop."""


@contextmanager
def unslept() -> Iterator[None]:
    """Let sleeps do nothing; with 0 seconds they would cost far more than what is measured."""
    kept = time.sleep, asyncio.sleep
    time.sleep, asyncio.sleep = nothing, nothing_async
    try:
        yield
    finally:
        time.sleep, asyncio.sleep = kept


def with_tenacity(case: Case) -> Subjects:
    """Return the decorator and the loop of tenacity."""
    import tenacity

    options = {
        "retry": tenacity.retry_if_exception_type(Exception),
        "stop": tenacity.stop_after_attempt(MOST),
        "wait": tenacity.wait_none(),
        "sleep": nothing_async if case.awaits else nothing,
        "reraise": True,
    }
    kind = tenacity.AsyncRetrying if case.awaits else tenacity.Retrying
    return {
        "tenacity @retry": case.subject("AWAIT call()", wrap=tenacity.retry(**options)),
        f"tenacity {kind.__name__} loop": case.subject(
            "ASYNC for attempt in retrying:\n    with attempt:\n        AWAIT operation()",
            retrying=kind(**options),
        ),
    }


def with_backoff(case: Case) -> Subjects:
    """Return the decorator of backoff."""
    import backoff

    decorator = backoff.on_exception(
        backoff.constant, Exception, interval=0, max_tries=MOST, jitter=None, logger=None
    )
    return {"backoff.on_exception": case.subject("AWAIT call()", unslept, wrap=decorator)}


def with_stamina(case: Case) -> Subjects:
    """Return the decorator and the loop of stamina, the former also with its log."""
    import stamina

    # What it logs goes nowhere.
    log = logging.getLogger("stamina")
    log.addHandler(logging.NullHandler())
    log.propagate = False

    @contextmanager
    def silent() -> Iterator[None]:
        stamina.instrumentation.set_on_retry_hooks([])
        try:
            with unslept():
                yield
        finally:
            stamina.instrumentation.set_on_retry_hooks(None)

    options = {
        "on": Exception,
        "attempts": MOST,
        "timeout": None,
        "wait_initial": 0,
        "wait_max": 0,
        "wait_jitter": 0,
    }
    decorator = stamina.retry(**options)
    return {
        "stamina.retry, no hooks": case.subject("AWAIT call()", silent, wrap=decorator),
        "stamina.retry": case.subject("AWAIT call()", unslept, wrap=decorator),
        "stamina.retry_context, no hooks": case.subject(
            "ASYNC for attempt in retry_context(**options):\n"
            "    with attempt:\n"
            "        AWAIT operation()",
            silent,
            retry_context=stamina.retry_context,
            options=options,
        ),
    }


def with_google_api_core(case: Case) -> Subjects:
    """Return the decorator of google-api-core."""
    from google.api_core import retry as sync, retry_async

    kind = retry_async.AsyncRetry if case.awaits else sync.Retry
    decorator = kind(
        predicate=sync.if_exception_type(Exception), initial=0, maximum=0, timeout=None
    )
    return {
        f"google-api-core {kind.__name__}": case.subject("AWAIT call()", unslept, wrap=decorator)
    }


PEERS = {
    "tenacity": with_tenacity,
    "backoff": with_backoff,
    "stamina": with_stamina,
    "google-api-core": with_google_api_core,
}


def peers() -> dict[str, Callable[[Case], Subjects]]:
    """Return by name those that are installed; say which are not."""
    from tests.benchmarks._retrying import Case

    found = {}
    for name, build in PEERS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of on import is no matter of ours
            try:
                build(Case(fails=0, awaits=False))
            except ImportError:
                say(f"{name} is not installed: left out")
                continue
        found[name] = build
    return found
