"""Draw the pictures of the documentation again: ``python docs/pictures/draw.py [NAME ...]``.

Each is drawn by the module of its name, from the library itself on the virtual clock: ``data()``
runs it, ``draw()`` shows what happened, once for light pages and once for dark ones.
"""

import argparse
from importlib import import_module
from pathlib import Path

from svg import THEMES, Picture

HERE = Path(__file__).parent
NAMES = ("cancel", "circuit", "fleet", "jitters", "outage", "paces", "policies", "speed")


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}")
    parser.add_argument("--into", type=Path, default=HERE, help="the folder; default: here")
    options = parser.parse_args()
    for name in options.names or NAMES:
        module = import_module(name)
        data = module.data()
        for theme in THEMES:
            picture = Picture(theme, module.HEIGHT, module.TITLE)
            module.draw(picture, data)
            path = options.into / f"{name}.{theme}.svg"
            path.write_bytes(picture.svg().encode())


if __name__ == "__main__":
    main()
