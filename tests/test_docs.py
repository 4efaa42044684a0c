"""The documentation and its site: pages of today's code, words that lead to files, links."""

import configparser
import csv
import importlib
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import scribe_spark
from tools import count_words, package_size, write_docs
from tools.check_site import main, problems
from tools.pages import lines_of
from tools.reference_pages import read_first

ROOT = Path(__file__).resolve().parents[1]

#: What a newcomer looks for, the file that one would open first, and what is in it or in its name.
FINDABLE = {
    "leaf set": ("pastry/states.py", "leaf sets"),
    "routing table": ("pastry/states.py", "routing tables"),
    "next hop": ("pastry/next_hop.py", r"def hop\b"),
    "route": ("pastry/next_hop.py", r"def route_to_edge\b"),
    "JOIN": ("systems/scribe/join.py", r"def receive_joins\b"),
    "MULTICAST": ("systems/scribe/multicast.py", r"def deliver_multicast\b|multicast"),
    "rendez-vous point": ("systems/scribe/trees.py", "rendez-vous point"),
    "heartbeat": ("systems/scribe/heartbeat.py", r"def send_heartbeats\b"),
    "failover": ("systems/scribe/root.py", r"class Failover\b"),
    "children table": ("systems/scribe/state.py", r"class ChildrenTable\b"),
    "RAD": ("measures/delay.py", r"\bRAD\b"),
    "RDP": ("measures/delay.py", r"\bRDP\b"),
    "link stress": ("measures/stress.py", "link_stress"),
    "bottleneck remover": ("systems/scribe/bottleneck.py", r"def remove_bottlenecks\b"),
    "transit-stub": ("topology/transit_stub.py", "transit_stub"),
    "superstep": ("engine/on_spark.py", r"def play_superstep\b"),
    "save": ("worlds/save.py", r"def saved_rows\b"),
    "view": ("worlds/views.py", r"def view\b"),
}


def test_generated_pages_are_up_to_date(capsys):
    assert write_docs.main(["--check"]) == 0, capsys.readouterr().out + "run `make docs`"


def test_results_are_written_from_metrics(tmp_path):
    rows = [
        {"experiment": "main", "name": "scribe.rad.median", "value": 1.5, "unit": "x",
         "paper": 1.68, "std": 0.1, "seeds": {"1": 1.4, "2": 1.6}, "difference": -10.7},
        {"experiment": "main", "name": "scribe.messages", "value": 2_200_000, "unit": "packets",
         "paper": None, "std": None, "seeds": {"1": 2_200_000, "2": None}, "difference": None},
    ]  # fmt: skip
    (tmp_path / "metrics.json").write_text(json.dumps(rows))
    made = write_docs.pages(str(tmp_path), [])
    results = made[ROOT / "docs" / "results.md"]
    assert "| main | `scribe.rad.median` | x | 1.68 | 1.5 ± 0.1 | -10.7 % |" in results
    every = made[ROOT / "docs" / "results.csv"]
    assert "main,scribe.rad.median,x,1.68,1.4,1.5,1.6,0.1\n" in every
    assert "main,scribe.messages,packets,,2200000,2200000,2200000,\n" in every
    arrived = {**rows[0], "experiment": "arrivals", "value": 1.62, "difference": -3.6}
    (tmp_path / "metrics.json").write_text(json.dumps([*rows, arrived]))
    made = write_docs.pages(str(tmp_path), [])
    results = made[ROOT / "docs" / "results.md"]
    assert "With perfect tables, 0 of the simulated" in results
    assert "with tables of arrivals, 1 are." in results
    assert "3.6\N{NO-BREAK SPACE}% |\n" in results


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 80


def test_the_conclusions_of_the_readme_follow_from_its_numbers():
    readme = (ROOT / "README.md").read_text()
    part = lines_of(readme, "peers")
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in part}
    delay, packets = ([float(rows[name][at].replace(",", "")) for name in ("GossipSub", "Scribe")]
                      for at in (0, 4))  # fmt: skip
    assert "a ninth of the packets of GossipSub's mesh" in readme
    assert "Scribe's median delay is less than half of GossipSub's" in readme
    assert round(packets[0] / packets[1]) == 9
    assert delay[0] / delay[1] > 2
    living = (ROOT / "docs" / "living.md").read_text()
    assert "Scribe reaches only 43.1 % of them for a minute" in readme
    assert "| scribe | 100.0 % | 43.1 % | 43.1 % | 100.0 % |" in living
    assert "GossipSub still reaches 100.0 % of the live members" in readme
    assert "| gossipsub | 100.0 % | 100.0 % | 100.0 % | 100.0 % |" in living
    with (ROOT / "docs" / "results.csv").open() as file:
        found = {(row["experiment"], row["metric"]): row for row in csv.DictReader(file)}
    arrivals = found["arrivals", "scribe.rad.median"]
    assert "at most 1.6 times as long as with IP multicast (the paper: 1.7)" in readme
    assert round(float(arrivals["mean"]), 1) == 1.6
    assert round(float(arrivals["paper"]), 1) == 1.7
    longest = found["arrivals", "scribe.rad.max"]
    assert "The largest RAD of all groups is about 3.3 on average over ten simulations" in readme
    assert round(float(longest["mean"]), 1) == 3.3
    assert float(longest["paper"]) == 2


