"""Every field of a config as a record: what flags, sweeps and the docs are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic.fields import FieldInfo

from scribe_spark.config.execution import Execution
from scribe_spark.config.kinds import Kind, kind_of
from scribe_spark.config.reference_tree import ReferenceTreeConfig, ReferenceTreeSection
from scribe_spark.config.run import RunConfig
from scribe_spark.config.section import Section
from scribe_spark.config.sectioned import Sectioned
from scribe_spark.config.world import WorldConfig


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
        if self.kind.name == "bool":
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


def documentation() -> Iterator[tuple[str, str, str, str, str]]:
    """Section, flat name, type, default and description of every field, in order.

    The default is empty where a field is unset.  Fields that only worlds have come after those of
    runs, whatever their section; some of ``scribe`` are called like those of runs: groups and
    members mean the same there.  Those of ``reference_tree`` are of the command of that name; but
    its field `reference_tree` is of worlds.
    """
    of_worlds = {
        name: field
        for name, field in WORLD_FIELDS.items()
        if name not in RUN_FIELDS
        or (field.section == "scribe" and RUN_FIELDS[name].section != "scribe")
    }
    of_trees = fields_of(ReferenceTreeSection, "reference_tree")
    execution = fields_of(Execution, "execution")
    others = (*of_worlds.values(), *of_trees.values(), *execution.values())
    for field in (*RUN_FIELDS.values(), *others):
        yield field.section, field.flat, field.type, field.typical, field.description
