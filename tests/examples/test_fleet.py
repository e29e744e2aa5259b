"""The example of a fleet: what it tells of its devices, and that no wait outlives a signal."""

import signal
import time

import pytest

from .test_examples import OUTPUT

pytestmark = [pytest.mark.slow, pytest.mark.posix]
WAYS = pytest.mark.parametrize("options", [(), ("--loop",)], ids=["threads", "loop"])


@WAYS
def test_it_polls_all_devices_and_tells_how_they_are(start, options):
    process = start("fleet", "--devices=200", *options)
    title = process.stdout.readline()
    polls = most_failing = 0
    while polls < 400:
        healthy, failing, polled, lateness, _ = process.stdout.readline().split()
        assert int(healthy) + int(failing) == 200
        assert float(lateness) >= 0
        polls += int(polled)
        most_failing = max(most_failing, int(failing))
    process.send_signal(signal.SIGTERM)
    assert process.finish()[-1] == "stopped: SIGTERM"
    assert most_failing > 0
    kept = (OUTPUT / "fleet.txt").read_text("utf-8").splitlines()
    assert (kept[0], kept[-1]) == (title.rstrip(), "stopped: SIGINT")
    assert {len(line.split()) for line in kept[1:-1]} == {5}


@WAYS
def test_a_signal_ends_it_although_the_next_poll_is_due_in_nine_seconds(start, options):
    process = start("fleet", "--devices=1", *options)
    process.stdout.readline()
    while process.stdout.readline().split()[2] != "1":  # the only poll of ten seconds
        pass
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.finish()[-1] == "stopped: SIGINT"
    assert time.monotonic() - began < 6
