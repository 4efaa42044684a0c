"""Sections that systems declare, which are added to the configs of runs and worlds of a process."""

from __future__ import annotations

from scribe_spark.config.experiment import RunConfig, WorldConfig
from scribe_spark.config.fields import RUN_FIELDS, WORLD_FIELDS, FieldRecord, fields_of
from scribe_spark.config.section import Section
from scribe_spark.errors import shown

_CONFIGS = ((RunConfig, RUN_FIELDS), (WorldConfig, WORLD_FIELDS))

_ADDED: dict[str, type[Section]] = {}


def add_section(name: str, section: type[Section]) -> None:
    """Add a section to the configs of runs and worlds; it replaces an added one of the same name.

    The command line makes flags of the sections that exist when a command begins.  A name, or a
    flat name of a field, that is in use raises a ValueError.
    """
    remove_section(name)
    for config, fields in _CONFIGS:
        taken = {*config.model_fields, *config.sections, *fields, *config.all_refused()}
        for one in (name, *section.flat_names().values()):
            if one in taken:
                raise ValueError(f"{shown(one)} is a name in {config.__name__}; take another name")
    for config, fields in _CONFIGS:
        config.sections[name] = section
        fields.update(fields_of(section, name, config.command))
    _ADDED[name] = section


def is_added(name: str | None) -> bool:
    """Return True if there is an added section of a name."""
    return name in _ADDED


def about(name: str) -> str:
    """Return the text of an added section for ``--help``; empty if there is none."""
    return _ADDED[name].about if name in _ADDED else ""


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
