"""``--plot FILE``: delays, or the result of a simulation, as a diagram; needs extra ``plot``."""

from __future__ import annotations

import io
import logging
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.figure import Figure

    from ._delays import Delay

_GREATEST = 1e100
"""Seconds: with more, the arithmetic of a diagram would overflow."""

_HALF_A_BAR = 0.1
"""Retries."""

_LONGEST_LINE = 100
"""Letters in a line of the title."""


def write_diagram(title: str, delays: Sequence[Delay], path: str) -> None:
    """Write a diagram of ``delays`` to a file; its suffix selects the format.

    Args:
        title: The name of the policy, and its parameters in further lines.
        delays: What to draw.
        path: The file.

    Raises:
        click.UsageError: The delays are too great to draw, or ``write_figure`` fails.
    """
    if any(delay.greatest > _GREATEST for delay in delays):
        raise click.UsageError(f"--plot: delays of more than {_GREATEST:g} s cannot be drawn")
    write_figure(lambda: figure_of(title, delays), path)


def write_figure(make: Callable[[], Figure], path: str) -> None:
    """Write a diagram to a file; its suffix selects the format.

    Args:
        make: Makes the diagram.
        path: The file.

    Raises:
        click.UsageError: matplotlib is missing, does not know the format or cannot draw, or the
            file cannot be written.
    """
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
    """Return the content of the file."""
    figure = make()
    known = figure.canvas.get_supported_filetypes()
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in known:
        endings = ", ".join(f".{name}" for name in sorted(known))
        raise click.UsageError(f"--plot: {path!r} must end in one of {endings}")
    image = io.BytesIO()
    figure.savefig(image, format=ending)
    return image.getvalue()


def figure_of(title: str, delays: Sequence[Delay]) -> Figure:
    """Return the diagram: the delay before each retry, and below it when each retry comes.

    Args:
        title: The first line names the policy, the others are in smaller letters.
        delays: What to draw.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8.0, 8.0), layout="constrained")
    above, below = figure.subplots(2, 1)
    name, _, parameters = title.partition("\n")
    figure.suptitle(name, fontsize="x-large")
    above.set_title(
        "\n".join(wrap(parameters, _LONGEST_LINE, break_on_hyphens=False)), fontsize="small"
    )
    retries = [delay.retry for delay in delays]
    sides = (0.0,) if len(delays) > 1 else (-_HALF_A_BAR, _HALF_A_BAR)  # a point has no area
    at = [retry + side for retry in retries for side in sides]

    def range_of(least: Iterable[float], greatest: Iterable[float]) -> list[list[float]]:
        return [[value for value in ends for _ in sides] for ends in (least, greatest)]

    least, greatest = range_of(
        (delay.least for delay in delays), (delay.greatest for delay in delays)
    )
    above.fill_between(at, least, greatest, alpha=0.25, linewidth=0.0, label="least to greatest")
    above.plot(retries, [delay.drawn for delay in delays], marker="o", label="drawn")
    above.set(xlabel="retry", ylabel="delay in seconds")
    least, greatest = range_of(
        accumulate(delay.least for delay in delays), accumulate(delay.greatest for delay in delays)
    )
    below.fill_betweenx(at, least, greatest, alpha=0.25, linewidth=0.0)
    below.plot([delay.total for delay in delays], retries, marker="o")
    below.set(xlabel="seconds waited in all", ylabel="retry")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    above.set_ylim(bottom=0.0)
    above.set_xlim(0.5, max(len(delays), 1) + 0.5)
    below.set_xlim(left=0.0)
    below.set_ylim(0.5, max(len(delays), 1) + 0.5)
    for axis in (above.xaxis, below.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    figure.legend(loc="outside lower center", ncols=2)  # where it covers nothing
    return figure


def figure_of_lines(
    title: str,
    x: str,
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    grey: tuple[float, float] | None = None,
) -> Figure:
    """Return a diagram of lines, in panels one below the other.

    Args:
        title: The first line is a name, the others are in smaller letters.
        x: What the abscissa shows.
        panels: By what the ordinate shows, the points of each line by its label.
        grey: What part of the abscissa is grey. The panels then share the ordinate.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 8.0), layout="constrained")
    all_axes = figure.subplots(len(panels), 1, squeeze=False, sharey=grey is not None)[:, 0]
    name, _, parameters = title.partition("\n")
    figure.suptitle(name, fontsize="x-large")
    all_axes[0].set_title(parameters, fontsize="small")
    for axes, (y, lines) in zip(all_axes, panels.items(), strict=True):
        for label, points in lines.items():
            axes.plot(*points, marker="o" if grey is None else "", label=label)
        axes.set(xlabel=x, ylabel=y)
        axes.set_xlim(left=0.0)
        axes.set_ylim(bottom=0.0)
        axes.grid(alpha=0.3)
        if grey is not None:
            axes.axvspan(*grey, color="0.9", zorder=0)
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
