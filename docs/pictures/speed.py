"""How long things take, compared with what they replace: the figures of ``docs/speed.md``."""

import re
from math import log10
from pathlib import Path
from typing import NamedTuple

from svg import WIDTH, Picture

TITLE = "The time that things take, as a multiple of what they replace"
PAGE = Path(__file__).parents[1] / "speed.md"


class Row(NamedTuple):
    """What is shown, and where the page has its figures.

    Attributes:
        label: What it is.
        colour: Where it runs; ``wait``: another library.
        begins: How a line of the page begins.
        cell: Which cell of that line has the ratios, from 1.
        is_rate: Whether they are ratios of speeds rather than of times.
    """

    label: str
    colour: str
    begins: str
    cell: int
    is_rate: bool = False


GROUPS = {
    "A retried call that succeeds at once; a loop by hand = 1": [
        Row("@retry", "thread", "| `@retry(ZeroBackOff())` |", 2),
        Row("google-api-core", "wait", "| google-api-core |", 2),
        Row("backoff", "wait", "| backoff |", 2),
        Row("stamina", "wait", "| stamina", 2),
        Row("tenacity", "wait", "| tenacity", 2),
    ],
    "A call through a closed circuit; one by hand = 1": [
        Row("@breaker", "thread", "| `@breaker` |", 2),
        Row("circuitbreaker", "wait", "| circuitbreaker", 2),
        Row("pybreaker", "wait", "| pybreaker", 2),
    ],
}
