"""The pictures of the documentation are what their scripts draw, and each stands on a page."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LIGHT = sorted(path.name.removesuffix(".light.svg") for path in PICTURES.glob("*.light.svg"))
DARK = sorted(path.name.removesuffix(".dark.svg") for path in PICTURES.glob("*.dark.svg"))
TAKES_SECONDS = {"fleet", "outage"}

IN_MARKDOWN = re.compile(r"!\[([^\]]*)\]\(([^)]+\.svg)\)")
IN_HTML = re.compile(r"""(?:src|srcset)=["']([^"']+\.svg)["']""")


def pictures_of(page):
    text = page.read_text("utf-8")
    used = [path for _, path in IN_MARKDOWN.findall(text)] + IN_HTML.findall(text)
    return [(page.parent / path).resolve() for path in used if not path.startswith("https:")]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in TAKES_SECONDS else [])
        for name in LIGHT
    ],
)
def test_a_picture_is_what_its_script_draws(name, tmp_path):
    """If not: ``python docs/pictures/draw.py``, and look at what has changed."""
    pytest.importorskip("click")
    pytest.importorskip("rich")
    command = [sys.executable, PICTURES / "draw.py", "--into", tmp_path, name]
    subprocess.run(command, check=True, cwd=ROOT)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in PICTURES.glob(f"{name}.*.svg")}


def test_each_picture_has_a_light_and_a_dark_variant_and_a_script():
    assert LIGHT == DARK
    assert [name for name in LIGHT if not (PICTURES / f"{name}.py").exists()] == []


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_small_and_its_text_is_legible(path):
    assert path.stat().st_size < 60_000
    root = ET.parse(path).getroot()
    sizes = [float(each.get("font-size")) for each in root.findall(".//{*}text")]
    assert min(sizes) >= 11
    assert root.findtext("{*}title")


def test_each_picture_stands_on_a_page_and_each_page_has_its_pictures():
    used = {path for page in PAGES for path in pictures_of(page)}
    assert [path for path in used if not path.exists()] == []
    shown = {path.name.partition(".")[0] for path in used if path.parent == PICTURES}
    assert shown == set(LIGHT)


def test_pages_name_the_light_variant_and_describe_the_picture():
    for page in PAGES:
        text = page.read_text("utf-8")
        for description, path in IN_MARKDOWN.findall(text):
            assert description.strip(), page.name
            assert path.endswith(".light.svg") or path.startswith("https:"), page.name
        for tag in re.findall(r"<img\b[^>]*>", text):
            assert re.search(r"""\balt=["']\s*[^"'\s]""", tag), page.name


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_site_shows_the_variant_that_fits(tmp_path):
    for package in ("furo", "myst_parser", "sphinx"):
        pytest.importorskip(package)
    (tmp_path / "in").mkdir()
    for theme in ("light", "dark"):
        (tmp_path / f"it.{theme}.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "index.md").write_text(
        "# Index\n\n```{toctree}\nin/page\n```\n\n![A *picture*](it.light.svg)\n"
    )
    (tmp_path / "in" / "page.md").write_text("# Page\n\n![Again](../it.light.svg)\n")
    command = [sys.executable, "-m", "sphinx", "-qW", "-c", ROOT / "docs", tmp_path, tmp_path / "x"]
    subprocess.run(command, check=True, cwd=ROOT)
    for page, to_images, text in (("index", "", "A picture"), ("in/page", "../", "Again")):
        found = re.findall(r"<img[^>]*>", (tmp_path / "x" / f"{page}.html").read_text("utf-8"))
        assert found == [
            f'<img alt="{text}" class="only-{theme}" src="{to_images}_images/it.{theme}.svg" />'
            for theme in ("light", "dark")
        ]
