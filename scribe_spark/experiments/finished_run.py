"""A finished run: its folder, and the simulation for further queries."""

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
    """A finished run: its folder, and the simulation that wrote it.

    Used in a ``with`` statement, a run is closed at the end of it.

    Attributes
    ----------
    out : str
        The output folder, or its URL.
    simulation : Simulation
        The intermediate results of the run as DataFrames, which can be queried until
        :meth:`close`.
    """

    out: str
    simulation: Simulation

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def table(self, name: str) -> DataFrame:
        """Return a table of the run, for example ``deliveries``.

        `docs/tables.md` lists all tables and their columns.
        """
        with self._folder() as folder:
            return folder.read_table(name)

    def arrivals(self) -> DataFrame:
        """Return the time and the sender of the first copy at each member.

        Returns
        -------
        DataFrame
            The columns ``system, group, publication, node, arrival_us, hops, from``, with a row for
            each system, publication and member.  ``arrival_us`` is the time from the start of the
            run in microseconds.  ``from`` is the node that sent the copy; it is NULL for a node on
            the way from a source to the root of its group.
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
        """Return the sender (``from``) of each first copy, with the columns `keys` of the copy."""
        renamed = {"child": "node", "parent": "from", "receiver": "node", "sender": "from"}
        edges = self.table("tree_edges").withColumnsRenamed(renamed)
        if "copies" not in self._tables():
            return edges.select(*keys, "from")
        copies = self.table("copies").where("first").withColumnsRenamed(renamed)
        copies = copies.select(*keys, "from")
        # with a schedule, trees also have copies
        return copies if "publication" in keys else edges.select(*keys, "from").union(copies)

    def _tables(self) -> set[str]:
        return {name for entry in self.manifest()["phases"] for name in entry["tables"]}

    def read_text(self, name: str) -> str:
        """Return a text file of the folder, for example ``figures/figure-06-group-size.svg``."""
        with self._folder() as folder:
            return folder.read_text(name)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the contents of ``metrics.json``: a dict for each number, with its name."""
        with self._folder() as folder:
            return folder.read_json("metrics.json")

    def manifest(self) -> dict[str, Any]:
        """Return the contents of ``manifest.json``: settings, versions, phases, digests."""
        with self._folder() as folder:
            return folder.read_json(MANIFEST)

    def close(self) -> None:
        """Free the memory and the temporary files of the simulation; the output folder stays."""
        self.simulation.close()

    def _folder(self) -> Folder:
        return Folder(self.simulation.spark, self.out)
