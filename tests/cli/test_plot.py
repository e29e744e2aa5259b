"""``backoff-ticker delays --plot``: the diagram, and what stands in its way."""

from __future__ import annotations

import sys

import pytest

from backoff_ticker.cli._delays import Delay
from backoff_ticker.cli._plot import figure_of

from .calling import call, environment, finish, start


def test_plot_writes_a_file_beside_the_table(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "delays.svg"
    said = call("delays exponential --seed 1 --plot", str(path))
    assert (said.status, said.err) == (0, "")
    assert said.out == call("delays exponential --seed 1").out
    assert path.read_bytes().startswith(b"<?xml")


@pytest.mark.slow
def test_plot_of_few_or_no_delays_and_none_too_great(tmp_path):
    pytest.importorskip("matplotlib")
    path = str(tmp_path / "delays.png")
    for line in ("stop", "zero", "constant --interval 2 -n 1", "constant --interval 1e100"):
        said = call(f"delays {line} --plot", path)
        assert (said.status, said.err) == (0, "")
    said = call("delays constant --interval 1e101 --plot", path)
    assert said.complaint == "--plot: delays of more than 1e+100 s cannot be drawn"


@pytest.mark.slow
def test_plot_complains_of_the_file(tmp_path):
    pytest.importorskip("matplotlib")
    said = call("delays go --plot", str(tmp_path / "nowhere" / "x.png"))
    assert "nowhere/x.png': No such file or directory" in said.complaint
    for name in ("", "x", "x.foo", "png"):
        said = call("delays go --plot", name)
        assert said.complaint.startswith(f"--plot: {name!r} must end in one of .")
    (tmp_path / "folder.png").mkdir()
    said = call("delays go --plot", str(tmp_path / "folder.png"))
    assert "folder.png': Is a directory" in said.complaint


def test_plot_without_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = call("delays go --plot x.png")
    assert said.complaint == "--plot needs more packages: pip install 'backoff-ticker[plot]'"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("'xelatex' not found\nor so"), "'xelatex' not found"),
        (FileNotFoundError(2, "No such file or directory"), "[Errno 2] No such file or directory"),
        (ValueError(), "ValueError"),
    ],
)
def test_plot_where_matplotlib_cannot_draw(monkeypatch, tmp_path, error, reason):
    figure = pytest.importorskip("matplotlib.figure")

    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr(figure.Figure, "savefig", fail)
    said = call("delays go --plot", str(tmp_path / "x.png"))
    assert said.complaint == f"--plot: cannot draw '{tmp_path / 'x.png'}': {reason}"
    assert not (tmp_path / "x.png").exists()


@pytest.mark.slow
def test_plot_where_matplotlib_cannot_be_imported(tmp_path):
    pytest.importorskip("matplotlib")
    path = str(tmp_path / "x.png")
    said = finish(start("delays", "go", "--plot", path, env=environment(MPLBACKEND="nonsense")))
    assert said.complaint.startswith(f"--plot: cannot draw '{path}': Key backend: 'nonsense'")
    without_numpy = "sys.modules['numpy'] = None"
    said = finish(start("delays", "go", "--plot", path, before=without_numpy))
    assert "numpy" in said.complaint


@pytest.mark.slow
def test_plot_says_nothing_of_caches(tmp_path):
    pytest.importorskip("matplotlib")
    nowhere = environment(MPLCONFIGDIR="/dev/null/nowhere")
    said = finish(start("delays", "go", "--plot", str(tmp_path / "x.png"), env=nowhere))
    assert (said.status, said.err) == (0, "")


@pytest.mark.parametrize("count", [0, 1, 2, 12])
def test_retries_on_a_diagram_are_whole_numbers_and_their_range_has_an_area(count):
    pytest.importorskip("matplotlib")
    delays = [Delay(retry, 1.0, 0.5, 1.5, 1.0, float(retry)) for retry in range(1, count + 1)]
    (axes,) = figure_of("go", delays).axes
    low, high = axes.get_xlim()
    shown = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert shown
    assert all(tick.is_integer() for tick in shown)
    if delays:
        box = axes.collections[0].get_datalim(axes.transData)
        assert box.width > 0.0
        assert box.height == 1.0
