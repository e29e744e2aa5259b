"""``log_retries()``: a hook that logs."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from backoff_ticker import (
    ConstantBackOff,
    Outcome,
    RetryAfter,
    log_retries,
    retry,
    retry_call,
    set_default_hooks,
)
from tests.retries.faces import BOTH
from tests.retries.scripts import Script


def test_retries_and_the_end_are_logged(face: Any, caplog: pytest.LogCaptureFixture) -> None:
    hook = log_retries()
    script = Script(OSError(1), RetryAfter(1.25, KeyError("no")), OSError(3))
    with pytest.raises(OSError):
        face.run(script, ConstantBackOff(5), max_attempts=3, on_retry=hook, on_give_up=hook)
    assert {(each.name, each.levelname) for each in caplog.records} == {
        ("backoff_ticker", "WARNING")
    }
    said = [each.getMessage().partition(" ")[2] for each in caplog.records]
    name = {each.getMessage().partition(" ")[0] for each in caplog.records}
    assert len(name) == 1
    assert said == [
        "failed in attempt 1, again in 5 s: OSError(1)",
        "failed in attempt 2, again in 1.25 s: KeyError('no')",
        "gave up after 3 attempts, max_attempts; last error: OSError(3)",
    ]


def test_waits_are_shown_in_seconds(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    for delay, shown in [(0, "0"), (0.12345, "0.123"), (999.9, "999.9"), (3600, "3600")]:
        script = Script(OSError, 7)
        retry_call(script, ConstantBackOff(delay), on_retry=log_retries())
        assert f" again in {shown} s: " in caplog.records[-1].getMessage()


def test_a_cut_before_any_error_is_logged_without_one(
    clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @retry(timeout=5, on_give_up=log_retries(), fallback=7)
    async def fetch() -> int:
        await asyncio.sleep(10)
        return 8

    assert clock.run_async(fetch()) == 7
    assert caplog.records[-1].getMessage().endswith(".fetch gave up after 1 attempt, deadline")


@BOTH
def test_the_other_hooks_are_logged_too(face: Any, caplog: pytest.LogCaptureFixture) -> None:
    hook = log_retries()
    face.run(Script(OSError, 7), ConstantBackOff(5), on_attempt=hook, on_success=hook)
    said = [message.partition("operation")[2] for message in caplog.messages]
    assert said == [": attempt 1", ": attempt 2", " succeeded after 2 attempts"]


@BOTH
def test_a_logger_and_a_level_of_ones_own(face: Any, caplog: pytest.LogCaptureFixture) -> None:
    for logger in (
        logging.getLogger("mine"),
        logging.LoggerAdapter(logging.getLogger("mine"), {"job": 7}),
    ):
        hook = log_retries(logger, logging.INFO)
        with caplog.at_level(logging.INFO, "mine"):
            face.run(Script(OSError, 7), ConstantBackOff(5), on_retry=hook, on_give_up=hook)
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("mine", "INFO")
        caplog.clear()
        face.run(Script(OSError, 7), ConstantBackOff(5), on_retry=hook)
        assert caplog.records == []


def test_arguments_are_not_logged(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    @retry(ConstantBackOff(5), max_attempts=2)
    def fetch(token: str, *, password: str) -> None:
        raise OSError

    hook = log_retries()
    with set_default_hooks(on_retry=hook, on_give_up=hook), pytest.raises(OSError):
        fetch("secret", password="secret")
    assert len(caplog.records) == 2
    assert "secret" not in caplog.text
    assert all("secret" not in repr(vars(record)) for record in caplog.records)


def test_an_error_that_cannot_be_shown_is_named_by_its_type(
    clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Shy(Exception):
        def __repr__(self) -> str:
            raise LookupError

    log_retries()(Outcome("fetch", 1, 0.0, 0.0, 5.0, None, Shy()))
    assert caplog.messages == ["fetch failed in attempt 1, again in 5 s: one of type Shy"]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"logger must be a logging\.Logger or None, not 'mine'"):
        log_retries("mine")  # type: ignore[arg-type]
    for wrong in ("INFO", True, 1.5):
        with pytest.raises(TypeError, match="level must be an int"):
            log_retries(None, wrong)  # type: ignore[arg-type]
