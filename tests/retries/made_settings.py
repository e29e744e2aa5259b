"""What retries obey of the settings of the process."""

from backoff_ticker import Cancelled, ZeroBackOff, is_active, retry_call
from tests.retries.scripts import Script

TOLD = []

NOTHING = (True, [], None)
"""What a retry obeys where nothing is set."""


def told(name):
    """Return a hook that says its name as it is called."""
    return lambda *_: TOLD.append(name)


def obeyed():
    """Return what a retry obeys: whether it is active, hooks called, the default token's cause."""
    TOLD.clear()
    cause, script = None, Script(OSError, 7)
    try:
        retry_call(script, ZeroBackOff())
    except OSError:
        assert not is_active()
    except Cancelled as error:
        cause = error.cause
    return script.count == 2 or cause is not None, TOLD[:], cause
