"""The service of the tutorial, as copied from it; test_docs.py runs the steps and its tests."""

import re
import signal

import pytest

from tests.integrations.processes import FILE, ROOT, Process, write_files

pytestmark = pytest.mark.posix

PAGE = ROOT / "docs" / "tutorial.md"
FILES = dict(FILE.findall(PAGE.read_text("utf-8")))
STEPS = [name for name in FILES if name.startswith("step")]


@pytest.fixture(autouse=True)
def files(tmp_path):
    write_files(PAGE, tmp_path)


def test_there_are_six_steps():
    assert len(re.findall(r"^## \d\. ", PAGE.read_text("utf-8"), re.MULTILINE)) == 6
    assert [*FILES] == [*STEPS, "service.py", "test_service.py"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_service_runs_until_it_is_stopped(tmp_path, number):
    with Process(tmp_path, "service.py") as service:
        service.wait_for("4", 2)  # prices are 40 to 44
        status, seconds = service.stop(number)
        assert status == 0
        assert seconds < 10
        assert service.lines[-1] == f"stopped by {number.name}"
        assert service.count("Traceback") == 0
