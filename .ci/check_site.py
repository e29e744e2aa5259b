"""Check a built documentation site: ``python .ci/check_site.py FOLDER``.

Each page has a title and a description, and loads scripts, styles, fonts and pictures from the site
alone, so that it works without network and tells no other host who reads it. Each link inside the
site leads to a page and, if it names one, to a place on it.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

OTHER_HOST = re.compile(r"(https?:)?//", re.IGNORECASE)
LOADED_BY_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)
LINKS = {"author", "canonical", "edit", "help", "index", "license", "next", "prev", "search"}


class Page(HTMLParser):
    """What a page is called, what a browser loads to show it, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: set[str] = set()
        self.places = {""}
        self.has_title = False
        self.has_description = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag loads."""
        values = {name: value or "" for name, value in attrs}
        self.places.add(values.get("id", ""))
        if tag == "a" and not re.match(r"[a-z]+:", values.get("href", "")):
            self.links.add(values.get("href", ""))
        self.has_title |= tag == "title"
        self.has_description |= values.get("name") == "description" and bool(values["content"])
        if tag == "link" and not LINKS & set(values.get("rel", "").split()):
            self.loaded.append(values.get("href", ""))
        elif tag != "link":
            self.loaded += [values.get(name, "") for name in ("src", "srcset", "data", "poster")]


def faults_of(site: Path) -> list[str]:
    """Return what is wrong, as lines to print."""
    faults = []
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        faults.append(f"{site}: no page")
    for path, page in pages.items():
        name = path.relative_to(site)
        # Sphinx lets pages of source link back as if all their names were of one module.
        for link in sorted(page.links if name.parts[0] != "_modules" else ()):
            file, place = urldefrag(link)
            target = (path.parent / unquote(file)).resolve() if file else path
            there = pages.get(target)
            if not target.exists() or (there and unquote(place) not in there.places):
                faults.append(f"{name}: leads nowhere: {link}")
        faults += [f"{name}: loads {it}" for it in page.loaded if OTHER_HOST.match(it)]
        generated = name.parts[0] in {
            "_modules",
            "genindex.html",
            "py-modindex.html",
            "search.html",
        }
        if not page.has_title:
            faults.append(f"{name}: no title")
        if not page.has_description and not generated:
            faults.append(f"{name}: no description")
    for path in sorted([*site.rglob("*.css"), *site.rglob("*.svg")]):
        text = path.read_text("utf-8")
        found = LOADED_BY_STYLE.findall(text)
        if path.suffix == ".svg":
            found += re.findall(r"href=\"((?:https?:)?//[^\"]+)", text)
        faults += [f"{path.relative_to(site)}: loads {it}" for it in found]
    return faults


if __name__ == "__main__":
    sys.exit("\n".join(faults_of(Path(sys.argv[1]).resolve())) or None)
