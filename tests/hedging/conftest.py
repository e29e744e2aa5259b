"""The fixtures of the retry tests, which hedged calls use, too."""

from tests.retries.conftest import clock, hedge, join_attempts  # noqa: F401 - pytest finds them
