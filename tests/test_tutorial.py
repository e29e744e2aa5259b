"""The tutorial, followed by copy and paste; its tests are run by test_docs.py."""

import re
import signal

import pytest

from tests.integrations.processes import FILE, ROOT, Process
from tests.test_docs import EXPECTED

pytestmark = pytest.mark.posix

PAGE = ROOT / "docs" / "tutorial.md"
FILES = dict(FILE.findall(PAGE.read_text("utf-8")))
STEPS = [name for name in FILES if name.startswith("step")]


@pytest.fixture(autouse=True)
def files(tmp_path):
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, "utf-8")


def test_there_are_six_steps():
    assert len(re.findall(r"^## \d\. ", PAGE.read_text("utf-8"), re.MULTILINE)) == 6
    assert [*FILES] == [*STEPS, "service.py", "test_service.py"]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_prints_what_it_says(name, tmp_path):
    with Process(tmp_path, "-W", "error", name) as step:
        assert step.wait() == 0
        assert step.lines == EXPECTED.findall(FILES[name])


def test_ctrl_c_ends_step_4_in_the_middle_of_a_wait(tmp_path):
    code = re.sub(r".*raise_signal.*\n", "", FILES["step4.py"])
    (tmp_path / "step4.py").write_text(code, "utf-8")
    with Process(tmp_path, "step4.py") as step:
        step.wait_for("price 42")
        assert step.stop(signal.SIGINT)[0] == 0
        assert step.lines == ["price 42", "stopped by SIGINT"]


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
