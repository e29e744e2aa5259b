"""Each benchmark script runs to its end at the smallest size; what it measures is not judged."""

import re
from pathlib import Path

import pytest

from tests.helpers import python

ROOT = Path(__file__).parent.parent
# The backoff package uses what Python 3.14 deprecates.
LET_PASS = ["-W", "ignore:'asyncio.iscoroutinefunction':DeprecationWarning"]
SCRIPTS = sorted(
    path.stem
    for path in (ROOT / "tests" / "benchmarks").glob("*.py")
    if not path.stem.startswith("_")
)


@pytest.mark.slow
def test_the_page_names_each_script():
    page = (ROOT / "docs" / "speed_in_detail.md").read_text("utf-8")
    assert sorted(re.findall(r"^python -m tests\.benchmarks\.(\w+)", page, re.MULTILINE)) == SCRIPTS


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "channels" else pytest.mark.slow) for name in SCRIPTS],
)
@pytest.mark.slow
def test_a_benchmark_script_prints_its_table_and_ends_well(name):
    command = ["-W", "error", *LET_PASS, "-m", f"tests.benchmarks.{name}", "--quick"]
    done = python(*command, cwd=ROOT, timeout=220)
    assert (done.returncode, done.stderr) == (0, "")
    if "nothing to measure" in done.stdout:
        pytest.skip(done.stdout.splitlines()[-1])
    assert " ratio\n" in done.stdout
    assert "1.00x" in done.stdout
    assert "nan" not in done.stdout
