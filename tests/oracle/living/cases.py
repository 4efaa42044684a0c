"""Small seeded worlds for tests: parameters, events and lookups all follow from the seed."""

import random

from .arrival import arrive_all
from .draws import Plane, keyed_draw, random_idents
from .measures import enter_perfect
from .overlay import Overlay, Rules
from .world import Event, drawn_lookups, look_up


def small_rules(random_case: random.Random) -> Rules:
    """Parameters of a small case."""
    pick = random_case.choice
    b, size, contact = pick([1, 2, 4]), pick([4, 8, 16]), pick(["nearest", "discovered", "random"])
    pick("ab"), pick("ab")  # two options are gone; cases stay as they were with them
    rules = Rules(
        b=b,
        l=size,
        contact=contact,
        growth=pick([None, 1.1, 1.5, 2]),
        maintenance=pick([0, 0, 1, 2]),
        maintenance_period=pick([0, 0, 2, 3]),
        detection=pick([0, 1, 1, 2]),
        table_repair=pick(["lazy", "none", "eager"]),
    )
    pick("abc"), pick("ab"), pick("ab")  # of three more
    return rules


def small_overlay(seed: int, rules: Rules | None = None, most: int = 40) -> Overlay:
    """An overlay of at most `most` nodes, of which about two thirds have arrived."""
    random_case = random.Random(seed)
    rules = rules or small_rules(random_case)
    count = random_case.randint(2, most)
    return overlay_of(seed, count, max(1, 2 * count // 3), rules)


def overlay_of(seed: int, count: int, present: int, rules: Rules, perfect: bool = False) -> Overlay:
    """Nodes 0 to count - 1; 0 to present - 1 have arrived, or are there with perfect tables."""
    delay = Plane(count, seed, count // 2 + 1)
    overlay = Overlay(random_idents(count, seed), delay, keyed_draw(seed), rules)
    (enter_perfect if perfect else arrive_all)(overlay, range(present))
    return overlay


def small_events(overlay: Overlay, seed: int, rounds: range, busy: float = 0.08) -> list[Event]:
    """Valid events: each node has one with probability `busy` a round; two nodes stay alive."""
    random_case = random.Random(f"events {seed}")
    live, known = set(overlay.live), set(overlay.states)
    events: list[Event] = []
    for at in rounds:
        for node in sorted(overlay.idents):
            if random_case.random() > busy:
                continue
            if node in live:
                if len(live) <= 2:
                    continue
                kind = random_case.choice(["leave", "fail", "fail"])
                live.discard(node)
            else:
                kind = random_case.choice(["recover", "arrive"]) if node in known else "arrive"
                live.add(node)
                known.add(node)
            events.append((at, node, kind))
    return events


def empty_overlay(count: int, seed: int, rules: Rules) -> Overlay:
    """Nodes that may arrive on a plane, nobody alive."""
    return Overlay(random_idents(count, seed), Plane(count, seed, count), keyed_draw(seed), rules)


def everyone_right(overlay: Overlay, lookups: int = 60) -> bool:
    """Whether drawn lookups all reach the root of their key."""
    return all(result.right for result in look_up(overlay, drawn_lookups(overlay, lookups)))
