"""Measures of the groups of a world after a round.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from scribe_spark.scribe.outcomes import joins_by_cause
from scribe_spark.scribe.round import ScribeResult
from scribe_spark.scribe.scribe import SCRIBE_KINDS
from scribe_spark.scribe.sources import FATES
from scribe_spark.scribe.state import CAUSES, ScribeState
from scribe_spark.worlds.link_stress import KINDS, LINK_STRESS_MEASURES

__all__ = [
    "GROUP_MEASURES",
    "PREFIX",
    "PUBLICATION_COUNTS",
    "SCRIBE",
    "control_messages",
    "group_measures",
    "is_of_groups",
    "publication_measures",
]

#: The `system` of these measures.
SCRIBE = "scribe"

#: The first part of the measures' names.
PREFIX = "scribe."

#: What became of publications, by the round in which they were sent.
PUBLICATION_COUNTS = ("expected", "in_time", "late", "lost", "duplicates")

#: More rounds than most repairs take; ``repaired.N`` is the number of those that took N.  Most late
#: deliveries come earlier, too.
_MOST_ROUNDS = 64

#: What is refused.
_REFUSED = ("CREATE", "CREATE lost", "JOIN", "MULTICAST", "payload", "refresh", "no group")

#: Scribe's messages that are no payload.
_CONTROL = tuple(kind for kind in SCRIBE_KINDS if kind not in KINDS["payload"])

#: Every measure of a round -> its unit; see :func:`group_measures`.
GROUP_MEASURES: dict[str, str] = (
    LINK_STRESS_MEASURES
    | {
        f"{PREFIX}{name}": unit
        for name, unit in (
            ("control", "messages per live node"),
            ("members", "members"),
            ("forwarders", "nodes in trees"),
            ("children", "entries of children tables"),
            ("orphans", "nodes in trees"),
            ("groups.created", "groups"),
            ("groups.lost", "groups"),
            ("joins", "JOINs"),
            *((f"joins.{cause}", "JOINs") for cause in CAUSES),
            ("joins.at_root", "JOINs"),
            *((f"refused.{kind}", "messages") for kind in _REFUSED),
            ("failures", "nodes"),
            ("overloaded", "nodes"),
            ("repair.nodes", "nodes"),
            ("repaired", "failures"),
            *((f"repaired.{rounds}", "failures") for rounds in range(_MOST_ROUNDS)),
            ("deliveries.out_of_order", "deliveries"),
            ("deliveries.late", "deliveries"),
            *((f"deliveries.late.{rounds}", "deliveries") for rounds in range(1, _MOST_ROUNDS)),
            *((f"publications.{fate}", "publications") for fate in FATES),
            *((f"publications.{count}", "deliveries") for count in PUBLICATION_COUNTS),
        )
    }
    | {f"messages.{lost}{kind}": "messages" for kind in SCRIBE_KINDS for lost in ("", "lost ")}
)


def is_of_groups(measure: str) -> bool:
    """Whether a measure of a round is of Scribe, not of Pastry.

    Examples
    --------
    >>> is_of_groups("scribe.repaired.99"), is_of_groups("messages.JOIN")
    (True, True)
    >>> is_of_groups("messages.join message"), is_of_groups("reference_tree.hosts")
    (False, False)
    """
    return measure.startswith(PREFIX) or measure in GROUP_MEASURES


def group_measures(
    state: ScribeState, result: ScribeResult, has_limits: bool = False
) -> dict[str, float]:
    """Measure -> value, after a round.

    ``members`` of all groups, ``forwarders`` (in a tree, not member, not root), ``children``
    (entries of all children tables), ``orphans`` (in a tree, not its root, and no live node is its
    parent and has it as a child); ``groups.created`` and ``groups.lost`` (of whose state no live
    node had a copy); ``joins`` that were sent, ``joins.CAUSE``, and ``joins.at_root``, those that
    roots answered; ``refused.KIND``; ``failures``, nodes that died (failed or left) and had
    children; ``overloaded``, nodes above their limit of children, if they have limits;
    ``repair.nodes`` that took part in JOINs after a failure of a parent or root;
    ``repaired``, the failures after which a root reaches all children of the failed node again
    since this round, and ``repaired.N``, those of them that took N rounds; ``deliveries.late`` of
    publications of earlier rounds, ``deliveries.late.N`` of those sent N rounds before, and
    ``deliveries.out_of_order``, after a newer one (:mod:`scribe_spark.scribe.order`);
    ``publications.FATE``.  Messages of Scribe are among ``messages.KIND``; what became of
    publications is known at their deadline (:func:`publication_measures`).
    """
    entries = state.entries
    joins = joins_by_cause(result.joins)
    fates = np.bincount(result.sent.fate, minlength=len(FATES)).tolist()
    late = result.ages[result.ages > 0]
    of: dict[str, float] = {
        "members": int(np.count_nonzero(entries.member)),
        "forwarders": int(np.count_nonzero(~entries.member & ~entries.root)),
        "children": len(state.children),
        "orphans": len(result.orphans),
        "groups.created": len(result.created[0]),
        "groups.lost": len(result.lost),
        "joins": sum(joins.values()),
        **{f"joins.{cause}": count for cause, count in joins.items()},
        "joins.at_root": len(result.at_root[0]),
        **{f"refused.{kind}": count for kind, count in result.refused.items()},
        "failures": len(result.failures),
        **({"overloaded": len(result.overloaded)} if has_limits else {}),
        "repair.nodes": len(result.repairing),
        "repaired": len(result.repaired.rounds),
        **_by_rounds("repaired", result.repaired.rounds),
        "deliveries.out_of_order": int(np.count_nonzero(result.out_of_order)),
        "deliveries.late": len(late),
        **_by_rounds("deliveries.late", late),
        **{f"publications.{fate}": n for fate, n in zip(FATES, fates, strict=True) if n},
    }
    return {f"{PREFIX}{name}": float(value) for name, value in of.items()}


def control_messages(measures: Mapping[str, float]) -> float:
    """Return Scribe's control messages per live node, of the measures of a round."""
    sent = sum(measures.get(f"messages.{kind}", 0.0) for kind in _CONTROL)
    return sent / measures["nodes.live"]


def _by_rounds(name: str, rounds: np.ndarray) -> dict[str, int]:
    """``NAME.N`` -> how many took N rounds."""
    found, counts = np.unique(rounds, return_counts=True)
    return {f"{name}.{n}": count for n, count in zip(found.tolist(), counts.tolist(), strict=True)}


def publication_measures(publications: pd.DataFrame) -> dict[int, dict[str, float]]:
    """Round -> measures of the publications that were sent in it, system by system.

    Parameters
    ----------
    publications : DataFrame
        `schemas.PUBLICATIONS`.
    """
    sums = publications.groupby(["system", "round"])[list(PUBLICATION_COUNTS)].sum()
    found: dict[int, dict[str, float]] = {}
    for (system, number), row in sums.iterrows():
        of = {f"{system}.publications.{name}": float(row[name]) for name in sums}
        found.setdefault(int(number), {}).update(of)
    return found
