"""The command ``reference-tree``: the experiments of Costa and Frey."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from scribe_spark.cli.dry_run import dry_run as show
from scribe_spark.cli.flags import CONFIG, DRY_RUN, EXECUTION_FIELDS, options, sources
from scribe_spark.cli.output import tell
from scribe_spark.cli.parsing import Command
from scribe_spark.cli.sessions import open_session
from scribe_spark.cli.unused import refuse_unused
from scribe_spark.config import REFERENCE_TREE_FIELDS, ReferenceTreeConfig
from scribe_spark.config.execution import REFERENCE_TREE_OUT


def _reference_tree(dry_run: bool = False, **given: Any) -> None:
    file, flags, execution = sources(given, config=ReferenceTreeConfig, out=REFERENCE_TREE_OUT)
    config = ReferenceTreeConfig.of(file, flags)
    refuse_unused(flags, [config])
    from scribe_spark import progress
    from scribe_spark.experiments.run_reference_tree import (
        check_reference_tree,
        run_reference_tree,
    )

    if dry_run:
        resolved = config.flat() | execution.flat()
        show(partial(check_reference_tree, config), execution, resolved)
        return
    check_reference_tree(config, execution)
    most = max(point.hosts for point in config.points())
    with open_session(execution, most, config.estimated_work) as spark:
        tell(run_reference_tree(spark, config, execution, progress.pick(sys.stderr)))


reference_tree = Command(
    "reference-tree",
    callback=_reference_tree,
    params=[
        *options([*REFERENCE_TREE_FIELDS.values(), *EXECUTION_FIELDS.values()], REFERENCE_TREE_OUT),
        CONFIG,
        DRY_RUN,
    ],
    help="Measure the tree that Costa and Frey maintain over the hosts of a DHT: node degrees and "
    "reconfiguration areas while hosts connect and disconnect (Figures 3 and 4 of their paper), "
    "also with more children per key and with many hosts. --resume continues after the last "
    "complete number of hosts.",
    epilog="\b\nExamples:\n"
    "  scribe-spark reference-tree\n"
    "  scribe-spark reference-tree --children 2,3,4,7,15 --out out/degrees\n"
    "  scribe-spark reference-tree --hosts 120 --connections 10000 --assignment pastry\n"
    "  scribe-spark reference-tree --scaling 1000,10000,100000,1000000 --out out/large\n"
    "  scribe-spark reference-tree --scaling 10000 --assignment pastry --dht routed",
)
