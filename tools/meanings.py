"""What the generated reference says of tables, columns, measures and fields: ``meanings.txt``."""

from pathlib import Path

from scribe_spark.config.fields import FieldRecord

_TEXT = Path(__file__).with_suffix(".txt").read_text("utf-8")


def _rows(section: str, several: bool = True) -> dict[str, list[str]]:
    """Return the cells of a section by the name, or each of several names, in their first cell."""
    lines = _TEXT.partition(f"\n# {section}\n")[2].partition("\n# ")[0].splitlines()
    rows = (line.split(" | ") for line in lines if line)
    return {
        name: cells for names, *cells in rows for name in (names.split() if several else [names])
    }


#: Table -> the meaning of a row.
ROWS = {name: cells[0] for name, cells in _rows("rows").items()}

#: Measure of a world's rounds, whose name may have blanks -> its meaning.
MEASURES = {name: cells[0] for name, cells in _rows("measures", several=False).items()}

#: Column -> unit and meaning.
COLUMNS = {name: (unit.strip("-"), meaning) for name, (unit, meaning) in _rows("columns").items()}

#: Field of a config -> unit, if its name does not tell the unit.
UNITS = {name: unit for name, (unit,) in _rows("units").items()}

_ENDINGS = {"_ms": "ms", "_seconds": "s"}
_KINDS = {"size": "bytes", "rate": "bit/s", "time": "time", "times": "time"}


def unit_of(field: FieldRecord) -> str:
    """Return the unit of a field; empty for names, choices and plain numbers."""
    by_name = (unit for ending, unit in _ENDINGS.items() if field.flat.endswith(ending))
    return next(by_name, UNITS.get(field.flat) or _KINDS.get(field.kind.name, ""))
