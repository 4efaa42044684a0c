"""NICE's kernel beside the oracle of its rules: states, messages and copies of each period."""

from collections import Counter

import numpy as np
import pytest
from arriving import Kernel
from identifiers import parts
from oracle.nice import (
    COMEBACK,
    KINDS,
    LIVELY,
    QUIT,
    SILENT,
    Case,
    Group,
    groups_of,
    is_quiet_case,
    quiet_violations,
    random_case,
    violations,
)

from nice.played import Played
from scribe_spark.engine.facts import Ring
from scribe_spark.rounds.group_overlays import Network

SEEDS = range(200)

#: Cases of one to three layers; in 43 a rendezvous point that was dead publishes, in 138 two small
#: clusters want each other.
QUICK = 6, 17, 25, 43, 57, 70, 84, 138

#: Periods after the last event in which a group comes to rest.
REST = 5


def kernel_of(case: Case) -> Played:
    """Return the kernel at the start of a case; D(a, b) has the delays of two networks of nodes."""
    delay, at = np.array(case.delay), np.arange(len(case.nodes))
    others = ~np.eye(len(at), dtype=bool)
    lan_us = int(delay[others].min(initial=4_000)) // 2
    delay[others] -= 2 * lan_us
    ring = Ring(*parts(range(len(at))), np.array(case.nodes), at)
    kernel = Kernel(delay.astype(np.int32), at)
    rules = dict(vars(case.settings))
    rules["least_gain_ms"] = rules.pop("least_gain_us") / 1000
    network = Network(ring, kernel, lan_us, case.seed, in_run=case.in_run)
    return Played(network, rules, case.numbers)


def play(played: Played, case: Case, t: int) -> None:
    """Play a period of a case in the kernel."""
    now = case.periods[t]
    played.alive = np.array(now.alive)  # who leaves does not fail
    played.play(now.joins, now.quits, now.died, [x for x in now.died if now.alive[x]])


def check_period(played: Played, case: Case, t: int, groups: list[Group]) -> None:
    """Compare a period of the kernel with the oracle's."""
    states = [group.state() for group in groups]
    for table in "clusters", "silent", "waiting":
        rows = [(g, *row) for g, state in enumerate(states) for row in state[table]]
        assert played.rows(table) == rows, (t, table)
    assert played.failures == sorted(row for group in groups for row in group.given_up), t
    names = "group", "node", "layer", "entries"
    for kind, kept in played.system.entries(played.state, played.network).items():
        wanted = sum((group.entries()[kind] for group in groups), Counter())
        rows = zip(*(kept[name].tolist() for name in names), strict=True)
        assert {row[:3]: row[3] for row in rows if row[3]} == wanted, (t, kind)
    sent = {kind: Counter(m for group in groups for m in group.sent[kind]) for kind in KINDS}
    assert played.messages() == {kind: some for kind, some in sent.items() if some}, t
    for g, source in case.publications[t]:
        sender, to, _ = played.copies(g, source)
        copies = sorted(zip(sender.tolist(), to.tolist(), strict=True))
        assert copies == groups[g].copies(source, case.periods[t].alive), (t, g, source)


def check(seed: int) -> Counter:
    """Play a case in both, and check the oracle's invariants; return what occurred how often."""
    case = random_case(seed)
    played, seen = kernel_of(case), Counter()
    for t, groups in groups_of(case):
        play(played, case, t)
        check_period(played, case, t, groups)
        for group in groups:
            assert not list(violations(group, t)), (t, group.index)
            seen.update({kind: len(some) for kind, some in group.sent.items()})
            seen.update(group.departing.values())
    return seen


def test_the_kernel_follows_the_rules():
    seen = sum(map(check, QUICK), Counter())
    assert set(seen) == {*KINDS, QUIT, COMEBACK, SILENT}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed not in QUICK])
def test_the_kernel_follows_the_rules_in_many_cases(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*filter(is_quiet_case, SEEDS)])
def test_groups_come_to_rest(seed):
    """Some periods after the last events, clusters are sound and do not change."""
    case = random_case(seed)
    last = LIVELY + case.settings.join_periods + case.settings.silence
    before: list = [None] * len(case.numbers)
    for t, groups in groups_of(case):
        for group in groups:
            if t > last + REST:
                assert group.state() == before[group.index]
                assert not group.waiting
                assert not list(quiet_violations(group)), t
            before[group.index] = group.state()
