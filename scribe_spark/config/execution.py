"""The section ``execution``: where a run happens; nothing here changes a number."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from scribe_spark.config.section import Location, Section, Text
from scribe_spark.errors import InputError

#: The phases of a run, in order; each reads the tables of those before it.
PHASES = ("topology", "overlay", "trees", "measures", "report")

#: Where the command line writes a run, the whole paper, a world, and the experiments on the
#: reference tree, unless it is told.
RUN_OUT = "out/run"
PAPER_OUT = "out/paper"
WORLD_OUT = "out/world"
REFERENCE_TREE_OUT = "out/reference-tree"
COMPARE_OUT = "out/compare"


class Execution(Section):
    """Settings that do not change results: the Spark master, the folder, partitions, ..."""

    out: Location = Field(description="Folder or URL that Spark can write")
    master: Text = Field(default="local[*]", description="Spark master")
    remote: Text | None = Field(
        default=None,
        description="Spark Connect server instead of a master: sc://HOST:15002, or local[2] for "
        "one of this machine",
    )
    scratch: Location | None = Field(
        default=None,
        description="Folder or URL for tables that a Spark Connect server does not keep",
    )
    partitions: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Partitions of the node-level tables, picked from cores and size if not given",
    )
    buckets: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Buckets of the ring that the nodes of a world, or of a run with rounds, are "
        "in, each with the memory of one process; picked from nodes, cores and memory if not "
        "given: one, played in a task, where that is faster and has room",
    )
    engine: Literal["auto", "tasks", "jobs"] = Field(
        default="auto",
        description="The way rounds are played: tasks keep their buckets and exchange messages; of "
        "jobs each is a superstep; auto: tasks where they can stay; trees of runs without rounds "
        "are jobs unless tasks are asked for",
    )
    resume: bool = Field(
        default=False, description="Go on with what is in OUT, after its last complete phase"
    )
    overwrite: bool = Field(default=False, description="Replace what the same command left in OUT")

    @model_validator(mode="after")
    def _one_of_both(self) -> Execution:
        if self.resume and self.overwrite:
            raise InputError("overwrite", True, "use either --resume or --overwrite, not both")
        if self.remote is not None and self.master != type(self).model_fields["master"].default:
            raise InputError("master", self.master, "use either --master or --remote, not both")
        return self
