"""Errors for flags without effect, such as ``--limit`` without the variant `bottleneck`.

A rule beside each field (`config.used_when`) says when the field has an effect.  Settings of a file
are not checked: a file may serve several commands, and a flag may turn off the parts that other
settings of the file describe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scribe_spark.config.section import Section
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
    found = {}
    for model in (kind, *kind.sections.values()):
        for name, flat in model.flat_names().items():
            rules = tuple(_rules(model, name))
            if rules:
                found[flat] = rules
    return found


def _rules(model: type[Section], name: str) -> Iterator[UsedWhen]:
    if model.all_used_when is not None:
        yield model.all_used_when
    yield from (m for m in model.model_fields[name].metadata if isinstance(m, UsedWhen))
