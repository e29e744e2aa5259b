"""``current_attempt()``: an interrupt at any place at which CPython allows one leaves nothing.

Not so in a loop: an interrupt as a block is left may come before the first instruction of ours.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest

from backoff_ticker import ZeroBackOff, current_attempt, retry_call
from tests.helpers import attempts_tracked
from tests.stress.places import InterruptAt, Interrupted, each_place


def flaky(tokens: list[Any]) -> int:
    attempt = current_attempt()
    assert attempt is not None
    tokens.append(attempt.token)
    if attempt.number < 3:
        raise OSError
    return 7


def called(tokens: list[Any]) -> None:
    retry_call(lambda: flaky(tokens), ZeroBackOff())


def called_with_hooks(tokens: list[Any]) -> None:
    retry_call(lambda: flaky(tokens), ZeroBackOff(), on_attempt=lambda _: None)


def nested(tokens: list[Any]) -> None:
    retry_call(lambda: called(tokens), ZeroBackOff(), on=LookupError)


@pytest.mark.parametrize("way", [called, called_with_hooks, nested])
def test_an_interrupt_anywhere_leaves_no_attempt(way: Any) -> None:
    left: set[str] = set()

    def run(interrupt: InterruptAt) -> None:
        def interrupted() -> None:
            tokens: list[Any] = []
            with suppress(Interrupted), interrupt:
                way(tokens)
            if current_attempt() is not None or not all(token.cancelled for token in tokens):
                left.add(str(interrupt.where))

        copy_context().run(interrupted)

    with attempts_tracked():
        assert each_place(run, all_of_them=True) > 20
    assert left == set()
