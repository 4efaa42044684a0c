"""Leaf sets and routing tables that another run has saved (`write_knowledge`), used again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.config import ExperimentConfig
from scribe_spark.core.errors import InputError, redacted, shown
from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.manifest import MANIFEST, RUN, WORLD, owner_of, records_of
from scribe_spark.experiments.plan import used_settings
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.underlay.protocol import Underlay

_TABLE, _MESSAGES = "knowledge", "arrival_messages"


def check_saved_knowledge(config: ExperimentConfig, read: Callable[[str], str]) -> dict[str, Any]:
    """Refuse saved tables of another overlay than the config's; return the tables' records."""
    out = config.knowledge
    try:
        manifest = json.loads(read(MANIFEST))
        owner = WORLD if owner_of(manifest) is WORLD else RUN
        resolved, tables = dict(manifest["resolved"]), dict(records_of(manifest, owner).tables)
    except InputError:  # the storage does not answer
        raise
    except Exception:
        raise InputError(
            "knowledge", out, f"has no readable {MANIFEST} of a run or world"
        ) from None
    if _TABLE not in tables:
        remedy = (
            "belongs to a run or world without --write-knowledge, or to one that ended too early"
        )
        raise InputError("knowledge", out, remedy)
    for name, ours in redacted(json.loads(json.dumps(_network(config)))).items():
        theirs = redacted(resolved.get(name))
        if theirs != ours:
            remedy = f"was made with {name} = {shown(theirs)}, this run has {shown(ours)}"
            raise InputError("knowledge", out, remedy)
    rows, nodes = tables[_TABLE].get("rows"), config.overlay.nodes
    if rows != nodes:
        raise InputError(
            "knowledge", out, f"has {rows:,} of the {nodes:,} nodes; others had failed"
        )
    return tables


def verify_saved_knowledge(spark: SparkSession, config: ExperimentConfig) -> None:
    """Refuse saved tables of another overlay, and damaged ones."""
    out = str(config.knowledge)
    with Folder(spark, out) as folder:
        tables = check_saved_knowledge(config, folder.read_text)
        read = {name: tables[name] for name in (_TABLE, _MESSAGES) if name in tables}
        for path, problem in folder.faults(read, {}):
            raise InputError("knowledge", out, f"its {path} is damaged: {problem}")


def saved_knowledge(spark: SparkSession, config: ExperimentConfig) -> DataFrame | None:
    """Return the saved tables (`schemas.KNOWLEDGE`) that a config names, or None."""
    if config.knowledge is None:
        return None
    with Folder(spark, config.knowledge) as folder:
        return folder.read_table(_TABLE)


def saved_overlay(
    spark: SparkSession, config: ExperimentConfig, underlay: Underlay
) -> PastryOverlay:
    """Return the overlay of the saved tables, which have been checked."""
    overlay = config.overlay
    with Folder(spark, str(config.knowledge)) as folder:
        tables = check_saved_knowledge(config, folder.read_text)
        known: DataFrame = folder.read_table(_TABLE)
        built = PastryOverlay.of_knowledge(known, underlay, overlay.b, overlay.leaf_set)
        if _MESSAGES not in tables:
            return built
        built.arrived = folder.collect(_MESSAGES, schemas.ARRIVAL_MESSAGES.names)
        return built


def _network(config: ExperimentConfig) -> dict[str, Any]:
    """Return the values of all settings on which the tables depend, by flat name."""
    network = {**config.overlay.flat(), **config.topology.flat(), **used_settings(config)}
    return {**network, "seed": config.seed}
