"""What the generated reference says of tables, columns, measures and fields: ``meanings.txt``."""

from pathlib import Path

from scribe_spark.config.fields import FieldRecord


def _rows(section: str) -> dict[str, list[str]]:
    """Return the cells of a section of the file by each name in their first cell."""
    text = Path(__file__).with_suffix(".txt").read_text("utf-8")
    lines = text.partition(f"\n# {section}\n")[2].partition("\n# ")[0].splitlines()
    rows = (line.split(" | ") for line in lines if line)
    # a measure's name may have blanks
    return {
        name: cells
        for names, *cells in rows
        for name in ([names] if section == "measures" else names.split())
    }


#: Table -> the meaning of a row; measure of a world's rounds -> its meaning.
ROWS, MEASURES = ({n: cells[0] for n, cells in _rows(of).items()} for of in ("rows", "measures"))

#: Column -> unit and meaning.
COLUMNS = {name: (unit.strip("-"), meaning) for name, (unit, meaning) in _rows("columns").items()}

#: Field of a config -> unit, if its name does not tell the unit.
UNITS = {name: unit for name, (unit,) in _rows("units").items()}

_ENDINGS = {"_ms": "ms", "_seconds": "s"}
_KINDS = {"size": "bytes", "rate": "bit/s", "time": "time", "times": "time"}


def unit_of(field: FieldRecord) -> str:
    """Return the unit of a field; empty for names, choices and plain numbers."""
    for ending, unit in _ENDINGS.items():
        if field.flat.endswith(ending):
            return unit
    return UNITS.get(field.flat) or _KINDS.get(field.kind.name, "")
