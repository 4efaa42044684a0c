"""Every field of a config as a record, from which flags, sweeps and docs are made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic.fields import FieldInfo

from scribe_spark.config.execution import Execution
from scribe_spark.config.experiment import Paper, RunConfig, WorldConfig
from scribe_spark.config.reference_tree import ReferenceTreeConfig
from scribe_spark.config.section import Differs, Section, UsedWhen, ValueKind, kind_of
from scribe_spark.config.sectioned import Computed, Sectioned, declared_section
from scribe_spark.core.errors import shown
from scribe_spark.core.registry import Declared


@dataclass(frozen=True)
class FieldRecord:
    """A field of a config as flags and docs need it; `flat` is also the name of its flag.

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
    """Return the fields of a section that the configs of a command have, by flat name."""
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


def all_fields(model: type[Sectioned]) -> Computed[FieldRecord]:
    """Return the fields of a config: flat name -> record; also of sections declared later.

    Fields outside of sections have the section ``run``.
    """
    return Computed(lambda: _fields_with(model, tuple(model.sections.items())))


@cache
def _fields_with(
    model: type[Sectioned], sections: tuple[tuple[str, type[Section]], ...]
) -> dict[str, FieldRecord]:
    """Return the fields of a config that has these sections: flat name -> record."""
    found = fields_of(model, "run", model.command)
    for name, section in sections:
        found |= fields_of(section, name, model.command)
    return found


#: The fields of a run, by flat name.
RUN_FIELDS = all_fields(RunConfig)

#: The fields of a world, by flat name.
WORLD_FIELDS = all_fields(WorldConfig)

#: The fields of the experiments on the reference tree, by flat name.
REFERENCE_TREE_FIELDS = all_fields(ReferenceTreeConfig)

#: Command -> the fields of its config; each command has a column in docs/configuration.md.
COMMANDS = {"run": RUN_FIELDS, "world": WORLD_FIELDS, "reference-tree": REFERENCE_TREE_FIELDS}


def documentation() -> Iterator[dict[str, FieldRecord]]:
    """Yield, for each field, its records by command of :data:`COMMANDS`."""
    for name in dict.fromkeys(name for fields in COMMANDS.values() for name in fields):
        yield {command: fields[name] for command, fields in COMMANDS.items() if name in fields}
    for field in fields_of(Execution, "execution").values():
        yield dict.fromkeys(COMMANDS, field)


def about(section: str) -> str:
    """Return the text about a section for ``--help``; empty for an unknown section."""
    configs = ReferenceTreeConfig, WorldConfig, RunConfig
    models = {name: model for config in configs for name, model in config.sections.items()}
    models |= {"run": RunConfig, "paper": Paper, "execution": Execution}
    return models[section].about if section in models else ""


def refuse_taken(system: Declared, former: Declared | None) -> None:
    """Raise a ValueError if a user's system declares a name, or a flat name, that is in use."""
    if system.config_section is None:
        return
    names = [system.config_section, *declared_section(system).flat_names().values()]
    free: set[str] = set()
    if former is not None and former.config_section is not None:
        free = {former.config_section, *declared_section(former).flat_names().values()}
    for config in (RunConfig, WorldConfig):
        fields = all_fields(config)
        taken = {*config.model_fields, *config.sections, *fields, *config.refused_fields()} - free
        for name in names:
            if name in taken:
                raise ValueError(f"{shown(name)} is a name in {config.__name__}; take another name")
