"""The units of the fields of a config, for the page of the configuration."""

from __future__ import annotations

from scribe_spark.config.fields import FieldRecord

_ENDINGS = {"_ms": "ms", "_seconds": "s"}
_KINDS = {"size": "bytes", "rate": "bit/s", "time": "time"}

#: Unit -> fields whose names do not tell it.
_UNITS: dict[str, tuple[str, ...]] = {
    "nodes": ("nodes", "leaf_set", "replicas", "initial", "adjacent", "holders", "crowd"),
    "members": ("group_size",),
    "groups": ("groups", "custody"),
    "rounds": (
        *("rounds", "event_round", "lifetime", "membership", "detection", "maintenance_period"),
        *("parent_timeout", "refresh", "child_timeout", "deadline", "link_stress_period"),
        "bayeux_recreate",
    ),
    "heartbeats": ("gossipsub_heartbeats", "gossipsub_mcache_gossip"),
    "of nodes": ("share",),
    "per round": ("publish_rate", "lookups"),
    "children": ("limit",),
    "bits": ("bits",),
    "hosts": ("hosts", "scaling"),
}
UNITS = {field: unit for unit, fields in _UNITS.items() for field in fields}


def unit_of(field: FieldRecord) -> str:
    """Return the unit of a field; empty for names, choices and plain numbers."""
    for ending, unit in _ENDINGS.items():
        if field.flat.endswith(ending):
            return unit
    return UNITS.get(field.flat) or _KINDS.get(field.kind.name, "")
