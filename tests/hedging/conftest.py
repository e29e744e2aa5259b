"""The fixtures of the retry tests, which hedged calls use, too."""

from tests.retries.conftest import clock, hedge  # noqa: F401 - pytest finds them by name
