"""``backoff-ticker delays --plot``: the diagram, and what stands in its way."""

from __future__ import annotations

import sys

import pytest

from .calling import call


def test_plot_writes_a_file_beside_the_table(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    for ending, first in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        path = tmp_path / f"delays.{ending}"
        said = call(capsys, "delays exponential --seed 1 --plot", str(path))
        assert (said.status, said.err) == (0, "")
        assert said.out == call(capsys, "delays exponential --seed 1").out
        assert path.read_bytes().startswith(first)


def test_plot_of_few_or_no_delays_and_none_too_great(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    path = str(tmp_path / "delays.png")
    for line in ("stop", "zero", "constant --interval 2 -n 1", "constant --interval 1e100"):
        said = call(capsys, f"delays {line} --plot", path)
        assert (said.status, said.err) == (0, "")
    said = call(capsys, "delays constant --interval 1e101 --plot", path)
    assert said.complaint == "--plot: delays of more than 1e+100 s cannot be drawn"


def test_plot_complains_of_the_file(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    said = call(capsys, "delays go --plot", str(tmp_path / "nowhere" / "x.png"))
    assert "nowhere/x.png': No such file or directory" in said.complaint
    for name in ("", "x", "x.foo", "png"):
        said = call(capsys, "delays go --plot", name)
        assert said.complaint.startswith(f"--plot: {name!r} must end in one of .")
    said = call(capsys, "delays go --plot", "x" * 10_000)
    assert said.complaint.startswith(f"--plot: '{'x' * 199}... must end in one of .")
    (tmp_path / "folder.png").mkdir()
    said = call(capsys, "delays go --plot", str(tmp_path / "folder.png"))
    assert "folder.png': Is a directory" in said.complaint
    said = call(capsys, "delays go --plot")
    assert said.complaint == "option '--plot' requires an argument"


def test_plot_without_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = call(capsys, "delays go --plot x.png")
    assert said.complaint == "--plot needs more packages: pip install 'backoff-ticker[plot]'"
