"""``backoff-ticker feedback``: logs of failures and successes, and what policies answer."""

import pytest

from .calling import LIMD, call

CONSTANT = "constant --delay 2"
ELAPSED = f"{CONSTANT} --max-elapsed-time 5"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{LIMD} 0 0 0 1 1 1 0 0 0", "2 6 10 2 1 1 5 9 13"),
        (f"limd 0 0 0 1 1 1 0 0 0 {LIMD.removeprefix('limd')}", "2 6 10 2 1 1 5 9 13"),
        ("fibonacci --initial-delay1 0 --initial-delay2 1 0 0 0 0 0 1", "0 1 1 2 3 0"),
        (f"{CONSTANT} --delay-on-success 1.5 0 1 0", "2 1.5 2"),
        # numbers are as short as they are exact
        ("constant --delay 1e300 0", "1e+300"),
        ("constant --delay .1 0", "0.1"),
        # times may have units
        ("constant --delay 2m --consider-actual-delay 0 0:+1m30s 0:+500ms", "120 150 269.5"),
        (f"{CONSTANT} --max-actual-duration 4 0:1h 0:3603 0:+1s", "2 2 -1"),
        # the names that these policies have elsewhere
        ("constant-feedback --delay 1 0", "1"),
        ("exponential-feedback --initial-delay 1 0 0", "1 2"),
        ("exponential --initial-delay 1 0 0", "1 2"),
        # -1 where the policy gives up
        (f"{CONSTANT} --max-attempts 2 0 0 1 0 0", "2 -1 0 2 -1"),
        (f"{CONSTANT} --max-attempts 2 0:5 0:9 1:7", "2 -1 0"),  # as in the source
        (f"{CONSTANT} --max-retries 2 0 0 0 1 0 0 0", "2 2 -1 0 2 2 -1"),
        (f"{LIMD} --max-interval 7 0 0 0 1", "2 6 7 2"),
        # an item alone: at the time of the item before; later than that; at a timestamp
        (f"{CONSTANT} --consider-actual-delay 0:100 0 0:102", "2 4 4"),
        (f"{CONSTANT} --consider-actual-delay 0 0:+2 0:+4 1:+1", "2 2 0 0"),
        (f"{CONSTANT} --consider-actual-delay 0:1554652553 0:+2 0:1554652559", "2 2 0"),
        (f"{CONSTANT} --consider-actual-delay 0 0:+0.5 0:1.75", "2 3.5 4.25"),
        # a log starts at its first timestamp, or at 0
        (f"{CONSTANT} --max-actual-duration 4 0:1554652553 0:+3 0:+1", "2 2 -1"),
        (f"{CONSTANT} --max-actual-duration 4 0:+4 1 0", "-1 0 -1"),
        # limits around a policy go by these times, too
        (f"{ELAPSED} 0 0:+100 0:+100", "2 -1 -1"),
        (f"{ELAPSED} 0:1554652553 0:+3 0:+1", "2 2 -1"),
        (f"{ELAPSED} 0 1:+100 0", "2 0 -1"),
        (f"{CONSTANT} --max-elapsed-time none 0 0:+100", "2 2"),
        # what goes back stands still for a limit of elapsed time
        (f"{ELAPSED} --max-attempts 2 0 0:4 1:3 0:3", "2 -1 0 -1"),
        (f"{ELAPSED} --max-attempts 2 0 0:3 1:2 0:3", "2 -1 0 2"),
    ],
)
def test_what_policies_answer_to_a_log(line, expected):
    assert call(f"feedback {line}") == (0, expected.replace(" ", "\n") + "\n", "")
