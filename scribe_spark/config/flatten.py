"""Fields by flat name, from fields by flat name, by dotted name, or in sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scribe_spark.config.section import Section
from scribe_spark.errors import InputError, check_names

Sections = Mapping[str, type[Section]]


def flatten(
    given: Mapping[str, Any],
    sections: Sections,
    own: Iterable[str],
    what: str = "config key",
    elsewhere: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the values of fields by flat name.

    `given` has fields by flat name (``nodes``), by dotted name (``overlay.nodes``), or whole
    sections (``overlay``: a mapping, or a section's model).  `own` are the names outside of
    sections; `what` names the names in messages; `elsewhere` has the names of other kinds of
    configs -> the reason.

    Examples
    --------
    >>> from scribe_spark.config.overlay import OverlayConfig
    >>> flatten({"overlay": {"nodes": 5}, "overlay.b": 2}, {"overlay": OverlayConfig}, [])
    {'nodes': 5, 'b': 2}
    """
    flat = [*own, *(name for model in sections.values() for name in model.flat_names().values())]
    found: dict[str, Any] = {}
    for name, value in given.items():
        if elsewhere and (where := name.partition(".")[0]) in elsewhere:
            raise InputError(name, value, elsewhere[where])
        for field, inner in _fields(name, value, sections, flat, what, elsewhere or {}).items():
            if field in found:
                raise InputError(field, inner, "is given twice; leave one of them out")
            found[field] = inner
    return found


def _fields(
    name: str,
    value: Any,
    sections: Sections,
    flat: list[str],
    what: str,
    elsewhere: Mapping[str, str],
) -> dict[str, Any]:
    """Return the fields that one entry sets."""
    section, dot, field = name.partition(".")
    if dot and section in sections:
        return _of_section(section, {field: value}, sections, what, elsewhere)
    # `topology` and `groups` are both sections and flat names
    if name in sections and (name not in flat or isinstance(value, Mapping | Section)):
        return _of_section(name, value, sections, what, elsewhere)
    check_names([name], [*flat, *sections], what)
    return {name: value}


def _of_section(
    section: str, given: Any, sections: Sections, what: str, elsewhere: Mapping[str, str]
) -> dict[str, Any]:
    model = sections[section]
    if isinstance(given, Section) and (isinstance(given, model) or issubclass(model, type(given))):
        given = given.given() if type(given) is model else _told(given, model)
    if not isinstance(given, Mapping):
        some = next(iter(model.model_fields))
        raise InputError(section, given, f"must be a table of fields, such as {some}")
    names = model.flat_names()
    # a section may also name a field by its flat name
    known = {**{flat: flat for flat in names.values()}, **names}
    found: dict[str, Any] = {}
    for name, value in given.items():
        dotted = f"{section}.{name}"
        if name not in known:
            if name in elsewhere:
                raise InputError(dotted, value, elsewhere[name])
            if home := _home(name, sections):
                raise InputError(dotted, value, f"is not a field of [{section}]; give {home}")
            check_names([dotted], [f"{section}.{one}" for one in names], what)
        if known[name] in found:
            raise InputError(known[name], value, "is given twice; leave one of them out")
        found[known[name]] = value
    return found


def _home(flat: str, sections: Sections) -> str | None:
    for section, model in sections.items():
        for name, its_flat in model.flat_names().items():
            if its_flat == flat:
                return f"{section}.{name}"
    return None


def _told(given: Section, model: type[Section]) -> dict[str, Any]:
    """Return the explicit fields of a section, and fields whose default differs from a model's."""
    values = {name: getattr(given, name) for name in type(given).model_fields}
    usual = {name: field.default for name, field in model.model_fields.items()}
    return given.given() | {n: v for n, v in values.items() if n not in usual or usual[n] != v}
