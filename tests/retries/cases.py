"""Runs that a table holds, each with what comes of it."""

from numbers import Real

from backoff_ticker import ConstantBackOff
from tests.retries.scripts import Recorded, Script, now


def check(face, case):
    """Make a run, and compare what comes of it.

    Args:
        face: The way to run it.
        case: A pair. First: the steps of the script, the policy or the seconds of a constant one,
            and the options or a function that makes them. Second: when the operation is called,
            counted from the start, and what is returned or raised, for which the type will do; if
            it matters, when the run ends, the reason that ``on_give_up`` is told, the cause of the
            error, and how its note ends.
    """
    (steps, backoff, options), (times, end, *rest) = case
    ended, reason, cause, note = [*rest, *[None] * (4 - len(rest))]
    began, script, gave_up = now(), Script(*steps), Recorded()
    backoff = ConstantBackOff(backoff) if isinstance(backoff, Real) else backoff
    options = options() if callable(options) else options
    if reason is not None:
        options = {**options, "on_give_up": gave_up}
    try:
        found = face.run(script, backoff, **options)
    except Exception as error:
        found = error
    assert script.times == [began + one for one in times]
    assert is_as_expected(found, end), found
    if ended is not None:
        assert now() == began + ended
    if reason is not None:
        assert [str(outcome.reason) for _, outcome in gave_up.calls] == [reason]
    if cause is not None:
        assert is_as_expected(found.__cause__, cause), found.__cause__
    if note is not None:
        assert found.__notes__[0].endswith(note)


def is_as_expected(found, expected):
    if isinstance(expected, type):
        return type(found) is expected
    return found is expected if isinstance(expected, BaseException) else found == expected
