"""The wheel and the sdist, as a stranger installs them: in a clean virtual environment."""

import json
import os
import re
import subprocess
import tarfile
import venv
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

from scribe_spark import __version__

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "jobs" / "colab.ipynb"

SYSTEM = """
import numpy as np

from scribe_spark import System, register_system
from scribe_spark.rounds.group_overlays import GroupOverlays


class Star(GroupOverlays):
    def edges(self, overlays, network):
        seats = overlays.each_publication({"group": overlays.group, "node": overlays.node})
        source = overlays.source[seats["publication"]]
        others = np.flatnonzero(seats["node"] != source)
        ends = {"node": source[others], "peer": seats["node"][others]}
        return {"publication": seats["publication"][others], **ends}


register_system(System("star", "Star", "tree", lambda config: Star(), requested=True))
"""


def setup() -> ConfigParser:
    found = ConfigParser()
    found.read(ROOT / "setup.cfg")
    return found


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in text
    assert setup()["metadata"]["version"] == __version__
    assert f"\nlicense: {setup()['metadata']['license']}\n" in text
    for key in ("cff-version", "title", "message", "authors"):
        assert re.search(f"^{key}:", text, re.M)


def test_every_library_and_every_data_file_has_its_licence_told():
    page = (ROOT / "LICENCES.md").read_text()
    extras = setup()["options.extras_require"]
    asked = [setup()["options"]["install_requires"], *(extras[n] for n in ("spark", "topohub"))]
    for line in lines("\n".join([*asked, extras["connect"]])):
        library = re.split(r"[ <>=]", line.strip())[0]
        assert f"| {library} |" in page, f"LICENCES.md lacks {library}"
    data = [
        path
        for path in (ROOT / "scribe_spark").rglob("*")
        if path.suffix in (".csv", ".json", ".toml", ".gml")
    ]
    assert len(data) >= 3
    for path in data:
        assert f"`{path.relative_to(ROOT)}`" in page, f"LICENCES.md lacks {path.name}"


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "scribe_spark" / "py.typed").is_file()
    assert "py.typed" in setup()["options.package_data"]["scribe_spark"]


def cells() -> list[str]:
    """The code of the notebook, cell by cell."""
    found = json.loads(NOTEBOOK.read_text())
    return ["".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_installs_the_wheel_and_its_code_is_python():
    java, install, *others = cells()
    assert "openjdk-17" in java
    assert f"scribe_spark-{__version__}-py3-none-any.whl" in install
    assert "[spark]" in install
    for cell in others:
        compile(cell, NOTEBOOK.name, "exec")
    assert (ROOT / "binder" / "apt.txt").read_text().strip() == "openjdk-17-jre-headless"
    assert "[spark" in (ROOT / "binder" / "requirements.txt").read_text()


@pytest.mark.slow
def test_a_clean_environment_with_the_wheel_alone(tmp_path):
    ours = "PYTHON", "SPARK", "PYSPARK"
    clean = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    home, work = tmp_path / "clean", tmp_path / "work"
    work.mkdir()
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")

    def call(*command: str) -> str:
        done = subprocess.run(
            command, cwd=work, env=clean, capture_output=True, text=True, timeout=1_800
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    call(python, "-m", "pip", "install", "--quiet", "build")
    dist = tmp_path / "dist"
    call(python, "-m", "build", "--outdir", str(dist), str(ROOT))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert "scribe_spark/py.typed" in names
    assert "scribe_spark/report/page.html" in names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "benchmarks/"))]
    with tarfile.open(sdist) as packed:
        assert any(name.endswith("/data/paper.toml") for name in packed.getnames())
    call(python, "-m", "pip", "install", "--quiet", f"{wheel}[spark]")
    program = str(home / "bin" / "scribe-spark")
    assert call(program, "--version") == f"scribe-spark {__version__}\n"
    assert "missing" not in call(program, "doctor")
    (work / "my_systems.py").write_text(SYSTEM)
    flags = "--nodes 2000 --groups 50 --import my_systems --systems scribe,star --out out/small"
    assert call(program, "run", *flags.split()) == "out/small\n"
    metrics = json.loads((work / "out" / "small" / "metrics.json").read_text())
    values = {row["name"]: row["value"] for row in metrics}
    assert values["scribe.rad.median"] > values["star.rad.median"] > 0
    manifest = json.loads((work / "out" / "small" / "manifest.json").read_text())
    assert list(manifest["execution"]["imports"]) == ["my_systems"]
    _, _, first, *_ = cells()
    (work / "notebook.py").write_text(f"if __name__ == '__main__':\n    {_indented(first)}")
    call(python, "notebook.py")
    assert (work / "out" / "colab" / "report.html").is_file()


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")
