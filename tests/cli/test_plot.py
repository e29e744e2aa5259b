"""``--plot``: the diagrams of ``delays`` and ``simulate``, and what stands in their way."""

import sys

import pytest

from .calling import call

OUTAGE = "simulate outage --clients 5 --healthy 10s --outage 1m --recovery 30s"


@pytest.mark.parametrize(
    "line",
    [
        "delays exponential",
        pytest.param("simulate contention --clients 3,5 --trials 2", marks=pytest.mark.slow),
        pytest.param(OUTAGE, marks=pytest.mark.slow),
    ],
)
def test_plot_writes_a_file_beside_the_table(tmp_path, line):
    pytest.importorskip("matplotlib")
    path = tmp_path / "diagram.svg"
    said = call(f"{line} --seed 1 --plot", str(path))
    assert said == call(f"{line} --seed 1")
    assert path.read_bytes().startswith(b"<?xml")


def test_plot_complains_of_the_file_and_of_delays_that_are_too_great(tmp_path):
    pytest.importorskip("matplotlib")
    said = call("delays constant --interval 1e101 --plot x.png")
    assert said.complaint == "--plot: delays of more than 1e+100 s cannot be drawn"
    said = call("delays go --plot", str(tmp_path / "nowhere" / "x.svg"))
    assert "nowhere/x.svg': No such file or directory" in said.complaint
    for name in ("", "x", "x.foo", "png"):
        said = call("delays go --plot", name)
        assert said.complaint.startswith(f"--plot: {name!r} must end in one of .")


def test_plot_without_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = call("delays go --plot x.png")
    assert said.complaint == "--plot needs more packages: pip install 'backoff-ticker[plot]'"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("'xelatex' not found\nor so"), "'xelatex' not found"),
        (ModuleNotFoundError("no numpy", name="numpy"), "no numpy"),
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


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """A function that calls a line with ``--plot``, and returns the diagram."""
    matplotlib = pytest.importorskip("matplotlib.figure")
    figures = []
    monkeypatch.setattr(matplotlib.Figure, "savefig", lambda self, *_, **__: figures.append(self))

    def draw(line):
        assert call(f"{line} --plot", str(tmp_path / "x.png")).status == 0
        return figures.pop()

    return draw


def points(line):
    return line.get_xydata().tolist()


@pytest.mark.parametrize("line", ["stop", "zero -n 1", "exponential", "constant 1e100 -n 2"])
def test_retries_on_a_diagram_are_whole_numbers(drawn, line):
    above, below = drawn(f"delays {line}").axes
    for axis in (above.xaxis, below.yaxis):
        low, high = axis.get_view_interval()
        shown = [tick for tick in axis.get_ticklocs() if low <= tick <= high]
        assert shown
        assert all(tick.is_integer() for tick in shown)


def test_a_diagram_shows_each_delay_and_below_it_when_each_retry_comes(drawn):
    figure = drawn("delays exponential --initial-interval 2 --multiplier 2 --seed 1 -n 2")
    above, below = figure.axes
    (line,) = above.lines
    (one, first), (two, second) = points(line)
    assert (one, two) == (1, 2)
    ranges = [segment.tolist() for segment in above.collections[0].get_segments()]
    assert ranges == [[[1, 1], [1, 3]], [[2, 2], [2, 6]]]
    (line,) = below.lines
    assert points(line) == [[first, 1], [first + second, 2]]
    ranges = [segment.tolist() for segment in below.collections[0].get_segments()]
    assert ranges == [[[1, 1], [3, 1]], [[3, 2], [9, 2]]]
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["least to greatest", "drawn"]
    for axes in figure.axes:  # the legend covers nothing
        assert not legend.get_window_extent().overlaps(axes.get_tightbbox())


def test_a_diagram_has_a_line_for_each_policy_in_each_panel(drawn):
    calls, seconds = drawn("simulate contention --clients 1,2 --trials 1 a=stop b=stop").axes
    assert (calls.get_xlabel(), calls.get_ylabel()) == ("clients", "calls until all are done")
    assert seconds.get_ylabel() == "seconds until all are done"
    assert [points(line) for line in calls.lines] == [[[1, 1], [2, 2]]] * 2
    assert [line.get_label() for line in seconds.lines] == ["a", "b"]


def test_a_diagram_of_an_outage_has_a_panel_for_each_policy_and_marks_the_outage(drawn):
    figure = drawn(f"{OUTAGE} zero=stop stop")
    assert figure.get_suptitle() == "outage"
    assert [axes.get_ylabel() for axes in figure.axes] == [
        *("calls per second\nzero", "calls per second\nstop")
    ]
    for axes in figure.axes:
        labels = [line.get_label() for line in axes.lines]
        assert labels == ["limit: none", "limit: budget", "limit: breaker"]
        (grey,) = axes.patches
        corners = grey.get_patch_transform().transform(grey.get_path().vertices)
        assert {x for x, _ in corners} == {10.0, 70.0}


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        ("full-jitter --base 1 --cap none --seed 7", "base 1, cap none, multiplier 2, seed 7"),
        ("aws --jitter 0.5", "max-retries 2, jitter 0.5"),
        ("zero", ""),
    ],
)
def test_a_diagram_names_the_policy_and_its_parameters(drawn, line, parameters):
    figure = drawn(f"delays {line}")
    assert figure.get_suptitle() == line.split()[0]
    assert figure.axes[0].get_title() == parameters
    title = drawn("delays java").axes[0].get_title()
    assert title.replace("\n", " ").endswith("max-elapsed-time 900, no-look-ahead")
