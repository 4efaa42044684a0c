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
        description="Spark Connect server in place of a master: sc://HOST:15002, or local[2] for "
        "a server on this machine",
    )
    scratch: Location | None = Field(
        default=None,
        description="Folder or URL for temporary tables, if a Spark Connect server keeps none",
    )
    partitions: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Partitions of the node-level tables [default: by cores and size]",
    )
    buckets: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Buckets of the ring in a world or a run with rounds; each bucket needs the "
        "memory of one process [default: by nodes, cores and memory]",
    )
    engine: Literal["auto", "tasks", "jobs"] = Field(
        default="auto",
        description="tasks keep their buckets and exchange messages; jobs play each superstep"
        " as a Spark job; auto chooses tasks for rounds if each bucket has a free"
        " core, else jobs",
    )
    resume: bool = Field(
        default=False, description="Continue in OUT after the last saved phase or round"
    )
    overwrite: bool = Field(
        default=False, description="Replace the same command's earlier output in OUT"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Execution:
        if self.resume and self.overwrite:
            raise InputError("overwrite", True, "use either --resume or --overwrite, not both")
        if self.remote is not None and self.master != type(self).model_fields["master"].default:
            raise InputError("master", self.master, "use either --master or --remote, not both")
        return self
