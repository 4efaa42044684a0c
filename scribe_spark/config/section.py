"""The base of all sections of a config: frozen, strictly typed, with one-line errors.

A section is a pydantic model.  A field has a name in its section (``count`` in `groups`) and a flat
name, which is also the name of its flag (``groups``): its name in its `Flat` mark, else its name in
the section with the section's prefix.

A field's annotation tells the kind of its values; texts are converted to such values.  A
:class:`UsedWhen` mark says in which configs the field has an effect; a field may have several.  The
command line refuses a flag without effect by these rules (`cli.flags`).  Settings of a file are
not refused, since a file may serve several commands.  A user's extension may use any field, so the
rules only know the names of the package.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, Union, cast, get_args, get_origin

from annotated_types import Interval
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from scribe_spark.config.given_graph import GivenGraph
from scribe_spark.core import units
from scribe_spark.core.errors import InputError, check_names, listed
from scribe_spark.core.paths import exists
from scribe_spark.core.registry import SYSTEMS, FrozenFields

# --- kinds of values


#: The description of a value of each kind, for messages.
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "list": "names separated by commas",
}


@dataclass(frozen=True)
class TakenAs:
    """A mark of a field: its text is converted as a ``size``, ``rate``, ``time`` or ``file``."""

    kind: str


@dataclass(frozen=True)
class ValueKind:
    """The kind of a field's values: a type (``list`` for texts), or that of a `TakenAs`."""

    name: str
    choices: tuple[Any, ...] = ()
    optional: bool = False

    def parse(self, field: str, text: str) -> Any:
        """Return the value of a flag's text; the config checks its range and meaning."""
        try:
            if self.name == "bool":
                return {"true": True, "false": False}[text]
            if self.name == "float":
                return float(_ascii(text))
            return whole_number(text) if self.name == "int" else text
        except (KeyError, ValueError):
            raise InputError(field, text, f"must be {_WORDS[self.name]}") from None


def whole_number(text: str) -> int:
    """Return the whole number in a text of the digits 0 to 9, not of other scripts' digits."""
    return int(_ascii(text))


def _ascii(text: str) -> str:
    if not text.isascii():
        raise ValueError("has digits of another script")
    return text


def kind_of(annotation: Any, marks: Iterable[Any] = ()) -> ValueKind:
    """Return the kind of an annotation: ``int | None``, ``Literal["a"]``, ``tuple[str, ...]``."""
    origin, inner = get_origin(annotation), get_args(annotation)
    for mark in marks:
        if isinstance(mark, TakenAs):
            return ValueKind(mark.kind)
    if origin is Annotated:
        return kind_of(inner[0], inner[1:])
    if origin in (Union, types.UnionType):
        first = kind_of(inner[0])
        return ValueKind(first.name, first.choices, type(None) in inner)
    if origin is Literal:
        return ValueKind(type(inner[0]).__name__, inner)
    return ValueKind("list" if origin is tuple else annotation.__name__)


# --- fields with a unit, each stored in one spelling (``128KB``), so that equal values are equal


def _spelled(quantity: units.Quantity, least: int) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value is None:  # the field is unset
            return value
        return units.canonical(quantity, units.parse(quantity, value, least))

    return BeforeValidator(check)


#: Texts with a size, a rate, a time: ``128KB``, ``50Mbit/s``, ``5ms``.  A time may be ``0us``.
Size = Annotated[str, TakenAs("size"), _spelled("size", 1)]
Rate = Annotated[str, TakenAs("rate"), _spelled("rate", 1)]
Time = Annotated[str, TakenAs("time"), _spelled("time", 0)]


# --- where a field has an effect


#: A function of a config that returns True if a field has an effect in it.
Test = Callable[[Any], bool]

#: The package's generators of events, overlays and variants of Scribe's trees.
GENERATORS = (
    *("mass-failure", "adjacent-failure", "churn", "flash-crowd", "root-failure"),
    *("group-crowd", "group-churn", "publications"),
)
OVERLAYS = ("perfect", "arrivals", "can")
VARIANTS = ("bottleneck", "collapse", "lazy")


