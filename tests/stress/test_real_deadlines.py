"""Deadlines of tokens on system time: the scheduler thread calls back."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from backoff_ticker import CancellationToken, DeadlineExceeded
from tests.helpers import PATIENCE


def test_callbacks_on_a_deadline_run_in_the_scheduler_thread_of_the_system_clock() -> None:
    names: list[str] = []
    done = threading.Event()
    token = CancellationToken().child(timeout=0.5)

    def callback() -> None:
        names.append(threading.current_thread().name)
        done.set()

    token.on_cancel(callback)
    assert done.wait(PATIENCE)
    assert names == ["backoff_ticker-scheduler"]
    assert isinstance(token.cause, DeadlineExceeded)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_no_error_of_a_callback_stops_the_deadlines_of_others(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reports.append)
    done = threading.Event()
    root = CancellationToken()

    def fail() -> None:
        raise error

    # Far enough away to be registered before; late, the first would run, and raise, right here.
    root.child(timeout=1.0).on_cancel(fail)
    root.child(timeout=1.1).on_cancel(done.set)
    assert done.wait(PATIENCE)
    assert [report.exc_type for report in reports] == [error]
