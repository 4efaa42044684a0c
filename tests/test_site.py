"""The site: it builds, no link is broken, nothing is loaded from another host."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import scribe_spark
from tools.check_site import main, problems

ROOT = Path(__file__).resolve().parents[1]

#: What the gallery's page links to.
REPORTS = ("run/report.html", "world/report.html", "compare/compare.html")

GOOD = '<p id="here"><a href="b.html#there">b</a><a href="#here"></a><a href="https://x.org">x</a>'

BAD = {
    '<a href="c.html">': "no file c.html",
    '<a href="b.html#nowhere">': "no name b.html#nowhere",
    '<img src="c.svg">': "no file c.svg",
    '<img src="https://x.org/c.svg">': "loads https://x.org/c.svg",
    '<script src="//x.org/c.js"></script>': "loads //x.org/c.js",
    '<link rel="stylesheet" href="https://x.org/c.css">': "loads https://x.org/c.css",
    "<style>@import 'https://x.org/c.css';</style>": "loads https://x.org/c.css",
    '<p style="background: url(https://x.org/c.png)">': "loads https://x.org/c.png",
}


def _site(folder: Path, text: str) -> Path:
    (folder / "a.html").write_text(text)
    (folder / "b.html").write_text('<h2 id="there">')
    return folder


def test_a_site_without_problems(tmp_path, capsys):
    assert main(_site(tmp_path, GOOD)) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", BAD)
def test_a_problem_of_a_site_is_found(text, tmp_path):
    assert list(problems(_site(tmp_path, GOOD + text))) == [f"a.html: {BAD[text]}"]


def test_a_style_sheet_that_loads_from_another_host_is_found(tmp_path, capsys):
    (tmp_path / "a.css").write_text("a { background: url('https://x.org/c.png') }")
    assert main(tmp_path) == 1
    assert capsys.readouterr().out == "a.css: loads https://x.org/c.png\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Return a site of the pages of docs/, with a gallery of empty reports."""
    folder = tmp_path_factory.mktemp("site")
    for report in REPORTS:
        (folder / "gallery" / report).parent.mkdir(parents=True)
        (folder / "gallery" / report).write_text("<p>a report")
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder / "made")]
    given = os.environ | {"SCRIBE_GALLERY": str(folder / "gallery"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "made"


def test_the_site_has_no_problem(site):
    assert list(problems(site)) == []


def test_every_page_is_in_the_site_s_navigation(site):
    home = (site / "index.html").read_text()
    navigation = home[home.index('md-nav--primary"') : home.index("<article")]
    for page in ROOT.glob("docs/*.md"):
        assert f'href="{page.stem}.html"' in navigation, page.name


def test_every_page_can_be_searched_from_files(site):
    index = (site / "search" / "search_index.js").read_text().removeprefix("var __index = ")
    found = {entry["location"] for entry in json.loads(index)["docs"]}
    assert {f"{page.stem}.html" for page in ROOT.glob("docs/*.md")} <= found
    home = (site / "index.html").read_text()
    assert 'src="javascripts/iframe-worker.js"' in home
    assert (site / "javascripts" / "iframe-worker.js").exists()


def test_the_api_has_every_public_name(site):
    page = (site / "api.html").read_text()
    described = set(re.findall(r'<h3 id="scribe_spark\.(\w+)"', page))
    described |= set(re.findall(r'<h3 id="scribe_spark\.[\w.]+\.(\w+)"', page))
    assert set(scribe_spark.__all__) == described


def test_files_beside_the_pages_are_in_the_site(site):
    assert 'href="DESIGN.html"' in (site / "index.html").read_text()
    assert 'href="rules.html#' in (site / "DESIGN.html").read_text()
    assert list((site / "files").rglob("*.py"))
    for report in REPORTS:
        assert f'href="gallery/{report}"' in (site / "gallery.html").read_text()


def test_the_home_page_is_the_readme(site):
    home = (site / "index.html").read_text()
    assert 'id="quick-start"' in home
    assert 'href="concepts.html#the-measures"' in home
    assert 'src="figure-07-delay-penalty.svg"' in home
    assert 'href="index.html#quick-start"' in (site / "tutorial_paper.html").read_text()