@dataclass(frozen=True)
class UsedWhen:
    """A mark of a field, or a section, that has an effect only where ``test(config)`` is True."""

    test: Test
    remedy: str


def used_when(test: Test, needed: str) -> UsedWhen:
    """Return a mark of a field that has no effect without the flags in `needed` (words)."""
    return UsedWhen(test, f"has no effect without {needed}; give both")


#: The marks of fields that only runs use, and that only worlds use.
OF_RUNS = UsedWhen(lambda of: not of.is_world, "has no effect in worlds; leave it out")
OF_WORLDS = UsedWhen(lambda of: of.is_world, "has no effect in runs; leave it out")


# --- networks


def drawn_as(kind: str) -> Test:
    """Return a function of a config: True if its network has a `kind`, or a kind of a user."""

    def test(config: Any) -> bool:
        given = str(config.topology.kind)
        others = {"transit-stub", "power-law", "regions", "pairs", "edges"} - {kind}
        is_table = given != kind and exists(given, "topology")
        return not (given in others or given.startswith("topohub:") or is_table)

    return test


# --- events


def made_by(*names: str) -> Test:
    """Return a function of a config: True if a generator in `names`, or a user's, makes events."""
    return lambda config: bool(set(config.world.generators) - (set(GENERATORS) - set(names)))


def generated_by(*names: str) -> UsedWhen:
    """Return the mark of a field that is a parameter of some generators."""
    needed = names[0] if len(names) == 1 else f"of one of {listed(names)}"
    return used_when(made_by(*names), f"--generator {needed}")


def has_events(config: Any) -> bool:
    """Return True for configs with a generator or a table of events."""
    if "world" not in config.sections:
        return False
    return bool(config.world.generator or config.world.events)


def _happens(config: Any, *generators: str) -> bool:
    """Return True for configs with a table of events, or with one of several generators."""
    return has_events(config) and bool(config.world.events or made_by(*generators)(config))


def nodes_arrive(config: Any) -> bool:
    """Return True if nodes arrive, when the overlay is built or in a round."""
    is_built = config.overlay.kind not in ("perfect", "can")
    return is_built or _happens(config, "churn", "flash-crowd")


def nodes_fail(config: Any) -> bool:
    """Return True if nodes fail or leave."""
    return _happens(config, "mass-failure", "adjacent-failure", "root-failure", "churn")


def nodes_come_back(config: Any) -> bool:
    """Return True if a generator brings nodes back and no generator makes memberships."""
    makes = made_by("churn", "flash-crowd")(config)
    return makes and "group-churn" not in config.world.generators


def has_groups(config: Any) -> bool:
    """Return True for configs with groups; a world may have none."""
    return not config.is_world or config.groups.has_groups


#: The mark of a field of groups.
OF_GROUPS = used_when(has_groups, "--groups or --members")


def plays_scribe(config: Any) -> bool:
    """Return True if Scribe is simulated: a world may leave Scribe out."""
    return not config.is_world or used_by("scribe")(config)


def may_play_pastry(config: Any) -> bool:
    """Return True if a world may play Pastry: without groups, or for a system that may need it."""
    needed = (
        not SYSTEMS.is_built_in(name) or SYSTEMS[name].needs_pastry(config)
        for name in config.trees.systems
    )
    return not has_groups(config) or any(needed)


def has_publications(config: Any) -> bool:
    """Return True for worlds with publications."""
    return _happens(config, "publications")


# --- trees and systems


def used_by(*names: str) -> Test:
    """Return a test for configs with one of several variants or systems, or with a user's own."""

    def test(config: Any) -> bool:
        systems = filter(SYSTEMS.is_built_in, SYSTEMS)
        own = {*systems, *VARIANTS, "plain", *map(_system_of, VARIANTS)}
        others = own - {*names, *map(_system_of, names)}
        return bool({*config.trees.variants, *config.trees.systems} - others)

    return test


def declared_by(declares: Callable[[Any], bool]) -> Test:
    """Return a test for configs with a system whose declaration fits, or with a user's own."""

    def test(config: Any) -> bool:
        found = filter(declares, SYSTEMS.values())
        return used_by(*(one.variant or one.name for one in found))(config)

    return test


