"""Damage to each table and text in a folder, and what `verify` says of it."""

from pathlib import Path

from scribe_spark.experiments import verify


def places(out: Path) -> set[str]:
    """All tables and texts in a folder but manifests, pages and figures."""
    tables = {part.parent for part in out.rglob("*.parquet")}
    texts = {text for text in out.rglob("*.json") if text.name != "manifest.json"}
    return {str(path.relative_to(out)) for path in tables | texts}


def assert_all_damage_is_told(out: Path) -> None:
    """A folder is as written; then a byte of each of its tables and texts is another one."""
    there, found = places(out), verify(str(out))
    assert (found.damaged, found.finished) == ([], True)
    assert found.tables + found.texts == len(there)
    for place in there:
        file = out / place
        if file.is_dir():
            file = min(file.glob("*.parquet"))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    lines = verify(str(out)).damaged
    assert {line.split(": ")[0] for line in lines} == there
    assert len(lines) == len(there)
    assert all("changed" in line or "is no text" in line for line in lines)
