"""Flags that would change nothing beside the others, such as ``--limit`` without the remover.

When a field changes anything is said beside the field (`config.used_when`).  A file's fields are
taken as they are: a file may be for several commands, and a flag may have turned off the parts that
its other fields are parameters of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scribe_spark.config.section import Section
from scribe_spark.config.sectioned import Sectioned
from scribe_spark.config.used_when import UsedWhen
from scribe_spark.errors import InputError


def refuse_unused(flags: Mapping[str, Any], configs: Sequence[Sectioned]) -> None:
    """Refuse a flag that none of the configs uses, unless it only says what is so by default.

    Parameters
    ----------
    flags : mapping
        Flat name -> value of the flags that were given.
    configs : sequence of Sectioned
        All that would be run; at least one, all of one kind.

    Raises
    ------
    InputError
    """
    kind = type(configs[0])
    usual, values = kind().flat(), [config.flat() for config in configs]
    for name, rules in rules_of(kind).items():
        if name not in flags or all(value[name] == usual[name] for value in values):
            continue
        for rule in rules:
            if not any(rule.test(config) for config in configs):
                raise InputError(name, flags[name], rule.remedy)


def rules_of(kind: type[Sectioned]) -> dict[str, tuple[UsedWhen, ...]]:
    """Return the rules of every field of a config that has some, by flat names."""
    found = {}
    for model in (kind, *kind.sections.values()):
        for name, flat in model.flat_names().items():
            rules = tuple(_rules(model, name))
            if rules:
                found[flat] = rules
    return found


def _rules(model: type[Section], name: str) -> Iterator[UsedWhen]:
    """Yield the rule of a section, then those of one of its fields."""
    if model.all_used_when is not None:
        yield model.all_used_when
    yield from (m for m in model.model_fields[name].metadata if isinstance(m, UsedWhen))
