"""Where policies draw from, also in forked children."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random, SystemRandom

import pytest

from backoff_ticker._random import as_rng, shared_random
from tests.helpers import readable_id

ROOT = Path(__file__).parents[2]

FORK = """
import json, os, random
from backoff_ticker import ExponentialBackOff

unseeded = ExponentialBackOff(1, 0.5, 1, 1)
seeded = ExponentialBackOff(1, 0.5, 1, 1, rng=random.Random(7))
unseeded.next_backoff(), seeded.next_backoff()

def drawn():
    policies = (unseeded, seeded)
    return [[policy.next_backoff() for _ in range(5)] for policy in policies]

def child():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, json.dumps(drawn()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(text)

print(json.dumps([child(), child(), drawn()]))
"""


@pytest.fixture(scope="module")
def forked():
    """What two forked children and then their parent drew, unseeded and seeded."""
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_forked_children_and_their_parent_draw_different_numbers(forked):
    unseeded = [draws[0] for draws in forked]
    numbers = {number for draws in unseeded for number in draws}
    assert len(numbers) == 15


def test_the_generator_of_a_user_is_left_alone_in_a_forked_child(forked):
    first, second, parent = (draws[1] for draws in forked)
    assert first == second == parent


def test_the_shared_generator_draws_from_zero_to_one():
    numbers = [shared_random() for _ in range(1000)]
    assert all(0.0 <= number < 1.0 for number in numbers)
    assert len(set(numbers)) > 990


def test_a_generator_of_any_subclass_is_taken_as_it_is():
    for rng in (Random(1), SystemRandom(), None):
        assert as_rng("rng", rng) is rng


@pytest.mark.parametrize("value", [1, "x", Random, Random(1).random], ids=readable_id)
def test_anything_else_is_refused_by_name(value):
    with pytest.raises(TypeError) as caught:
        as_rng("the_rng", value)
    assert str(caught.value) == f"the_rng must be a random.Random or None, not {value!r}"