def in_systems(name: str) -> UsedWhen:
    """Return the mark of the section of a system, which has an effect if the system is named."""
    return used_when(used_by(name), f"{name} in --systems")


def _system_of(variant: str) -> str:
    return f"scribe_{variant}"


# --- sections


@dataclass(frozen=True)
class Flat:
    """A mark of a field whose flat name differs from its name in the section."""

    name: str


@dataclass(frozen=True)
class OnlyInWorlds:
    """A mark of a field that only worlds have; `why` is the reason in errors of other commands."""

    why: str


@dataclass(frozen=True)
class Differs:
    """A mark of a field that has another default, and another description, in some commands."""

    commands: tuple[str, ...]
    default: Any
    description: str | None = None


#: A possible fault: True if a config has it, the field, its value, and a remedy.
Fault = tuple[bool, str, Any, str]


def refuse_first(faults: Iterable[Fault]) -> None:
    """Refuse the first fault that a config has."""
    for wrong, field, value, remedy in faults:
        if wrong:
            raise InputError(field, value, remedy)


def _check_text(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("must be a non-empty text")
    return text


def _check_whole(value: Any) -> Any:
    if type(value) is not int:
        raise PydanticCustomError("literal_error", "not a whole number")
    return value


def _plain(value: Any) -> Any:
    """Return a value as JSON and TOML can write it; a graph becomes its digest."""
    if isinstance(value, tuple):
        return [
            {name: of for name, of in one.flat().items() if of is not None}
            if isinstance(one, Section)
            else one
            for one in value
        ]
    return str(value) if isinstance(value, GivenGraph) else value


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return tuple(value) if isinstance(value, list) else value


def setting(default: Any, text: str) -> Any:
    """Return a field with a default and its text for ``--help`` and the docs."""
    return Field(default=default, description=text)


def unset(text: str) -> Any:
    """Return a field that is None by default."""
    return setting(None, text)


def within(least: float, most: float) -> Interval:
    """Return the mark of a field whose numbers are from `least` to `most`."""
    return Interval(ge=least, le=most)


#: A non-empty text.
Text = Annotated[str, AfterValidator(_check_text)]

#: A path or a URL; a path may begin with ``~``, the user's home.
Location = Annotated[Text, AfterValidator(os.path.expanduser)]

#: Names in a list, or in one text, separated by commas.
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]

#: For a choice of whole numbers: refuses True and 4.0, which equal 1 and 4.
Whole = BeforeValidator(_check_whole)


