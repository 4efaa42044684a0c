"""A finished run: its folder, and its stages for further questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scribe_spark.experiments.folder import Folder
from scribe_spark.experiments.manifest import MANIFEST
from scribe_spark.experiments.simulation import Simulation
from scribe_spark.schemas import MICROSECONDS


@dataclass(frozen=True)
class Run:
    """The folder of a finished run.

    Attributes
    ----------
    out : str
    simulation : Simulation
        The run's stages as DataFrames, computed on demand, until :meth:`close`.
    """

    out: str
    simulation: Simulation

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def table(self, name: str) -> DataFrame:
        """Return a table of the run by its name in `schemas`."""
        with self._folder() as folder:
            return folder.read_table(name)

    def arrivals(self) -> DataFrame:
        """Return the first copy of each member, from `deliveries` and the copies that nodes sent.

        Returns
        -------
        DataFrame
            ``system, group, publication, node, arrival_us, hops, from``; ``from`` is NULL where the
            copy came on the way from a source to the root.  Times count from the start of the run.
        """
        scheduled = "schedule" in self._tables()
        keys = ["system", "group", "node", *(["publication"] if scheduled else [])]
        deliveries = self.table("deliveries")
        if scheduled:
            published = self.table("schedule").select("publication", "time_ms")
            deliveries = deliveries.join(published, "publication")
        else:
            of_run = {"publication": F.lit(0).cast("bigint"), "time_ms": F.lit(0.0)}
            deliveries = deliveries.withColumns(of_run)
        arrival_us = F.round((F.col("delay_ms") + F.col("time_ms")) * MICROSECONDS).cast("bigint")
        return deliveries.join(self._senders(keys), keys, "left").select(
            *("system", "group", "publication", "node"),
            *(arrival_us.alias("arrival_us"), "hops", "from"),
        )

    def _senders(self, keys: list[str]) -> DataFrame:
        """Return the sender of each first copy, ``from``, with some keys of the copy."""
        renamed = {"child": "node", "parent": "from", "receiver": "node", "sender": "from"}
        edges = self.table("tree_edges").withColumnsRenamed(renamed)
        if "copies" not in self._tables():
            return edges.select(*keys, "from")
        copies = self.table("copies").where("first").withColumnsRenamed(renamed)
        copies = copies.select(*keys, "from")
        # with a schedule trees have copies, too
        return copies if "publication" in keys else edges.select(*keys, "from").union(copies)

    def _tables(self) -> set[str]:
        return {name for entry in self.manifest()["phases"] for name in entry["tables"]}

    def read_text(self, name: str) -> str:
        """Return a text file of the folder, for example ``figures/figure-06-group-size.svg``."""
        with self._folder() as folder:
            return folder.read_text(name)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the contents of `metrics.json`."""
        with self._folder() as folder:
            return folder.read_json("metrics.json")

    def manifest(self) -> dict[str, Any]:
        """Return the contents of `manifest.json`."""
        with self._folder() as folder:
            return folder.read_json(MANIFEST)

    def close(self) -> None:
        """Free the memory and the temporary files of the simulation; the folder stays."""
        self.simulation.close()

    def _folder(self) -> Folder:
        return Folder(self.simulation.spark, self.out)
