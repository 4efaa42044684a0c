"""The configs of runs, worlds, the paper and the reference tree, and the settings of the execution.

Each section of settings is in the module of its name.  Nothing here imports Spark, pandas or numpy:
the command line reads the configs before it starts anything.
"""

from scribe_spark.config.execution import Execution
from scribe_spark.config.experiment import (
    EXPERIMENTS,
    ExperimentConfig,
    NetworkConfig,
    Paper,
    PaperExperiment,
    RunConfig,
    WorldConfig,
)
from scribe_spark.config.fields import (
    REFERENCE_TREE_FIELDS,
    RUN_FIELDS,
    WORLD_FIELDS,
    FieldRecord,
    documentation,
    fields_of,
)
from scribe_spark.config.groups import GroupsConfig, TreesConfig
from scribe_spark.config.overlay import OverlayConfig
from scribe_spark.config.reference_tree import ReferenceTreeConfig
from scribe_spark.config.rounds import RoundsConfig
from scribe_spark.config.scribe import ScribeConfig
from scribe_spark.config.toml import read_toml, write_toml
from scribe_spark.config.topology import TopologyConfig
from scribe_spark.core.errors import check_names

__all__ = [
    "EXPERIMENTS",
    "REFERENCE_TREE_FIELDS",
    "RUN_FIELDS",
    "WORLD_FIELDS",
    "Execution",
    "ExperimentConfig",
    "FieldRecord",
    "GroupsConfig",
    "NetworkConfig",
    "OverlayConfig",
    "Paper",
    "PaperExperiment",
    "ReferenceTreeConfig",
    "RoundsConfig",
    "RunConfig",
    "ScribeConfig",
    "TopologyConfig",
    "TreesConfig",
    "WorldConfig",
    "check_names",
    "documentation",
    "fields_of",
    "read_toml",
    "write_toml",
]
