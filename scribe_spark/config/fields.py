"""Every field of a config as a record, from which flags, sweeps and docs are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from scribe_spark.config.execution import Execution
from scribe_spark.config.experiment import RunConfig, WorldConfig
from scribe_spark.config.kinds import ValueKind, kind_of
from scribe_spark.config.paper import Paper
from scribe_spark.config.reference_tree import ReferenceTreeConfig
from scribe_spark.config.section import Differs, Section
from scribe_spark.config.sectioned import Sectioned
from scribe_spark.config.used_when import UsedWhen
from scribe_spark.core.errors import shown


@dataclass(frozen=True)
class FieldRecord:
    """A field of a config; `flat` is also the name of its flag.

    `section` is ``run`` for a field outside of sections.  `default` is a tuple for a list, None for
    a field without a default.  `bounds` are such as ``1..128``; ``0..<1.0`` excludes the last
    number.  `rules` say in which configs the field has an effect.
    """

    section: str
    name: str
    flat: str
    kind: ValueKind
    default: Any
    description: str
    bounds: str = ""
    rules: tuple[UsedWhen, ...] = ()

    @property
    def values(self) -> str:
        """The possible values: choices, bounds (``1..128``), or ``BOOL``, ``TEXT``, ``NAMES``."""
        if self.kind.choices:
            return "|".join(map(str, self.kind.choices))
        names = {"str": "TEXT", "list": "NAMES"}
        return self.bounds or names.get(self.kind.name, self.kind.name.upper())

    @property
    def typical(self) -> str:
        """The default as the value of a flag; empty for an unset field."""
        if self.kind.name == "bool" and self.default is not None:
            return str(self.default).lower()
        if self.kind.name == "list":
            return ",".join(map(str, self.default))
        return "" if self.default in (None, ()) else str(self.default)


def fields_of(model: type[Section], section: str, command: str = "run") -> dict[str, FieldRecord]:
    """Return the fields of a section that the configs of a command have, by flat name.

    Fields that are sections themselves are left out.
    """
    flat, refused = model.flat_names(), model.refused_in(command)
    differing, found = model.differing_in(command), {}
    for name, field in model.model_fields.items():
        if flat[name] in refused or (issubclass(model, Sectioned) and name in model.sections):
            continue
        marks = model.all_used_when, *field.metadata
        other = differing.get(name, Differs((), None if field.is_required() else field.default))
        found[flat[name]] = FieldRecord(
            section,
            name,
            flat[name],
            kind_of(field.annotation, field.metadata),
            other.default,
            other.description or field.description or "",
            _bounds(field),
            tuple(mark for mark in marks if isinstance(mark, UsedWhen)),
        )
    return found


#: Greater bounds only say that a number fits into a table; they are not shown.
_MOST = 2**31 - 1


def _bounds(field: FieldInfo) -> str:
    limits = {
        name: getattr(mark, name)
        for mark in field.metadata
        for name in ("ge", "lt", "le")
        if getattr(mark, name, None) is not None and abs(getattr(mark, name)) < _MOST
    }
    if not limits:
        return ""
    most = f"<{limits['lt']}" if "lt" in limits else limits.get("le", "")
    return f"{limits.get('ge', '')}..{most}"


def all_fields_of(model: type[Sectioned], own: str = "run") -> dict[str, FieldRecord]:
    """Return the fields of a config by flat name; those outside of sections get section `own`."""
    found = fields_of(model, own, model.command)
    for name, section in model.sections.items():
        found |= fields_of(section, name, model.command)
    return found


#: The fields of a run, by flat name.
RUN_FIELDS: dict[str, FieldRecord] = all_fields_of(RunConfig)

#: The fields of a world, by flat name.
WORLD_FIELDS: dict[str, FieldRecord] = all_fields_of(WorldConfig)


#: The fields of the experiments on the reference tree, by flat name.
REFERENCE_TREE_FIELDS: dict[str, FieldRecord] = all_fields_of(ReferenceTreeConfig)


#: Command -> the fields of its config; each command has a column in docs/configuration.md.
COMMANDS: dict[str, dict[str, FieldRecord]] = {
    "run": RUN_FIELDS,
    "world": WORLD_FIELDS,
    "reference-tree": REFERENCE_TREE_FIELDS,
}


def documentation() -> Iterator[dict[str, FieldRecord]]:
    """Yield, for each field, its records by command of :data:`COMMANDS`.

    Fields of runs come first, then fields that only worlds or ``reference-tree`` have, then the
    fields of the execution, which all commands read.
    """
    for name in dict.fromkeys(name for fields in COMMANDS.values() for name in fields):
        yield {command: fields[name] for command, fields in COMMANDS.items() if name in fields}
    for field in fields_of(Execution, "execution").values():
        yield dict.fromkeys(COMMANDS, field)


def about(section: str) -> str:
    """Return the text of a section for ``--help``; empty for an unknown section."""
    configs = ReferenceTreeConfig, WorldConfig, RunConfig
    models = {name: model for config in configs for name, model in config.sections.items()}
    models |= {"run": RunConfig, "paper": Paper, "execution": Execution}
    return models[section].about if section in models else ""


# --- the sections that systems declare

_CONFIGS = ((RunConfig, RUN_FIELDS), (WorldConfig, WORLD_FIELDS))

#: The sections that systems have added, by name.
_ADDED: dict[str, type[Section]] = {}


def add_section(name: str, section: type[Section]) -> None:
    """Add a section to the configs of runs and worlds; it replaces an added one of the same name.

    The command line makes flags of the sections that exist when a command begins.  A name, or a
    flat name of a field, that is in use raises a ValueError.
    """
    remove_section(name)
    for config, fields in _CONFIGS:
        taken = {*config.model_fields, *config.sections, *fields, *config.refused_fields()}
        for one in (name, *section.flat_names().values()):
            if one in taken:
                raise ValueError(f"{shown(one)} is a name in {config.__name__}; take another name")
    for config, fields in _CONFIGS:
        config.sections[name] = section
        fields.update(fields_of(section, name, config.command))
    _ADDED[name] = section


def added_fields() -> list[FieldRecord]:
    """Return the fields of all added sections."""
    return [one for name, model in _ADDED.items() for one in fields_of(model, name).values()]


def remove_section(name: str) -> None:
    """Remove an added section, if there is one of that name."""
    section = _ADDED.pop(name, None)
    if section is None:
        return
    for config, fields in _CONFIGS:
        del config.sections[name]
        for flat in section.flat_names().values():
            fields.pop(flat, None)
