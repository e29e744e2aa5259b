"""What is shipped: the project file, the marker for type checkers, the pages beside them."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import pytest

import backoff_ticker

ROOT = Path(__file__).parents[1]
PACKAGE = Path(backoff_ticker.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
URLS = PROJECT["project"]["urls"]
ADDRESS = URLS["Source"]
OWNER, NAME = ADDRESS.removeprefix("https://github.com/").split("/")
SITE = f"https://{OWNER}.github.io/{NAME}/"
"""Where GitHub Pages publishes the documentation."""


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """What the package index shows: of the installed wheel, or of one built from the checkout."""
    if PACKAGE.parent != ROOT:
        return distribution("backoff-ticker").metadata
    pytest.importorskip("hatch_fancy_pypi_readme")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    recorded = f"backoff_ticker-{backoff_ticker.__version__}.dist-info/"
    return PathDistribution(zipfile.Path(wheel, recorded)).metadata


@pytest.fixture
def description(metadata):
    return metadata["Description"]


def test_the_public_address_stands_in_the_project_file_only():
    assert {label for label, url in URLS.items() if not url.startswith(ADDRESS)} == {
        "Documentation"
    }
    assert URLS["Documentation"] == SITE
    files = [
        [ROOT / "CITATION.cff"],
        ROOT.glob("*.md"),
        PACKAGE.rglob("*.py"),
        (ROOT / "examples").rglob("*.py"),
    ]
    files += [(ROOT / folder).rglob("*.[my][dm]*") for folder in ("docs", ".github")]
    elsewhere = [
        path.name
        for paths in files
        for path in paths
        for address in (ADDRESS, SITE)
        if address.removeprefix("https://").rstrip("/") in path.read_text("utf-8")
    ]
    assert elsewhere == []


def test_the_description_links_to_the_files_of_the_release(description):
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert [link for link in links if not link.startswith("https://")] == []
    of_ours = [link for link in links if link.startswith(ADDRESS)]
    assert len(of_ours) > 10
    version = re.escape(backoff_ticker.__version__)
    release = f"{ADDRESS}/(blob|raw)/v{version}/"
    assert [link for link in of_ours if not re.match(release, link)] == []
    pictures = re.findall(r'\bsrc(?:set)?="([^"]*)"', description)
    assert len(pictures) == 2
    for picture in pictures:
        path = re.sub(f"^{ADDRESS}/raw/v{version}/", "", picture)
        assert path.startswith("docs/pictures/")
        assert (ROOT / path).is_file()


def test_the_description_is_the_readme_but_for_the_links(description):
    relative = re.sub(rf"{ADDRESS}/(blob|raw)/v{backoff_ticker.__version__}/", "", description)
    assert relative.strip() == (ROOT / "README.md").read_text("utf-8").strip()


def test_no_link_of_the_rendered_description_is_relative(description):
    """Nor is one to a heading that is not there."""
    pytest.importorskip("readme_renderer")
    from readme_renderer import markdown

    rendered = markdown.render(description).replace("user-content-", "")
    links = re.findall(r"""(?:href|src)=["']([^"']*)""", rendered)
    assert len(links) > 10
    here = [f"#{heading}" for heading in re.findall(r"""\bid=["']([^"']*)""", rendered)]
    assert [link for link in links if not link.startswith("https://") and link not in here] == []
    assert re.findall(r"<img [^>]*\bsrc=.https://[^>]*\.light\.svg", rendered)


def test_the_site_and_the_readme_say_alike_what_it_is_and_show_the_same_picture():
    readme, site = ((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/index.md"))
    assert readme.splitlines()[:3] == site.splitlines()[:3]
    (picture,) = re.findall(r"pictures/[\w.]+", site)
    assert f'src="docs/{picture}"' in readme


def test_the_package_the_project_file_and_the_citation_say_the_same_as_the_readme():
    sentence = (ROOT / "README.md").read_text("utf-8").splitlines()[2].strip("*")
    assert backoff_ticker.__doc__.startswith(f"{sentence}\n")
    assert PROJECT["project"]["description"] == sentence.rstrip(".")
    assert sentence.rstrip(".") in " ".join((ROOT / "CITATION.cff").read_text("utf-8").split())


def test_each_tool_is_pinned_for_ci():
    pinned = {
        line.partition("==")[0]
        for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    wanted = PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"]
    groups = PROJECT["project"]["optional-dependencies"] | PROJECT["dependency-groups"]
    for group in groups.values():
        wanted += [each for each in group if isinstance(each, str)]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted}
    assert names - pinned == {"backoff-ticker"}