def test_the_pages_are_short():
    """`wc -w` of all pages but the reference and results, of which commands write most words."""
    found = count_words.words_of_pages()
    assert sum(found.values()) <= 30_000, found
    texts = {page.name: page.read_text("utf-8") for page in ROOT.glob("docs/*.md")}
    written = {name for name, text in texts.items() if count_words.share_written(text) >= 2 / 3}
    assert {*found} | count_words.REFERENCE | count_words.RESULTS == {*texts}
    assert written - count_words.REFERENCE == count_words.RESULTS


def test_the_lines_to_read_first_are_as_many_as_their_page_says():
    assert read_first()[-1] == "| all | 500 | |"


def test_the_design_is_short():
    design = (ROOT / "DESIGN.md").read_text()
    assert len(design.split()) <= 6_000
    story = design.split("\n## ")[1]
    assert story.startswith("1. The main story")
    assert len(story.splitlines()) <= 60


PAGES = (ROOT / "README.md", ROOT / "DESIGN.md", *ROOT.glob("docs/*.md"))


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("scribe_spark/**/rules.md")])
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("word", FINDABLE)
def test_a_newcomer_finds(word):
    file, pattern = FINDABLE[word]
    path = ROOT / "scribe_spark" / file
    assert re.search(pattern, path.read_text()) or re.search(pattern, path.name)
    assert word.lower() in (ROOT / "docs" / "glossary.md").read_text().lower()


@pytest.mark.parametrize("page", ["docs/glossary.md", "DESIGN.md"])
def test_files_that_a_page_names_exist(page):
    named = re.findall(r"`([\w/]+\.(?:py|md|toml|cfg)|[\w/]+/)`", (ROOT / page).read_text())
    assert len(named) > 20
    folders = (ROOT, ROOT / "scribe_spark")
    missing = [name for name in named if not any((one / name).exists() for one in folders)]
    assert not missing


