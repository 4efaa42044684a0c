"""Registries, and modules of users that the command line imports."""

import hashlib
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from scribe_spark.core import registry
from scribe_spark.core.registry import Registry
from scribe_spark.systems.registry import find_system, unregister_system


@dataclass(frozen=True)
class Colour:
    name: str
    code: int = 0


def test_entries_of_the_package_stay_and_those_of_users_come_after():
    colours = Registry("colour", Colour("red"), Colour("green"))
    assert colours.register(Colour("mauve", 1)) == Colour("mauve", 1)
    colours.register(Colour("ochre"))
    colours.register(Colour("mauve", 2))
    assert list(colours) == ["red", "green", "mauve", "ochre"]
    assert colours["mauve"].code == 2
    with pytest.raises(ValueError, match="'red' is a colour of the package; take another name"):
        colours.register(Colour("red", 1))
    for name in ("red", "mauve", "mauve"):
        colours.unregister(name)
    assert list(colours) == ["red", "green", "ochre"]
    assert colours["red"] == Colour("red")


CODE = """
from scribe_spark import System, register_system

register_system(System("own", "Own", family="tree", world=lambda config: None, requested=True))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder with a module that registers a system."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(registry, "_IMPORTED", {})
    (tmp_path / "own_systems.py").write_text(CODE)
    yield tmp_path
    unregister_system("own")
    for name in ("own_systems", "broken", "ends"):
        sys.modules.pop(name, None)


DRY = ("--dry-run", "--nodes", "50", "--systems", "scribe,own", "--out", "out")


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_module_of_the_working_directory_is_imported(call, folder, command):
    more = ["--set", "b=2"] if command == "sweep" else []
    assert call(command, *DRY, *more)[0] == 2
    code, told, err = call(command, "--import", "own_systems", *DRY, *more)
    assert (code, err) == (0, "")
    assert '"own"' in told
    digest = hashlib.sha256(Path("own_systems.py").read_bytes()).hexdigest()
    assert registry.imported() == {"own_systems": digest}


def test_a_world_and_a_report_import_it_too(refused, folder):
    flags = "--import", "own_systems", "--dry-run", "--nodes", "50", "--groups", "2", "--out", "out"
    # it is known, though it has no rounds
    assert "systems = 'own': its world returns a NoneType" in refused(
        "world", *flags, "--systems", "own"
    )
    unregister_system("own")
    sys.modules.pop("own_systems")
    refused("report", "--import", "own_systems", "--out", "none")
    assert find_system("own") is not None


def test_a_file_may_list_modules(call, folder):
    Path("config.toml").write_text('import = ["own_systems"]\nsystems = "scribe,own"\n')
    code, told, _ = call("run", "--config", "config.toml", "--dry-run", "--out", "out")
    assert code == 0
    assert '"own"' in told
    assert "import" not in told


def test_an_installed_extension_is_imported_by_its_entry_point(call, refused, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    point = EntryPoint("own", "own_systems", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert call("run", *DRY)[0] == 0
    assert list(registry.imported()) == ["own_systems"]
    Path("own_systems.py").write_text("import nothing_of_this_name")
    sys.modules.pop("own_systems")
    line = refused("run", *DRY)
    assert "No module named 'nothing_of_this_name'" in line
    assert line.endswith("; uninstall the extension own")


#: A module's name, its code -> what the line says.
BROKEN = [
    ("absent", None, "is no module in the working directory, and none is installed"),
    ("own_systems.py", None, "is a file; give the name of its module, own_systems"),
    ("", None, "cannot be imported: ValueError"),
    ("broken", "1 / 0", "ZeroDivisionError: division by zero (broken.py, line 1)"),
    ("broken", "\n\nimport nope", "No module named 'nope' (broken.py, line 3)"),
    ("broken", "a b", "cannot be imported: SyntaxError: invalid syntax (broken.py, line 1)"),
    ("broken", CODE.replace('"own"', '"can"'), "'can' is a system of the package; take another"),
    ("ends", "raise SystemExit(0)", "cannot be imported: SystemExit: 0 (ends.py, line 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "words"), BROKEN)
def test_a_module_that_cannot_be_imported_is_one_line(refused, folder, name, code, words):
    if code is not None:
        Path(f"{name}.py").write_text(code)
    line = refused("run", "--import", name, "--out", "out")
    assert line.startswith(f"import = {name!r}: ")
    assert words in line


@pytest.mark.parametrize("value", ["5", "[1]", "{ a = 1 }"])
def test_a_file_lists_names(refused, folder, value):
    Path("config.toml").write_text(f"import = {value}\n")
    line = refused("run", "--config", "config.toml", "--out", "out")
    assert "must be a list of names of modules" in line
