"""The origin of a result, read from a manifest: command, versions, duration; without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scribe_spark.gossipsub.config import with_preset
from scribe_spark.redaction import redacted
from scribe_spark.report.text import ABSENT, as_duration, as_setting, as_text, is_number


def facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the main facts of a run for the head of its page."""
    config = redacted(
        {**as_mapping(manifest.get("config")), **as_mapping(manifest.get("resolved"))}
    )
    times = (phase.get("seconds") for phase in _phase_list(manifest))
    took = [float(seconds) for seconds in times if is_number(seconds)]
    found = [
        ("Topology", config.get("topology")),
        ("Nodes", config.get("nodes")),
        ("Groups", config.get("groups")),
        ("Experiments", as_setting(config["experiments"]) if "experiments" in config else None),
        ("Topologies", config.get("seeds")),
        ("Seed", manifest.get("seed", config.get("seed"))),
        ("Computed in", as_duration(sum(took)) if took else None),
    ]
    return [(what, as_text(value)) for what, value in found if value is not None]


def settings(manifest: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Return each setting, its value, and True if the user has set it."""
    given = redacted(_flat(as_mapping(manifest.get("config"))))
    resolved = redacted(_flat(as_mapping(manifest.get("resolved"))))
    shown = with_preset({**given, **resolved})
    return [(key, as_setting(value), key in given) for key, value in shown.items()]


def origin(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the versions and the machine."""
    both = {
        **_flat(as_mapping(manifest.get("versions"))),
        **_flat(as_mapping(manifest.get("machine"))),
    }
    return [(key, as_setting(value)) for key, value in both.items()]


def phases(manifest: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the name, the seconds and the rows of each phase."""
    return [
        (
            as_text(phase.get("name")),
            f"{seconds:,.1f}" if is_number(seconds := phase.get("seconds")) else ABSENT,
            as_text(phase.get("rows")),
        )
        for phase in _phase_list(manifest)
    ]


def _phase_list(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = manifest.get("phases")
    if not isinstance(entries, list | tuple):
        return []
    return [entry for entry in entries if isinstance(entry, Mapping)]


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested mapping as one whose keys are joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        inner = isinstance(value, Mapping)
        flat.update(_flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value})
    return flat
