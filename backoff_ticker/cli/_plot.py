"""``--plot FILE``: diagrams, with matplotlib, the extra ``plot``."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from ._param_types import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_figure(make: Callable[[], Figure], path: str | None) -> None:
    """Write a diagram to a file, if there is one; its suffix selects the format."""
    if path is None:
        return
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it logs about its caches
    try:
        image = _image(make, path)
    except click.UsageError:
        raise
    except Exception as error:  # matplotlib reports what is missing by various errors
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("matplotlib"):
            hint = "--plot needs more packages: pip install 'backoff-ticker[plot]'"
            raise click.UsageError(hint) from error
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise click.UsageError(f"--plot: cannot draw {path!r}: {reason}") from error
    try:
        Path(path).write_bytes(image)
    except OSError as error:
        raise click.UsageError(f"--plot: cannot write {path!r}: {error.strerror}") from error


def _image(make: Callable[[], Figure], path: str) -> bytes:
    figure = make()
    known = figure.canvas.get_supported_filetypes()
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in known:
        endings = ", ".join(f".{name}" for name in sorted(known))
        raise click.UsageError(f"--plot: {path!r} must end in one of {endings}")
    image = io.BytesIO()
    figure.savefig(image, format=ending)
    return image.getvalue()


def title_of(name: str, values: Mapping[str, object]) -> str:
    """Return a name, and below it the values that are set: ``base 1, cap 20, seed 7``."""
    words = []
    for key, value in values.items():
        flag = key.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"no-{flag}")
        elif value is not None:
            words.append(f"{flag} {exact(value) if isinstance(value, float) else value}")
    return f"{name}\n{', '.join(words)}"


def panels(title: str, count: int, *, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Return a new diagram, and its panels, one below the other.

    The first line of the title is a name, the others are in smaller letters.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 8.0), layout="constrained")
    all_axes = [*figure.subplots(count, 1, squeeze=False, sharey=sharey)[:, 0]]
    name, _, parameters = title.partition("\n")
    figure.suptitle(name, fontsize="x-large")
    wrapped = wrap(parameters, 100, break_on_hyphens=False)
    all_axes[0].set_title("\n".join(wrapped), fontsize="small")
    for axes in all_axes:
        axes.grid(alpha=0.3)
    return figure, all_axes


def add_legend(figure: Figure) -> None:
    """Add the legend of the first panel below the diagram, where it covers nothing."""
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2)


def figure_of_lines(
    title: str,
    x: str,
    points: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    grey: tuple[float, float] | None = None,
) -> Figure:
    """Return a diagram of lines, in panels one below the other, with ``x`` below the last.

    ``points`` has, by what the ordinate of a panel shows, the points of each line by its label. If
    a part of the abscissa is ``grey``, the panels share the ordinate.
    """
    figure, all_axes = panels(title, len(points), sharey=grey is not None)
    for axes, (y, lines) in zip(all_axes, points.items(), strict=True):
        for label, xy in lines.items():
            axes.plot(*xy, marker="o" if grey is None else "", label=label)
        axes.set(xlabel=x, ylabel=y, xlim=(0.0, None), ylim=(0.0, None))
        if grey is not None:
            axes.axvspan(*grey, color="0.9", zorder=0)
    add_legend(figure)
    return figure
