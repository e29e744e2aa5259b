"""What the benchmark scripts share: options, interleaved rounds, medians side by side."""

import argparse
import platform
from importlib.util import find_spec
from statistics import median


def options(doc, *, rounds, **flags):
    """Parse the command line: ``--rounds``, ``--quick``, and what is given as name=help.

    A help text makes a switch; a dictionary is what ``add_argument()`` takes instead.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help=f"rounds of each comparison (default {rounds})")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: a smoke test")
    for name, text in flags.items():
        switch = {"action": "store_true", "help": text}
        parser.add_argument(f"--{name}", **(text if isinstance(text, dict) else switch))
    chosen = parser.parse_args()
    if chosen.rounds is None:
        chosen.rounds = 1 if chosen.quick else rounds
    if chosen.rounds < 1:
        parser.error("--rounds must be at least 1")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    say(f"{python}, medians of {chosen.rounds} interleaved rounds")
    return chosen


def say(text=""):
    print(text, flush=True)


def is_installed(package):
    """Return whether a package is installed; say so if it is not."""
    try:
        if find_spec(package):
            return True
    except ModuleNotFoundError:  # of the package in which it is
        pass
    say(f"{package} is not installed: left out")
    return False


def interleaved(subjects, rounds, *, warm_up=False):
    """Measure each subject once a round, in an order that changes from round to round.

    A subject returns its figures by name. The first round does not count if it is to warm up.
    """
    names = list(subjects)
    if warm_up:
        for name in names:
            subjects[name]()
    measured = []
    for number in range(rounds):
        shift = number % len(names)
        this = {name: subjects[name]() for name in names[shift:] + names[:shift]}
        measured.append({name: this[name] for name in names})
    return measured


def compare(title, subjects, rounds, *, warm_up=False):
    """Measure as above and print the medians, beside those of the first subject."""
    show(title, interleaved(subjects, rounds, warm_up=warm_up))


def show(title, measured, only=()):
    """Print the medians of some rounds, and their ratios to those of the first subject.

    Args:
        title: Stands above the table.
        measured: For each round the figures of each subject.
        only: The subjects to show. Empty: all.
    """
    names = list(only or measured[0])
    lines = [(title, "figure", "", "ratio")]
    for name in names:
        label = name
        for figure in measured[0][name]:
            value, base = (
                median(figures[subject].get(figure, 0.0) for figures in measured)
                for subject in (name, names[0])
            )
            lines.append((label, figure, _number(value), f"{value / base:.2f}x" if base else "-"))
            label = ""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    say()
    for label, figure, value, ratio in lines:
        left = f"{label:{widths[0]}}  {figure:{widths[1]}}"
        say(f"{left}  {value:>{widths[2]}}  {ratio:>{widths[3]}}")


def _number(value):
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.3f}"
