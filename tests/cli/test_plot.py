"""``backoff-ticker delays --plot``: the diagram, and what stands in its way."""

from __future__ import annotations

import sys

import pytest

from backoff_ticker.cli import _plot
from backoff_ticker.cli._delays import Delay, figure_of

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
    above, below = figure_of("go", delays).axes
    for axis in (above.xaxis, below.yaxis):
        low, high = axis.get_view_interval()
        shown = [tick for tick in axis.get_ticklocs() if low <= tick <= high]
        assert shown
        assert all(tick.is_integer() for tick in shown)
    if delays:
        box = above.collections[0].get_datalim(above.transData)
        assert box.width > 0.0
        assert box.height == 1.0
        box = below.collections[0].get_datalim(below.transData)
        assert (box.xmin, box.xmax) == (0.5, 1.5 * count)
        assert box.height > 0.0


DELAYS = [Delay(1, 1.0, 0.5, 1.5, 0.75, 0.75), Delay(2, 2.0, 1.0, 3.0, 2.5, 3.25)]


def test_a_diagram_shows_each_delay_and_below_it_when_each_retry_comes():
    pytest.importorskip("matplotlib")
    above, below = figure_of("go", DELAYS).axes
    (line,) = above.lines  # none that is no delay
    assert line.get_xydata().tolist() == [[1, 0.75], [2, 2.5]]
    (line,) = below.lines
    assert line.get_xydata().tolist() == [[0.75, 1], [3.25, 2]]


def test_the_legend_of_a_diagram_covers_nothing():
    pytest.importorskip("matplotlib")
    figure = figure_of("go", DELAYS)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["least to greatest", "drawn"]
    for axes in figure.axes:
        assert axes.get_legend() is None
        assert not legend.get_window_extent().overlaps(axes.get_tightbbox())


JAVA = [
    "initial-interval 0.5",
    "randomization-factor 0.5",
    "multiplier 1",
    "max-interval 60",
    "max-elapsed-time 0",
    "no-look-ahead",
]


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        ("full-jitter 1 20s", "base 1, cap 20, multiplier 2"),
        ("full-jitter --base 1 --cap none --seed 7", "base 1, cap none, multiplier 2, seed 7"),
        ("grpc --jitter 0.5 --max-retries 3", "jitter 0.5, max-retries 3"),
        (
            "java --multiplier 1 --max-elapsed-time 0",
            ", ".join(JAVA),
        ),
        ("zero", ""),
    ],
)
def test_a_diagram_names_the_policy_and_its_parameters(monkeypatch, line, parameters):
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(_plot, "write_figure", lambda make, _path: figures.append(make()))
    assert call(f"delays {line} --plot x.png").status == 0
    (figure,) = figures
    assert figure.get_suptitle() == line.split()[0]
    assert " ".join(figure.axes[0].get_title().split()) == parameters
