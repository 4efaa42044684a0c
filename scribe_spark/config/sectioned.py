"""A config of several sections, whose fields are set by flat name, by section, or both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr

from scribe_spark.config.section import Section
from scribe_spark.errors import InputError, check_names


class Sectioned(Section):
    """A config with sections of fields, and own fields that belong to no section.

    `sections` are in the order of flags and docs; sections of users' systems
    (`outside.add_section`) are attributes, but not fields of the model.  `elsewhere` has the names
    of settings that only another kind of config has -> the reason, as the end of an error message.
    """

    sections: ClassVar[dict[str, type[Section]]] = {}
    elsewhere: ClassVar[dict[str, str]] = {}
    is_world: ClassVar[bool] = False
    _outside: dict[str, Section] = PrivateAttr(default_factory=dict)

    def __init__(self, **given: Any) -> None:
        flat = self.flat_values(given)  # fields outside of sections have one name
        made = {
            section: model(**{n: flat.pop(f) for n, f in model.flat_names().items() if f in flat})
            for section, model in self.sections.items()
        }
        fields = type(self).model_fields
        super().__init__(**flat, **{name: one for name, one in made.items() if name in fields})
        self._outside = {name: one for name, one in made.items() if name not in fields}

    def __getattr__(self, name: str) -> Any:
        if name in type(self).sections:
            return self._outside.get(name) or type(self).sections[name]()
        return super().__getattr__(name)  # type: ignore[misc]

    @classmethod
    def of(cls, *sources: Mapping[str, Any]) -> Self:
        """Return a config from mappings of fields; later mappings override earlier ones."""
        merged: dict[str, Any] = {}
        for source in sources:
            merged |= cls.flat_values(source)
        return cls(**merged)

    @classmethod
    def own_fields(cls) -> list[str]:
        """Return the names of the fields that belong to no section."""
        return [name for name in cls.model_fields if name not in cls.sections]

    @classmethod
    def flat_values(cls, given: Mapping[str, Any], what: str = "config key") -> dict[str, Any]:
        """Return fields by flat name, from fields by flat name, by dotted name or in sections."""
        return flatten(given, cls.sections, cls.own_fields(), what, cls.elsewhere)

    def flat(self) -> dict[str, Any]:
        """Return the values of all fields by flat name, in order, in types that JSON can write."""
        own = super().flat()
        outside = {name: getattr(self, name) for name in self.sections if name not in own}
        return {
            name: value
            for key, field in {**own, **outside}.items()
            for name, value in (
                field.flat() if isinstance(field, Section) else {key: field}
            ).items()
        }

    def given(self) -> dict[str, Any]:
        """Return the values of the fields that were set explicitly, by flat name."""
        own = {n: value for n, value in super().given().items() if n not in self.sections}
        return own | {
            flat[name]: value
            for section, model in self.sections.items()
            for flat in [model.flat_names()]
            for name, value in getattr(self, section).given().items()
        }

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, by flat name or by section, which are checked again."""
        return self.of(self.given(), changes)


# --- fields by flat name

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
