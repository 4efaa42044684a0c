"""Runs and worlds on a network of pairs: every copy takes the delay of its pair and its jitter."""

import numpy as np
import pandas as pd
import pytest

from scribe_spark import RunConfig, Simulation
from scribe_spark.core.arrays import rank_in_group
from scribe_spark.core.pair_delay import PairDelay
from scribe_spark.engine.losses import jitter_keys, late_us
from scribe_spark.measures.metrics import _measures_of
from scribe_spark.runtime.batches import Batches
from scribe_spark.underlay.pairs import PairKernel

SLOW = pytest.mark.slow

MESHES = ("flooding", "can", "gossipsub", "plumtree")

GIVEN = {
    **{"topology": "pairs", "pair_delay": "uniform:10ms:150ms", "message_jitter": "30%"},
    **{"nodes": 150, "groups": 3, "group_size": 40, "overlay": "perfect", "seed": 4},
}


KERNEL = PairKernel(PairDelay.parse(GIVEN["pair_delay"]), GIVEN["seed"])


def copy_us(group, sender, receiver, name=0) -> np.ndarray:
    """Return the delays of copies by the definition: at most 30 % longer than that of the pair."""
    delay_us = KERNEL.delays(sender, receiver)
    key = jitter_keys(GIVEN["seed"], group, name)
    return delay_us + late_us(300_000, key, sender, receiver, delay_us)


def delays(made, run: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Return the delays of a system's deliveries, and those that follow from its copies."""
    found = Batches.of(made.deliveries).frame.toPandas()
    if made.tree_edges is None or "publication" in found:
        return of_first_copies(made, found, run)
    edges = Batches.of(made.edges).frame.toPandas()
    ends = (edges[name].to_numpy() for name in ("group", "parent", "child"))
    legs = dict(zip(zip(edges["group"], edges["child"], strict=True),
                    zip(edges["parent"], copy_us(*ends), strict=True), strict=True))  # fmt: skip

    def along(group: int, node: int) -> int:
        parent, leg = legs.get((group, node), (None, 0))
        return 0 if parent is None else leg + along(group, parent)

    expected = [along(*row) for row in zip(found["group"], found["node"], strict=True)]
    return found["delay_us"].to_numpy(), np.array(expected)


def of_first_copies(made, found: pd.DataFrame, run: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Return the delays of deliveries, and the arrivals of first copies after they were sent."""
    copies = made.copies() if callable(made.copies) else made.copies
    copies = Batches.of(copies).frame.toPandas()
    copies = copies[copies["first"] & (copies["kind"] == "payload")]
    keys = [name for name in ("group", "publication") if name in found]
    both = copies.merge(found, left_on=[*keys, "receiver"], right_on=[*keys, "node"])
    name, begun_us = 0, 0
    if "publication" in found:  # times of sending count from that of the first publication
        name = rank_in_group(run.schedule.group)[both["publication"]]
        begun_us = run.schedule.at_us[both["publication"]]
    ends = (both[name].to_numpy() for name in ("group", "sender", "receiver"))
    assert len(both) == len(found)
    return both["delay_us"].to_numpy(), both["sent_us"].to_numpy() - begun_us + copy_us(*ends, name)


CASES = [
    (("scribe",), {"nodes": 60, "groups": 2, "group_size": 30}),
    pytest.param(("naive_unicast", "reference_tree", "bayeux", *MESHES), {}, marks=SLOW),
    pytest.param(MESHES, {"publications": 3, "interval": "40ms"}, marks=SLOW),
    pytest.param(("gossipsub",), {"engine": "tasks"}, marks=SLOW),
]


@pytest.mark.parametrize(("systems", "more"), CASES)
def test_copies_take_the_delay_of_their_pair_and_jitter(spark, systems, more):
    """IP multicast, to which they are compared, has the direct delay without jitter."""
    engine = more.get("engine", "auto")
    given = GIVEN | {name: value for name, value in more.items() if name != "engine"}
    config = RunConfig(**given, systems=systems)
    with Simulation(spark, config, engine=engine) as run:
        for made in run.systems:
            if made.merged:
                check_direct(made)
                continue
            found, expected = delays(made, run)
            assert len(found) > 0
            assert (found == expected).all(), made.system


def check_direct(made) -> None:
    """The delays of IP multicast are those of the pairs of a source and a member."""
    edges = Batches.of(made.edges).frame.toPandas()
    delay_us = KERNEL.delays(edges["parent"].to_numpy(), edges["child"].to_numpy())
    of = {"group": edges["group"], "node": edges["child"], "direct": delay_us}
    found = Batches.of(made.deliveries).frame.toPandas().merge(pd.DataFrame(of))
    assert len(found) > 0
    assert (found["delay_us"] == found["direct"]).all()


def test_no_measure_of_links():
    """A network of pairs has no links."""
    names = {measure.name for measure in _measures_of(RunConfig(topology="pairs"))}
    assert names == {measure.name for measure in _measures_of(RunConfig())} - {"link_stress"}
