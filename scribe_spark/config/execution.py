"""The section ``execution``: where and how a run is computed; these settings change no result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from scribe_spark.config.section import Fault, Location, Section, Text, setting, unset, within

#: The phases of a run, in order; each reads the tables of earlier phases.
PHASES = ("topology", "overlay", "trees", "measures", "report")

#: The default output folders of the commands.
RUN_OUT = "out/run"
PAPER_OUT = "out/paper"
WORLD_OUT = "out/world"
REFERENCE_TREE_OUT = "out/reference-tree"
COMPARE_OUT = "out/compare"


class Execution(Section):
    """Settings that do not change results: the Spark master, the output folder, partitions, ...

    `docs/configuration.md` lists them in the section ``execution``.

    Raises
    ------
    InputError
        A setting is unknown or has an impossible value, or two settings exclude each other.
    """

    about: ClassVar[str] = (
        "Where and how the command runs; these flags change no result. The simulation divides "
        "the ring of nodeIds into intervals, called buckets, and proceeds in supersteps: in "
        "each, all buckets read messages and send new ones."
    )

    out: Location = Field(description="Output folder, or a URL to which Spark can write")
    master: Text = setting("local[*]", "URL of the Spark master")
    remote: Text | None = unset(
        "Spark Connect server in place of a master: sc://HOST:15002, or local[2] to start one on "
        "this machine"
    )
    scratch: Location | None = unset(
        "Folder or URL for temporary tables, for Spark Connect servers that cannot cache or "
        "checkpoint tables"
    )
    partitions: Annotated[int | None, within(1, 100_000)] = unset(
        "Number of partitions of tables with a row per node [default: by cores and size]"
    )
    buckets: Annotated[int | None, within(1, 10_000)] = unset(
        "Number of buckets in a world or a run with rounds. One process simulates one bucket and "
        "needs memory for it [default: by nodes, cores and memory]"
    )
    engine: Literal["auto", "tasks", "jobs"] = setting(
        "auto",
        "How rounds are simulated: long Spark tasks that hold buckets and exchange messages "
        "(tasks), a Spark job for each superstep (jobs), or tasks where each bucket has a free "
        "core, else jobs (auto)",
    )
    resume: bool = setting(
        False, "Continue an earlier, incomplete command in OUT after its last saved phase or round"
    )
    overwrite: bool = setting(False, "Replace an earlier output of the same command in OUT")

    def _faults(self) -> Iterator[Fault]:
        both = self.resume and self.overwrite
        yield both, "overwrite", True, "use either --resume or --overwrite, not both"
        usual = type(self).model_fields["master"].default
        both = self.remote is not None and self.master != usual
        yield both, "master", self.master, "use either --master or --remote, not both"
