"""What the benchmark scripts share: options, interleaved rounds, medians, tables."""

from __future__ import annotations

import argparse
import operator
import platform
import sys
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Figures = dict[str, float]

_OPERATORS = {"<=": operator.le, ">=": operator.ge}


def options(doc: str, *, rounds: int, **flags: str) -> argparse.Namespace:
    """Parse the command line: ``--rounds``, ``--quick``, and switches given as name=help."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help=f"rounds of each comparison (default {rounds})")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: a smoke test")
    for name, text in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    chosen = parser.parse_args()
    if chosen.rounds is None:
        chosen.rounds = 1 if chosen.quick else rounds
    if chosen.rounds < 1:
        parser.error("--rounds must be at least 1")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    say(f"{python}, medians of {chosen.rounds} interleaved rounds")
    return chosen


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def interleaved(
    subjects: Mapping[str, Callable[[], Figures]], rounds: int, *, warm_up: bool = False
) -> list[dict[str, Figures]]:
    """Measure each subject once a round, in an order that changes from round to round.

    Args:
        subjects: Each callable measures once and returns its figures by name.
        rounds: How often.
        warm_up: Whether a round that does not count comes first.
    """
    names = list(subjects)
    if warm_up:
        for name in names:
            subjects[name]()
    measured = []
    for number in range(rounds):
        shift = number % len(names)
        order = names[shift:] + names[:shift]
        this = {name: subjects[name]() for name in order}
        measured.append({name: this[name] for name in names})
    return measured


def show(
    title: str,
    measured: Sequence[Mapping[str, Figures]],
    goals: Mapping[tuple[str, str], str] | None = None,
    *,
    only: Sequence[str] = (),
) -> None:
    """Print the medians of some rounds.

    Args:
        title: Stands above the table.
        measured: For each round the figures of each subject.
        goals: By subject and figure: ``"<= 1.2x; 1.1x"`` is the goal and, after the semicolon,
            the stretch. With an ``x`` the ratio to the baseline is judged, else the figure.
        only: The subjects to show; the first is the baseline. Empty: all.
    """
    result = {
        subject: {
            figure: median(each[subject][figure] for each in measured)
            for figure in measured[0][subject]
        }
        for subject in only or measured[0]
    }
    _print(title, result, goals or {})


def _print(title: str, result: dict[str, Figures], goals: Mapping[tuple[str, str], str]) -> None:
    baseline = next(iter(result.values()))
    lines = [(title, "figure", "", "ratio", "goal; stretch")]
    for subject, figures in result.items():
        label = subject
        for name, value in figures.items():
            base = baseline.get(name)
            ratio = value / base if base else None
            shown = f"{ratio:.2f}x" if ratio is not None else "-"
            goal = goals.get((subject, name))
            judged = f"{goal}: {_judge(goal, value, ratio)}" if goal else ""
            lines.append((label, name, _number(value), shown, judged))
            label = ""
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    say("")
    for index, (label, name, value, ratio, goal) in enumerate(lines):
        cells = (
            label.ljust(widths[0]),
            name.ljust(widths[1]),
            value.rjust(widths[2]),
            ratio.rjust(widths[3]),
            goal,
        )
        say("  ".join(cells).rstrip())
        if index == 0:
            say("-" * (sum(widths) + 8))


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.3f}"


def _judge(goal: str, value: float, ratio: float | None) -> str:
    least, _, stretch = goal.partition(";")
    sign, _, bound = least.partition(" ")
    met = [
        _OPERATORS[sign](
            (ratio if ratio is not None else float("nan")) if text.endswith("x") else value,
            float(text.rstrip("x").replace(",", "")),
        )
        for text in (bound.strip(), stretch.strip())
        if text
    ]
    if not met[0]:
        return "MISSED"
    return "stretch met" if len(met) > 1 and met[1] else "met"
