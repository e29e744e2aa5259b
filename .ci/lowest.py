"""Print constraints: the lowest versions that pyproject.toml allows, and what old ones need."""

import sys
import tomllib
from itertools import chain
from pathlib import Path

OF_THEIR_TIME = ["pyparsing<3.3"]  # deprecates what matplotlib 3.8 calls

settings = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))
project, groups = settings["project"], settings["dependency-groups"]
extras = project["optional-dependencies"]
wanted = [
    *project["dependencies"],
    *chain(*extras.values()),
    *groups["test"],
    *groups["integrations"],
]
lowest = [requirement.replace(">=", "==") for requirement in wanted if ">=" in requirement]
sys.stdout.writelines(f"{line}\n" for line in [*lowest, *OF_THEIR_TIME])
