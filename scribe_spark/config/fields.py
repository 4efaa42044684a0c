"""Every field of a config as a record: what flags, sweeps and the docs are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic.fields import FieldInfo

from scribe_spark.config.execution import Execution
from scribe_spark.config.kinds import Kind, kind_of
from scribe_spark.config.reference_tree import ReferenceTreeConfig
from scribe_spark.config.run import RunConfig
from scribe_spark.config.section import Section
from scribe_spark.config.sectioned import Sectioned
from scribe_spark.config.world import WorldConfig
from scribe_spark.errors import in_series


@dataclass(frozen=True)
class FieldRecord:
    """A field.

    Attributes
    ----------
    section : str
        The section that it is in; ``run`` for what is in none.
    name, flat : str
        Its name in the section; its flat name, which is its flag's.
    kind : Kind
    default : object
        A list is a tuple; None also where there is no default.
    description : str
    """

    section: str
    name: str
    flat: str
    kind: Kind
    default: Any
    description: str

    @property
    def type(self) -> str:
        """``INT``, ``FLOAT``, ``TEXT``, ``BOOL``, ``NAMES``, ``SIZE``, ..., or the choices."""
        if self.kind.choices:
            return "|".join(map(str, self.kind.choices))
        return {"str": "TEXT", "list": "NAMES"}.get(self.kind.name, self.kind.name.upper())

    @property
    def typical(self) -> str:
        """The default as a flag would have it; empty if it is unset."""
        if self.kind.name == "bool" and self.default is not None:
            return str(self.default).lower()
        if self.kind.name == "list":
            return ",".join(map(str, self.default))
        return "" if self.default in (None, ()) else str(self.default)


def fields_of(model: type[Section], section: str) -> dict[str, FieldRecord]:
    """The fields of a section, by flat name; those that are sections themselves are left out."""
    flat = model.flat_names()
    return {
        flat[name]: FieldRecord(
            section,
            name,
            flat[name],
            _kind(field),
            None if field.is_required() else field.default,
            field.description or "",
        )
        for name, field in model.model_fields.items()
        if not issubclass(model, Sectioned) or name not in model.sections
    }


def _kind(field: FieldInfo) -> Kind:
    """Return the kind of a field from its annotation and the marks beside that."""
    marks = tuple(field.metadata)
    return kind_of(Annotated[field.annotation, *marks] if marks else field.annotation)


def all_fields_of(model: type[Sectioned], own: str) -> dict[str, FieldRecord]:
    """The fields of a config of several sections, by flat name.

    Parameters
    ----------
    own : str
        What `FieldRecord.section` says of the fields that are in no section; these come first.
    """
    found = fields_of(model, own)
    for name, section in model.sections.items():
        found |= fields_of(section, name)
    return found


#: The fields of a run, by flat name.
RUN_FIELDS: dict[str, FieldRecord] = all_fields_of(RunConfig, "run")

#: The fields of a world, by flat name.
WORLD_FIELDS: dict[str, FieldRecord] = all_fields_of(WorldConfig, "run")


#: The fields of the experiments on the reference tree, by flat name.
REFERENCE_TREE_FIELDS: dict[str, FieldRecord] = all_fields_of(ReferenceTreeConfig, "run")


#: The commands that read each config.
_COMMANDS: dict[str, dict[str, FieldRecord]] = {
    "run, sweep": RUN_FIELDS,
    "world": WORLD_FIELDS,
    "reference-tree": REFERENCE_TREE_FIELDS,
}


def documentation() -> Iterator[tuple[FieldRecord, str, str]]:
    """Yield every field once for each meaning that it has: record, commands, defaults.

    Fields of runs come first, then those that only worlds or ``reference-tree`` have, then those of
    the execution, which all commands read.  A field that has another section or description in
    another command comes again, after its first row.  Where only the default is another one, the
    defaults name the commands: ``arrivals; world: perfect``.
    """
    for name in dict.fromkeys(name for fields in _COMMANDS.values() for name in fields):
        meanings: dict[tuple[str, str, str], dict[str, FieldRecord]] = {}
        for command, fields in _COMMANDS.items():
            if (field := fields.get(name)) is not None:
                key = field.section, field.type, field.description
                meanings.setdefault(key, {})[command] = field
        for by_command in meanings.values():
            first, *_ = by_command.values()
            yield first, _series(by_command), _defaults(by_command)
    for field in fields_of(Execution, "execution").values():
        yield field, "all", _code(field.typical)


def _defaults(fields: Mapping[str, FieldRecord]) -> str:
    """Return the default of a field; of the commands where it is another one, beside it."""
    values = {command: _code(field.typical) for command, field in fields.items()}
    first, *_ = values.values()
    others = {command: value for command, value in values.items() if value != first}
    by_value = {
        value: _series(command for command, of in others.items() if of == value)
        for value in others.values()
    }
    return "; ".join([first, *(f"{commands}: {value}" for value, commands in by_value.items())])


def _series(commands: Iterable[str]) -> str:
    names = list(commands)
    return in_series(names, len(names))


def _code(value: str) -> str:
    return f"`{value}`" if value else ""
