"""The way of a JOIN through the code: few modules, few names, the same in runs and worlds.

What is counted is seen while a JOIN is played: the modules whose functions a bucket's superstep
calls, but those of `core` and `engine`, which know of no protocol; and the names that JOINs have on
their way, as parameters and as variables.
"""

import sys
from pathlib import Path
from types import FrameType

import played
import pytest
import small_worlds
import worlds

import scribe_spark
from scribe_spark.systems.scribe import join, root
from scribe_spark.systems.scribe.join import JoinProgram, JoinRequests, SendJoins
from scribe_spark.systems.scribe.scribe import Joins

PACKAGE = Path(scribe_spark.__file__).parent
MODULES, NAMES = 15, 12


class Walk:
    """The modules and names of the supersteps of JOIN that are played."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modules: set[str] = set()
        self.names: set[str] = set()
        for program in (JoinProgram, SendJoins):
            monkeypatch.setattr(program, "handle", self._with(self._see, program.handle))
        # CREATE has a way of its own, though it ends in the superstep in which JOINs begin
        unseen = self._with(None, root.receive_routed_creates)
        monkeypatch.setattr(join, "receive_routed_creates", unseen)

    @staticmethod
    def _with(profile, play):
        def watched(*given):
            before = sys.getprofile()
            sys.setprofile(profile)
            try:
                return play(*given)
            finally:
                sys.setprofile(before)

        return watched

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event != "return" or PACKAGE not in file.parents:
            return
        module = file.relative_to(PACKAGE)
        if module.parts[0] in ("core", "engine"):
            return
        self.modules.add(str(module))
        self.names |= {
            name
            for name, value in frame.f_locals.items()
            if isinstance(value, Joins | JoinRequests) and name not in ("self", "cls")
        }


def one_run() -> None:
    """JOINs of a run of many nodes, in two buckets."""
    one = max(worlds.worlds(), key=lambda one: len(one.case.ids))
    assert len(played.trees(one, 2).edges()) > 10


def one_world() -> None:
    """JOINs of a living world of sixty nodes."""
    assert len(small_worlds.grown().seen[0].entries) > 30


@pytest.mark.parametrize("play", [one_run, one_world])
def test_a_join_walks_through_few_modules_under_few_names(monkeypatch, play):
    walk = Walk(monkeypatch)
    play()
    scribe = {"systems/scribe/join.py", "systems/scribe/figures.py"}
    assert {*scribe, "pastry/next_hop.py"} <= walk.modules
    assert len(walk.modules) <= MODULES, sorted(walk.modules)
    assert {"joins", "moving"} <= walk.names
    assert len(walk.names) <= NAMES, sorted(walk.names)
