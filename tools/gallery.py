"""Write the pages of the site's gallery: a run, a world, and a comparison of two runs.

    python -m tools.gallery out/gallery

The experiments are small, so that all of them take half a minute in one session.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scribe_spark import Execution, RunConfig, WorldConfig, experiments, session
from scribe_spark.progress import pick

#: The run of the gallery, which the comparison has beside another degree of GossipSub's meshes.
RUN = RunConfig(nodes=1_000, groups=30, systems=["scribe", "gossipsub"])
DEGREE = 12

#: A quarter of the nodes fails while groups get publications.
WORLD = WorldConfig(
    **{"nodes": 1_000, "groups": 30, "generator": "mass-failure+publications"},
    **{"share": 0.25, "rounds": 20, "systems": ["scribe", "gossipsub"]},
)


def main(out: Path) -> None:
    """Play the experiments, and write their pages into folders of `out`."""
    spark = session()
    configs = {"run": RUN, "degree": RUN.replace(gossipsub_d=DEGREE)}
    for name, config in configs.items():
        experiments.run(spark, config, _into(out / name), progress=pick()).close()
    experiments.run_world(spark, WORLD, _into(out / "world"), pick())
    experiments.compare([str(out / name) for name in configs], str(out / "compare"))
    spark.stop()


def _into(folder: Path) -> Execution:
    return Execution(out=str(folder), overwrite=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
