"""Corners of what is taken for an operation, a policy, a decorated function."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from backoff_ticker import (
    ZeroBackOff,
    retry,
    retry_call,
)
from backoff_ticker.testing import no_wait


def test_a_mock_can_be_retried():
    """Each of its attributes is another mock, for ever."""
    operation = Mock(side_effect=[OSError, 7])
    assert retry_call(operation, ZeroBackOff()) == 7
    assert retry(ZeroBackOff())(Mock(side_effect=[OSError, 7]))() == 7


def test_bare_it_decorates_class_and_static_methods():
    class Client:
        tries = 0

        @retry
        @classmethod
        def fetch(cls):
            cls.tries += 1
            if cls.tries < 3:
                raise OSError
            return cls

        @retry
        @staticmethod
        def parse(text):
            return int(text)

    with no_wait():
        assert Client.fetch() is Client
    assert Client().parse("7") == 7


@pytest.mark.parametrize("wrong", [OSError, (OSError, ValueError), (OSError,)])
def test_what_is_retried_is_not_taken_for_a_policy(wrong):
    with pytest.raises(TypeError, match=r"retry\(on=...\)"):
        retry(wrong)


def test_a_property_is_told_to_go_above():
    with pytest.raises(TypeError, match="goes above it"):
        retry(property(lambda _: 1))
