"""Leaf sets and routing tables that another run has saved (`write_knowledge`), used again."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scribe_spark import schemas
from scribe_spark.config import ExperimentConfig
from scribe_spark.core.errors import InputError, redacted, shown
from scribe_spark.experiments.folder import Folder, StoredFolder
from scribe_spark.experiments.manifest import RUN, WORLD
from scribe_spark.experiments.plan import read_records, used_settings
from scribe_spark.pastry.overlay import PastryOverlay
from scribe_spark.underlay.protocol import Underlay

_TABLE, _MESSAGES = "knowledge", "arrival_messages"


def check_saved_knowledge(config: ExperimentConfig, folder: StoredFolder) -> dict[str, Any]:
    """Refuse saved tables of another overlay than the config's; return the tables' records."""
    out = config.knowledge
    try:
        _, manifest, records = read_records(folder, RUN, WORLD)
    except InputError as error:
        raise InputError("knowledge", out, error.remedy) from None
    resolved, tables = manifest["resolved"], records.tables
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
        tables = check_saved_knowledge(config, folder)
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
        tables = check_saved_knowledge(config, folder)
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