class Section(BaseModel):
    """A group of settings, which are checked when it is made."""

    #: The configs in which the section has an effect; None: all configs.
    all_used_when: ClassVar[UsedWhen | None] = None

    #: The beginning of all flat names without a `Flat` mark.
    flat_prefix: ClassVar[str] = ""

    #: The text above the flags of the section in ``--help``.
    about: ClassVar[str] = ""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **given: Any) -> None:
        check_names(given, type(self).model_fields, "config key")
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _refusal(error, type(self).model_fields, self.flat_names()) from None

    @model_validator(mode="after")
    def _together_possible(self) -> Self:
        refuse_first(self._faults())
        return self

    def _faults(self) -> Iterable[Fault]:
        """Return the faults that the settings may have together."""
        return ()

    @classmethod
    @cache
    def flat_names(cls) -> dict[str, str]:
        """Return the flat name of each field, in order."""
        return {
            name: next(
                (mark.name for mark in field.metadata if isinstance(mark, Flat)),
                cls.flat_prefix + name,
            )
            for name, field in cls.model_fields.items()
        }

    @classmethod
    @cache
    def marked(cls, kind: type) -> dict[str, Any]:
        """Return the marks of a `kind` (a class), by the name of the field that has the mark."""
        return {
            name: mark
            for name, field in cls.model_fields.items()
            for mark in field.metadata
            if isinstance(mark, kind)
        }

    @classmethod
    @cache
    def refused_in(cls, command: str) -> dict[str, str]:
        """Return the fields that only other commands than this one have: flat name -> reason."""
        flat, marks = cls.flat_names(), {} if command == "world" else cls.marked(OnlyInWorlds)
        return {flat[n]: f"applies to worlds only: {one.why}" for n, one in marks.items()}

    @classmethod
    def differing_in(cls, command: str) -> dict[str, Differs]:
        """Return the marks `Differs` of the fields that differ in a command: field name -> mark."""
        marks = cls.marked(Differs)
        return {name: mark for name, mark in marks.items() if command in mark.commands}

    def with_defaults_of(self, command: str) -> Self:
        """Return the section with the defaults of a command in the fields that were not set.

        An empty list is a field that was not set.
        """
        told, fields = self.given(), type(self).model_fields
        usual = {
            name: mark.default
            for name, mark in self.differing_in(command).items()
            if not told.get(name) and getattr(self, name) == fields[name].default
        }
        if not usual:
            return self
        copy = self.model_copy(update=usual)
        copy.model_fields_set.difference_update(usual)
        return copy

    def values_for(self, command: str) -> dict[str, Any]:
        """Return the fields that were set, and those that differ from a command's default."""
        usual = {name: field.default for name, field in type(self).model_fields.items()}
        usual |= {name: mark.default for name, mark in self.differing_in(command).items()}
        return {
            name: value
            for name, value in self
            if name in self.model_fields_set or value != usual[name]
        }

    def flat(self) -> dict[str, Any]:
        """Return the values of all fields by flat name, in order, in types that JSON can write."""
        values = {flat: getattr(self, name) for name, flat in self.flat_names().items()}
        return {name: _plain(value) for name, value in values.items()}

    def given(self) -> dict[str, Any]:
        """Return the values of the fields that were set explicitly: field name -> value."""
        return {name: getattr(self, name) for name in self.model_fields_set}

    def for_tasks(self) -> Self:
        """Return an object with the fields and properties alone; tasks read it without pydantic."""
        kinds = (kind for kind in type(self).__mro__ if issubclass(kind, Section))
        derived = [
            name for kind in kinds for name, one in vars(kind).items() if isinstance(one, property)
        ]
        names = (*type(self).model_fields, *derived)
        return cast(Self, FrozenFields(**{name: getattr(self, name) for name in names}))

    @classmethod
    def completed(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings (flat name -> value), with values of unset fields if they are known."""
        return dict(settings)

    def check_within(self, config: Any) -> None:
        """Refuse settings that do not fit to the config of a run or world that plays the system."""

    def check_groups(self, config: Any, groups: int, memberships: int, members: str | None) -> None:
        """Refuse more groups, or more members of all groups, than the system can number.

        `members` is the path of the table from which the groups come, or None.
        """

    def check_network(self, source: str, routers: int, has_rates: bool) -> None:
        """Refuse settings that do not fit to the network of a run or world.

        The network has so many routers from a `source` (generated, or a kind of file); `has_rates`
        is True if the rates of its links are known.
        """

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values, which are checked again."""
        return type(self)(**{**self.given(), **changes})


# --- pydantic's errors as one line in the words of this package

#: Pydantic's name of an error -> the remedy.
_TYPES = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a non-empty text",
    "string_unicode": "must be a text in UTF-8",
    "tuple_type": "must be names, in a list or separated by commas",
    "missing": "must be given",
}

#: Pydantic's name of a bound -> its words.
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def _refusal(
    error: ValidationError, fields: Mapping[str, FieldInfo], flat: Mapping[str, str]
) -> InputError:
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    if isinstance(context.get("error"), InputError):
        return context["error"]
    name = str(first["loc"][0])
    value = "" if first["type"] == "missing" else first["input"]
    return InputError(flat[name], value, _remedy(first["type"], context, fields[name]))


def _remedy(complaint: str, context: Mapping[str, Any], field: FieldInfo) -> str:
    if complaint == "value_error":  # one of our validators has raised it
        return str(context["error"])
    if complaint == "literal_error":
        return f"must be one of {listed(kind_of(field.annotation).choices)}"
    if complaint == "multiple_of" and context["multiple_of"] == 2:
        return f"must be even, for example {field.default}"
    for bound, words in _BOUNDS.items():
        if bound in context:
            limit = context[bound]
            return f"must be {words} {f'{limit:,}' if isinstance(limit, int) else limit}"
    return _TYPES.get(complaint, complaint.replace("_", " "))
