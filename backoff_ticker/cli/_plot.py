"""``--plot FILE``: the delays as a diagram; needs the extra ``plot``."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from ._delays import Delay

_GREATEST = 1e100
"""Seconds: with more, the arithmetic of a diagram would overflow."""

_HALF_A_BAR = 0.1
"""Retries."""


def write_diagram(name: str, delays: Sequence[Delay], path: str) -> None:
    """Write a diagram of ``delays`` to a file; its suffix selects the format.

    Raises:
        click.UsageError: matplotlib is missing, does not know the format or cannot draw, the delays
            are too great to draw, or the file cannot be written.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it logs about its caches
    try:
        image = _image(name, delays, path)
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


def _image(name: str, delays: Sequence[Delay], path: str) -> bytes:
    """Return the content of the file."""
    figure = figure_of(name, delays)
    known = figure.canvas.get_supported_filetypes()
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in known:
        endings = ", ".join(f".{name}" for name in sorted(known))
        raise click.UsageError(f"--plot: {path!r} must end in one of {endings}")
    if any(delay.greatest > _GREATEST for delay in delays):
        raise click.UsageError(f"--plot: delays of more than {_GREATEST:g} s cannot be drawn")
    image = io.BytesIO()
    figure.savefig(image, format=ending)
    return image.getvalue()


def figure_of(name: str, delays: Sequence[Delay]) -> Figure:
    """Return the diagram."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    retries = [delay.retry for delay in delays]
    ranges: list[tuple[float, float, float]] = [
        (delay.retry, delay.least, delay.greatest) for delay in delays
    ]
    if len(ranges) == 1:  # a point has no area
        retry, least, greatest = ranges[0]
        ranges = [(retry + side, least, greatest) for side in (-_HALF_A_BAR, _HALF_A_BAR)]
    axes.fill_between(
        [retry for retry, _, _ in ranges],
        [least for _, least, _ in ranges],
        [greatest for _, _, greatest in ranges],
        alpha=0.25,
        linewidth=0.0,
        label="least to greatest",
    )
    axes.plot(retries, [delay.interval for delay in delays], linestyle="--", label="interval")
    axes.plot(retries, [delay.drawn for delay in delays], marker="o", label="drawn")
    axes.set(title=name, xlabel="retry", ylabel="delay in seconds")
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(0.5, max(len(delays), 1) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.legend()
    return figure
