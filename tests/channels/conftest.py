"""Fixtures of the channel tests: who sends and who receives."""

import pytest

from tests.channels.ends import End
from tests.helpers import TRIO


@pytest.fixture(params=["thread", "loop", TRIO])
def senders(request, clock):
    """Those who send; with ``receivers`` a test runs in all nine combinations."""
    made = End(request.param)
    yield made
    made.close()


receivers = senders  # those who receive, select and merge; not in the loop of the senders
