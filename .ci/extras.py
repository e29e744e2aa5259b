"""Install the built wheel with each extra alone, and use what the extra is for.

    python .ci/extras.py                none of them, and each
    python .ci/extras.py httpx none     these only

Each has an environment of its own, in a throw-away folder. What is looked at there: the package
imports nothing but itself, and without an extra it depends on janus alone; the module of an extra
imports no other integration, and its examples run; a module whose package is missing says which
extra to install.
"""

import doctest
import os
import pkgutil
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
NONE = "none"
SECONDS = 120
COMMANDS = {
    "cli": ["delays", "constant", "1"],
    "plot": ["delays", "constant", "1", "--plot", "picture.svg"],
}
"""What is the command's, and no module's."""
INSIDE = "backoff_ticker.integrations."
OF_NO_EXTRA = ["fastapi"]  # examples that need it stand in the module of Starlette


# In the environment


def check(extra: str) -> None:
    """Check what is installed here."""
    before = {*sys.modules}
    package = import_module("backoff_ticker")
    expect("import backoff_ticker", {*sys.modules} - before, {package.__name__})
    if extra == NONE:
        expect("packages", {each.name for each in distributions()}, {"backoff-ticker", "janus"})
        for name in public_integrations():
            check_message(name)
    elif extra in COMMANDS:
        program = Path(sysconfig.get_path("scripts"), "backoff-ticker")
        subprocess.run([program, *COMMANDS[extra]], check=True, stdout=subprocess.DEVNULL)
    else:
        check_integration(extra.replace("-", "_"))


def check_message(name: str) -> None:
    """Check an integration whose package is missing; some need none to be imported."""
    try:
        import_module(f"{INSIDE}{name}")
    except ImportError as error:
        extra = name.replace("_", "-")
        _, _, advice = str(error).partition(": ")
        expect(f"the error of {name}", advice, f"pip install 'backoff-ticker[{extra}]'")


def check_integration(name: str) -> None:
    """Import an integration, and run the examples in it and in the files that it imports."""
    import_module(f"{INSIDE}{name}")
    others = {*public_integrations()} - {name}
    loaded = {each.rpartition(".")[2]: sys.modules[each] for each in sys.modules if INSIDE in each}
    expect("other integrations", {*loaded} & others, set())
    absent = re.compile(rf"\b(integrations\.({'|'.join(others)})|{'|'.join(OF_NO_EXTRA)})\b")
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for module in loaded.values():
        for example in doctest.DocTestFinder().find(module, globs={}):
            if not absent.search(example.docstring):
                runner.run(example)
    expect("examples", runner.tries > 0, True)
    expect("examples that fail", runner.failures, 0)


def public_integrations() -> list[str]:
    """Return the names of the modules that users import."""
    folder = import_module("backoff_ticker.integrations").__path__
    return [each.name for each in pkgutil.iter_modules(folder) if not each.name.startswith("_")]


def expect(what: str, found: object, wanted: object) -> None:
    """End the program if something is not as it should be."""
    if found != wanted:
        sys.exit(f"{what}: {found!r}, not {wanted!r}")


# Outside


def main(wanted: list[str]) -> int:
    """Check each in an environment of its own, as many at a time as there are processors."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    known = [NONE, *settings["project"]["optional-dependencies"]]
    unknown = {*wanted} - {*known}
    if unknown:
        sys.exit(f"no such extra: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"):
        os.environ.setdefault(name, str(ROOT / ".ci" / "constraints.txt"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT])
        (wheel,) = folder.glob("*.whl")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            passed = list(pool.map(lambda extra: try_out(wheel, extra), wanted or known))
    return 0 if all(passed) else 1


def try_out(wheel: Path, extra: str) -> bool:
    """Install the wheel with one extra, check that, and return whether all was well."""
    began = time.monotonic()
    folder = wheel.parent / extra
    venv.create(folder, symlinks=os.name == "posix")
    python = venv.EnvBuilder().ensure_directories(folder).env_exec_cmd
    requirement = f"{wheel}" if extra == NONE else f"{wheel}[{extra}]"
    try:
        run([sys.executable, "-m", "pip", "--python", python, "install", "-q", requirement])
        run([python, "-I", Path(__file__).resolve(), "--check", extra], cwd=folder)
    except subprocess.SubprocessError as error:
        output = getattr(error, "stdout", None)
        report(f"{extra}: FAILED: {error}\n{output or ''}")
        return False
    report(f"{extra}: passed after {time.monotonic() - began:.1f} s")
    if extra == NONE:
        report(f"import backoff_ticker takes {import_time(python):.1f} ms")
    return True


def run(command: list[str | Path], cwd: Path | None = None) -> None:
    """Run a command that has to succeed; what it says is kept for the error."""
    subprocess.run(
        command,
        cwd=cwd,
        check=True,
        timeout=SECONDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def import_time(python: str) -> float:
    """Return the milliseconds by which a program takes longer that imports the package."""

    def least(code: str) -> float:
        times = []
        for _ in range(10):
            began = time.perf_counter()
            run([python, "-I", "-c", code])
            times.append(time.perf_counter() - began)
        return min(times)

    return 1000 * (least("import backoff_ticker") - least("pass"))


def report(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
