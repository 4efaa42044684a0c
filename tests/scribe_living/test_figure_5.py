"""Figure 5 of the paper, round by round: the tree, and its repair when node 1101 fails.

References
----------
JSAC 2002, Sections III.A.2 and III.B.1.
"""

from oracle.living.draws import keyed_draw
from oracle.living.measures import enter_perfect
from oracle.living.overlay import Overlay, Rules
from oracle.scribe_living.state import Application, Group, Scribe, Settings
from oracle.test_oracle import FIGURE_5, GROUP, KEY_1100
from small_worlds import run_beside

#: Nodes in the order of their nodeIds.
NODES = sorted(FIGURE_5)


def test_the_tree_of_figure_5_and_its_repair() -> None:
    idents = {node: int(name, 2) << 124 for node, name in enumerate(NODES)}
    places = [FIGURE_5[name] for name in NODES]
    overlay = Overlay(
        idents, lambda a, b: abs(places[a] - places[b]) * 1000, keyed_draw(0), Rules(b=1, l=2)
    )
    enter_perfect(overlay, idents)
    scribe = Scribe(overlay, {GROUP: Group(KEY_1100)}, Settings(replicas=1), Application())
    run = run_beside(scribe)
    node = {name: number for number, name in enumerate(NODES)}
    joins = [(0, node[name], "join", GROUP) for name in ("0111", "0100")]
    seen = run.step(0, [(0, node["1100"], "create", GROUP), *joins])
    chain = {("1100", "1101"), ("1101", "1001"), ("1001", "0111"), ("1001", "0100")}
    assert edges(seen.children) == chain
    # 1101 fails: after the timeout 1001 passes over it, and the next node by its leaf set is 1010
    seen = [run.step(at, [(1, node["1101"], "fail")] if at == 1 else []) for at in range(1, 5)]
    joined = [(NODES[source], why) for one in seen for _, source, why in one.joins]
    assert joined == [("1001", "parent failed"), ("1010", "forwarder")]
    children = {("1001", "0111"), ("1001", "0100")}
    assert edges(seen[-1].children) == {("1100", "1010"), ("1010", "1001")} | children


def edges(children: list[tuple]) -> set[tuple[str, str]]:
    """Parents and children by their names."""
    return {(NODES[parent], NODES[child]) for _, parent, child, *_ in children}
