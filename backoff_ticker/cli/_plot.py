"""``--plot FILE``: the delays as a diagram; what it needs is the extra ``plot``."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .._numbers import shown
from ._extras import install_hint, is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._delays import Delay

__all__ = ["plot"]

_GREATEST = 1e100
"""Seconds: beyond, the arithmetic of a diagram leaves the range of floats."""


def plot(name: str, delays: Sequence[Delay], path: str) -> None:
    """Write a diagram of ``delays`` to a file; the end of its name tells the format.

    Raises:
        click.UsageError: matplotlib is missing or does not know the format, the delays are too
            great to draw, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ModuleNotFoundError as error:
        if not is_missing(error, "matplotlib"):
            raise
        raise click.UsageError(install_hint("--plot", "plot")) from error
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of caches of fonts
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    known = figure.canvas.get_supported_filetypes()
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in known:
        endings = ", ".join(f".{name}" for name in sorted(known))
        raise click.UsageError(f"--plot: {shown(path)} must end in one of {endings}")
    if any(delay.greatest > _GREATEST for delay in delays):
        raise click.UsageError(f"--plot: delays of more than {_GREATEST:g} s cannot be drawn")
    axes = figure.add_subplot()
    retries = [delay.retry for delay in delays]
    axes.fill_between(
        retries,
        [delay.least for delay in delays],
        [delay.greatest for delay in delays],
        alpha=0.25,
        linewidth=0.0,
        label="least to greatest",
    )
    axes.plot(retries, [delay.interval for delay in delays], linestyle="--", label="interval")
    axes.plot(retries, [delay.drawn for delay in delays], marker="o", label="drawn")
    axes.set(title=name, xlabel="retry", ylabel="delay in seconds")
    axes.set_ylim(bottom=0.0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    image = io.BytesIO()
    figure.savefig(image, format=ending)
    try:
        Path(path).write_bytes(image.getvalue())
    except OSError as error:
        raise click.UsageError(f"--plot: cannot write {shown(path)}: {error.strerror}") from error
