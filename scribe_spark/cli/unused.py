"""Errors for flags without effect, such as ``--limit`` without the variant `bottleneck`.

A rule beside each field (`config.used_when`) says when the field has an effect.  Settings of a file
are not checked: a file may serve several commands, and a flag may turn off the parts that other
settings of the file describe.  Swept settings are checked, also those of a file: all points would
be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scribe_spark.config.sectioned import Sectioned
from scribe_spark.config.used_when import UsedWhen
from scribe_spark.errors import InputError


def refuse_unused(flags: Mapping[str, Any], configs: Sequence[Sectioned]) -> None:
    """Refuse a flag without effect in all configs, unless it has the default value."""
    kind = type(configs[0])
    usual, values = kind().flat(), [config.flat() for config in configs]
    for name, rules in rules_of(kind).items():
        if name not in flags or all(value[name] == usual[name] for value in values):
            continue
        for rule in rules:
            if not any(rule.test(config) for config in configs):
                raise InputError(name, flags[name], rule.remedy)


def rules_of(kind: type[Sectioned]) -> dict[str, tuple[UsedWhen, ...]]:
    """Return the rules of all fields that have any, by flat name."""
    found = {}
    for model in (kind, *kind.sections.values()):
        refused = model.refused_in(kind.command)
        for name, flat in model.flat_names().items():
            marks = model.all_used_when, *model.model_fields[name].metadata
            rules = tuple(mark for mark in marks if isinstance(mark, UsedWhen))
            if rules and flat not in refused:
                found[flat] = rules
    return found
