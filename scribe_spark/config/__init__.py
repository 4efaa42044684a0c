"""What a run is, where it happens, and what the whole paper is: frozen, validated sections.

Each section is in the module of its name.  Nothing here imports Spark, pandas or numpy: the command
line reads it before it starts anything.
"""

from scribe_spark.config.execution import Execution
from scribe_spark.config.fields import RUN_FIELDS, FieldRecord, documentation, fields_of
from scribe_spark.config.groups import GroupsConfig
from scribe_spark.config.overlay import OverlayConfig
from scribe_spark.config.paper import EXPERIMENTS, Experiment, Paper
from scribe_spark.config.run import SECTIONS, RunConfig, flat_values
from scribe_spark.config.toml import read_toml, write_toml
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.config.trees import TreesConfig
from scribe_spark.errors import check_names

__all__ = [
    "EXPERIMENTS",
    "RUN_FIELDS",
    "SECTIONS",
    "Execution",
    "Experiment",
    "FieldRecord",
    "GroupsConfig",
    "OverlayConfig",
    "Paper",
    "RunConfig",
    "TopologyConfig",
    "TreesConfig",
    "check_names",
    "documentation",
    "fields_of",
    "flat_values",
    "read_toml",
    "write_toml",
]
