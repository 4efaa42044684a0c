"""NICE's kernel beside its oracle: states, messages and copies of each period of drawn worlds."""

from __future__ import annotations

import random
from collections import Counter

import keyed
import pytest
from oracle.nice import Group, Rules

from nice.played import LAN_US, Played, drawn_network
from nice.worlds import events

NUMBERS = (7, 3)
QUICK = range(10)


def check(seed: int) -> Counter:
    """Play a world; return its messages by kind."""
    drawn = random.Random(seed)
    nodes, periods = drawn.choice([5, 20, 40, 60, 60]), drawn.choice([15, 30])
    rules = {
        "k": drawn.choice([2, 3, 3, 4]),
        "newcomers": drawn.choice([1, 4, 100]),
        "silence": drawn.choice([1, 3, 3]),
        "stay_percent": drawn.choice([70, 70, 100]),
        "mean_percent": drawn.choice([10, 0]),
        "guard": drawn.random() < 0.8,
    }
    gain_us, join_periods, in_run = drawn.choice([5000, 100]), drawn.choice([1, 6]), bool(seed % 2)
    network = drawn_network(nodes, seed, drawn.choice([0, 0, 2, 5]), in_run)
    settings = {**rules, "least_gain_ms": gain_us / 1000, "join_periods": join_periods}
    played = Played(network, settings, NUMBERS)
    delay, name = network.kernel.delay_us.tolist(), network.ring.node.tolist()

    def trip(a: int, b: int) -> int:
        return delay[a][b] + delay[b][a] + 4 * LAN_US if a != b else 0

    def spread(group: int):
        def of(node: int) -> int:
            bits = keyed.bits(seed, "nice join", NUMBERS[group], name[node]) % 2**64
            return bits % join_periods if in_run else 0

        return of

    groups = [
        Group(Rules(**rules, least_gain_us=gain_us), trip, spread(g)) for g in range(len(NUMBERS))
    ]
    seen = Counter()
    for number, one in enumerate(events(seed, nodes, len(NUMBERS), periods, 0)):
        # some nodes fail and come back in the same period
        died = one.fail | {node for node in sorted(one.back) if drawn.random() < 0.2}
        played.play(one.join, one.quit, died, one.back)
        sent, rows = Counter(), {"clusters": [], "silent": [], "waiting": []}
        for g, group in enumerate(groups):
            of_group = ({n for of, n in pairs if of == g} for pairs in (one.join, one.quit))
            messages = group.play(number, *of_group, died, one.alive)
            sent.update({(kind, g, *ends): n for (kind, *ends), n in messages.items()})
            rows["clusters"] += [(g, *row) for row in group.rows()]
            rows["silent"] += [(g, *row) for row in sorted(group.silent.items())]
            rows["waiting"] += [(g, *row) for row in sorted(group.waiting.items())]
        for table, wanted in rows.items():
            assert played.rows(table) == wanted, (number, table)
        found = played.messages()
        assert (
            Counter({(kind, *ends): n for kind, of in found.items() for ends, n in of.items()})
            == sent
        )
        seen.update({kind: n for (kind, *_), n in sent.items()})
        for g, group in enumerate(groups):
            source = drawn.randrange(nodes)
            if source in one.alive:
                sender, to, _ = played.copies(g, source)
                ends = zip(sender.tolist(), to.tolist(), strict=True)
                assert Counter(ends) == group.copies(source, one.alive)
    return seen


def test_the_kernel_is_the_oracle():
    seen = sum(map(check, QUICK), Counter())
    assert set(seen) >= set(Played(drawn_network(2, 0)).system.control) - {"force_merge"}, seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(max(QUICK) + 1, 300))
def test_the_kernel_is_the_oracle_in_many_cases(seed):
    check(seed)