def imported_names() -> list[tuple[str, str]]:
    """Return (module, name) of each name of the package that a page or notebook imports."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "jobs").rglob("*.py")]
    line = re.compile(r"^ *from (scribe_spark[\w.]*) import (?:\(([^)]+)\)|(.+)$)", re.MULTILINE)
    found = [match.groups("") for page in pages for match in line.finditer(page.read_text())]
    listed = [(module, few or many) for module, many, few in found]
    return sorted({(of, one) for of, names in listed for one in re.findall(r"\w+", names)})


@pytest.mark.parametrize(("module", "name"), imported_names())
def test_what_pages_import_is_there(module, name):
    assert hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}")


def test_names_of_code_in_design_exist():
    code = "\n".join(path.read_text("utf-8") for path in ROOT.glob("scribe_spark/**/*.py"))
    texts = re.findall(r"`([^`\n]+)`", (ROOT / "DESIGN.md").read_text())
    others = ("make ", "python -m ")  # commands, which are not the package's
    texts = [text for text in texts if "/" not in text and not text.startswith(others)]
    named = {name for text in texts for name in re.findall(r"[A-Za-z_]\w{3,}", text)}
    assert len(named) > 50
    assert named - set(re.findall(r"\w+", code)) == set()


def test_layers_in_design_are_those_that_are_checked():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    layers = config["importlinter:contract:layers"]["layers"].split("\n")
    checked = [sorted(re.findall(r"\w+", line)) for line in layers if line][::-1]
    (line,) = re.findall(r"^`(\w+ -> .*)`$", (ROOT / "DESIGN.md").read_text(), re.M)
    assert [sorted(re.findall(r"\w+", layer)) for layer in line.split(" -> ")] == checked


def _texts() -> list[tuple[Path, str]]:
    """The modules of the package and of the tests, and the pages, with what stands in them."""
    paths = [*ROOT.glob("scribe_spark/**/*.py"), *ROOT.glob("tests/**/*.py")]
    paths += [*ROOT.glob("docs/*.md"), *ROOT.glob("*.md"), *ROOT.glob("scribe_spark/**/rules.md")]
    return [(path, path.read_text("utf-8")) for path in paths]


def test_rules_that_are_named_exist():
    """Each rule that a text names, such as P12, has a paragraph of its own in docs/rules.md."""
    rules = (ROOT / "docs" / "rules.md").read_text("utf-8")
    listed = re.findall(r'^- <a id="(\w+)"></a>\*\*\1\.\*\* ', rules, re.M)
    assert len(listed) == len(set(listed)) > 160
    letters = "".join(sorted({number[0] for number in listed}))
    texts = [*_texts(), *((path, path.read_text("utf-8")) for path in ROOT.glob("tools/*.py"))]
    named = {
        (number, path)
        for path, text in texts
        for number in re.findall(rf"(?<![\w.-])([{letters}]\d{{1,2}})(?![\w.-]*\w)", text)
    }
    assert len({number for number, _ in named}) > 120
    assert not {(number, str(path)) for number, path in named if number not in listed}


def test_pages_that_are_named_exist():
    """No docstring, comment or page leads to a page that the repository does not have."""
    named = {
        (name, path)
        for path, text in _texts()
        for name in re.findall(r"(?<![\w/.{-])((?:docs/)?[a-z][a-z_]*\.md)\b", text)
        if path.parent.name != "tests" and "tmp_path" not in text
    }
    there = {page.name for page in ROOT.glob("docs/*.md")}
    missing = {(name, str(path)) for name, path in named if Path(name).name not in there}
    assert not missing


def test_each_room_is_counted_once():
    rooms = [room for part in package_size.PARTS.values() for room in part.split()]
    package = ROOT / "scribe_spark"
    there = {file.name.removesuffix(".py") for file in package.iterdir()}
    there |= {file.name for file in (package / "systems").iterdir() if file.is_dir()}
    assert sorted(rooms) == sorted(there - {"__pycache__", "py.typed"})


@pytest.mark.slow
def test_the_python_of_readme_and_of_living_runs(spark, capsys):
    readme, living = (
        re.search(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)[1]
        for page in ("README.md", "docs/living.md")
    )
    small = readme.replace("nodes=2_000, groups=50", "nodes=60, groups=3")
    assert small != readme
    exec(compile(small, "README.md", "exec"), {})
    assert "avg(delay_us)" in capsys.readouterr().out
    exec(compile(living, "docs/living.md", "exec"), {})
    printed = capsys.readouterr().out
    missed, routed, members = printed.split("\n\n")[:3]
    assert missed.count("\n") == 3  # a head without rows: no lookup missed its root
    assert "delivered" in routed
    assert all(f" {node}|" in members for node in (17, 18))


# --- the site


#: What the gallery's page links to.
REPORTS = ("run/report.html", "world/report.html", "compare/compare.html")

GOOD = '<a href="https://x.org">x</a><img src="c.svg"><link rel="next" href="https://x.org">'

BAD = {
    "a.html": [
        '<img src="https://x.org/c">',
        '<script src="//x.org/c"></script>',
        '<link rel="stylesheet" href="https://x.org/c">',
        '<link href="https://x.org/c" rel="preload">',
        "<style>@import 'https://x.org/c';</style>",
        '<p style="background: url(https://x.org/c)">',
    ],
    "a.css": ["a { background: url('https://x.org/c') }"],
}


@pytest.mark.parametrize(("file", "text"), [(file, one) for file in BAD for one in BAD[file]])
def test_what_a_site_loads_from_another_host_is_found(file, text, tmp_path, capsys):
    (tmp_path / "b.html").write_text(GOOD)
    assert main(tmp_path) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / file).write_text(GOOD + text)
    assert main(tmp_path) == 1
    assert re.fullmatch(rf"{file}: loads (https:)?//x.org/c\n", capsys.readouterr().out)


@pytest.mark.slow
def test_the_site_has_every_page_every_public_name_and_a_gallery(tmp_path):
    """`make site` builds the site and checks its links, too. Here the reports are empty."""
    for report in REPORTS:
        (tmp_path / "gallery" / report).parent.mkdir(parents=True)
        (tmp_path / "gallery" / report).write_text("<p>a report")
    site = tmp_path / "made"
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    given = os.environ | {"SCRIBE_GALLERY": str(tmp_path / "gallery"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(problems(site)) == []
    home, api = ((site / f"{name}.html").read_text() for name in ("index", "api"))
    # the navigation and the search, which works from files
    pages = [f"{page.stem}.html" for page in ROOT.glob("docs/*.md")]
    navigation = home[home.index("md-nav--primary") : home.index("<article")]
    assert not [page for page in pages if f'href="{page}"' not in navigation]
    index = (site / "search" / "search_index.js").read_text().removeprefix("var __index = ")
    assert {*pages} <= {entry["location"] for entry in json.loads(index)["docs"]}
    assert 'src="javascripts/iframe-worker.js"' in home
    assert (site / "javascripts" / "iframe-worker.js").exists()
    # the reference of the package's face
    described = set(re.findall(r'<h3 id="scribe_spark\.(?:[\w.]+\.)?(\w+)"', api))
    assert set(scribe_spark.__all__) == described
    # files beside the pages, and the gallery
    assert 'href="DESIGN.html"' in home
    assert 'href="rules.html#' in (site / "DESIGN.html").read_text()
    assert list((site / "files").rglob("*.py"))
    for report in REPORTS:
        assert f'href="gallery/{report}"' in (site / "gallery.html").read_text()
    # the home page is README.md
    assert 'id="quick-start"' in home
    assert 'href="concepts.html#the-measures"' in home
    assert 'src="figure-07-delay-penalty.svg"' in home
    assert 'href="index.html#quick-start"' in (site / "tutorial_paper.html").read_text()
