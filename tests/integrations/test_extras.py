"""Each integration has an extra, is imported alone, and says what to install if that is missing.

``.ci/extras.py`` tries each extra in an environment of its own.
"""

import json
import pkgutil
import tomllib
from pathlib import Path

from backoff_ticker import integrations
from tests.integrations.processes import ROOT, run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
MODULES = [each.name for each in pkgutil.iter_modules(integrations.__path__) if each.name[0] != "_"]
OF_THE_COMMAND = {"cli", "plot"}

IMPORT_EACH = f"""
import json, sys
from importlib import import_module

class Missing:
    # Finds nothing but the standard library and the package.
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in {{"backoff_ticker", "janus"}}:
            raise ModuleNotFoundError(f"No module named {{root!r}}", name=root)

sys.path.insert(0, {str(Path(integrations.__file__).parents[2])!r})
sys.meta_path.insert(0, Missing())
said = {{}}
for module in {MODULES!r}:
    try:
        import_module(f"backoff_ticker.integrations.{{module}}")
    except ImportError as error:
        said[module] = str(error)
print(json.dumps(said))
"""


def test_each_module_has_an_extra_of_its_name():
    assert {each.replace("-", "_") for each in EXTRAS} - OF_THE_COMMAND == {*MODULES}


def test_where_its_package_is_missing_a_module_names_its_extra():
    (line,) = run(IMPORT_EACH)
    said = json.loads(line)
    assert {"httpx", "prometheus"} <= said.keys()
    advice = {module: text.partition(": ")[2] for module, text in said.items()}
    assert advice == {
        module: f"pip install 'backoff-ticker[{module.replace('_', '-')}]'" for module in said
    }, "import the package in `with imports_of_extra(...):`"
