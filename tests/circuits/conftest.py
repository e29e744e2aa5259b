"""The clocks of the retry tests, which those of circuits use, too."""

from tests.retries.conftest import clock, now  # noqa: F401 - pytest finds them by name
