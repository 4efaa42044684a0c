"""Measures of the groups of a world after a round.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from scribe_spark.core.arrays import distinct
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import count_rows
from scribe_spark.engine.program import AT
from scribe_spark.measures.counts import Counted, Counts
from scribe_spark.scribe.create import MADE
from scribe_spark.scribe.duplicates import SOURCE_BITS
from scribe_spark.scribe.end_of_round import OUTCOMES
from scribe_spark.scribe.events import FAILURES
from scribe_spark.scribe.figures import AT_ROOT
from scribe_spark.scribe.join import JOINS, REPAIRING
from scribe_spark.scribe.multicast import DELIVERIES
from scribe_spark.scribe.outcomes import ORPHANS, OVERLOADED
from scribe_spark.scribe.program import RoundProgram
from scribe_spark.scribe.repairs import REPAIRED
from scribe_spark.scribe.round import lost_groups
from scribe_spark.scribe.scribe import REFUSED, REFUSED_KINDS, SCRIBE_KINDS, Scribe
from scribe_spark.scribe.sources import FATES
from scribe_spark.scribe.state import CAUSES
from scribe_spark.worlds.link_stress import KINDS, LINK_STRESS_MEASURES

#: The `system` of these measures.
SCRIBE = "scribe"

#: The first part of the measures' names.
PREFIX = "scribe."

#: What became of publications, by the round in which they were sent.
PUBLICATION_COUNTS = ("expected", "in_time", "late", "lost", "duplicates")

#: More rounds than most repairs take; ``repaired.N`` is the number of those that took N.  Most late
#: deliveries come earlier, too.
_MOST_ROUNDS = 64

#: Scribe's messages that are no payload.
_CONTROL = tuple(kind for kind in SCRIBE_KINDS if kind not in KINDS["payload"])

#: Every measure of a round -> its unit; see :func:`group_measures`.
GROUP_MEASURES: dict[str, str] = (
    LINK_STRESS_MEASURES
    | {
        f"{PREFIX}{name}": unit
        for name, unit in (
            ("control", "messages per live node and second"),
            ("members", "members"),
            ("forwarders", "nodes in trees"),
            ("children", "entries of children tables"),
            ("orphans", "nodes in trees"),
            ("groups.created", "groups"),
            ("groups.lost", "groups"),
            ("joins", "JOINs"),
            *((f"joins.{cause}", "JOINs") for cause in CAUSES),
            ("joins.at_root", "JOINs"),
            *((f"refused.{kind}", "messages") for kind in REFUSED_KINDS),
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
    """Return whether a measure of a round is of Scribe, not of Pastry.

    Examples
    --------
    >>> is_of_groups("scribe.repaired.99"), is_of_groups("messages.JOIN")
    (True, True)
    >>> is_of_groups("messages.join message"), is_of_groups("reference_tree.hosts")
    (False, False)
    """
    return measure.startswith(PREFIX) or measure in GROUP_MEASURES


#: The table of a round's counts; see `Counts`.
GROUPS_MEASURED = "scribe measured groups"

#: To where a dead node was: that it was the parent of others.
_WAS_PARENT = "was a parent"


class MeasureGroups(RoundProgram):
    """Counts of what has happened in a round, and of the trees after it: the table
    :data:`GROUPS_MEASURED`.

    It is played after `LookBack`.
    """

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        counts = Counts()
        if not superstep:
            _count_trees(scribe, counts)
            _count_events(scribe, tables, counts)
            if FAILURES in tables:
                scribe.tell(_WAS_PARENT, distinct(tables[FAILURES]["node"]))
        if _WAS_PARENT in inbox:  # each of its children's buckets has told so
            counts.add_total("failures", len(distinct(inbox[_WAS_PARENT][AT])))
        scribe.note(GROUPS_MEASURED, **counts.columns())


def _count_trees(scribe: Scribe, counts: Counts) -> None:
    entries = scribe.state.entries
    counts.add_total("members", np.count_nonzero(entries.member))
    counts.add_total("forwarders", np.count_nonzero(~entries.member & ~entries.root))
    counts.add_total("children", len(scribe.state.children))


def _count_events(scribe: Scribe, tables: Tables, counts: Counts) -> None:
    """Count the rows of the tables of a round."""

    def column(table: str, name: str) -> np.ndarray:
        return tables[table][name] if table in tables else np.empty(0, dtype=np.int64)

    for name, table in _ROWS.items():
        counts.add_total(name, count_rows(tables.get(table, {})))
    counts.add("joins", column(JOINS, "cause"))
    counts.add_total("repair.nodes", len(distinct(column(REPAIRING, "node"))))
    counts.add("repaired", scribe.number - column(REPAIRED, "died"))
    counts.add_counts("refused", column(REFUSED, "kind"), column(REFUSED, "count"))
    ages = scribe.number - (column(DELIVERIES, "publication") >> SOURCE_BITS)
    counts.add("deliveries.late", ages[ages > 0])
    counts.add_total(
        "deliveries.out_of_order", np.count_nonzero(column(DELIVERIES, "out_of_order"))
    )
    if not scribe.first:  # all buckets have the same
        counts.add("publications", column(OUTCOMES, "fate"))


#: Counts of rows, by the tables of the rows.
_ROWS = {
    "orphans": ORPHANS,
    "groups.created": MADE,
    "joins.at_root": AT_ROOT,
    "overloaded": OVERLOADED,
}


def group_measures(
    taken: Mapping[str, Columns], groups: int, has_limits: bool = False
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

    Parameters
    ----------
    taken : mapping of str to Columns
        What the buckets have left: :data:`GROUPS_MEASURED`, `HERE`.
    groups : int
        G.
    has_limits : bool
        Whether nodes have limits of children.
    """
    found = Counted(taken.get(GROUPS_MEASURED, {}))
    joins, refused = found.by_value("joins"), found.by_value("refused")
    refused_kinds = sorted((REFUSED_KINDS[kind], count) for kind, count in refused.items())
    repaired, late = found.by_value("repaired"), found.by_value("deliveries.late")
    of: dict[str, float] = {
        **{name: found.total(name) for name in ("members", "forwarders", "children", "orphans")},
        "groups.created": found.total("groups.created"),
        "groups.lost": len(lost_groups(taken, groups)),
        "joins": sum(joins.values()),
        **{f"joins.{CAUSES[cause]}": count for cause, count in joins.items()},
        "joins.at_root": found.total("joins.at_root"),
        **{f"refused.{kind}": count for kind, count in refused_kinds},
        "failures": found.total("failures"),
        **({"overloaded": found.total("overloaded")} if has_limits else {}),
        "repair.nodes": found.total("repair.nodes"),
        "repaired": sum(repaired.values()),
        **{f"repaired.{rounds}": count for rounds, count in repaired.items()},
        "deliveries.out_of_order": found.total("deliveries.out_of_order"),
        "deliveries.late": sum(late.values()),
        **{f"deliveries.late.{rounds}": count for rounds, count in late.items()},
        **{
            f"publications.{FATES[fate]}": count
            for fate, count in found.by_value("publications").items()
        },
    }
    return {f"{PREFIX}{name}": float(value) for name, value in of.items()}


def control_messages(measures: Mapping[str, float], seconds: float) -> float:
    """Return Scribe's control messages per live node and second, of the measures of a round.

    Parameters
    ----------
    seconds : float
        How long the round lasts.
    """
    sent = sum(measures.get(f"messages.{kind}", 0.0) for kind in _CONTROL)
    return sent / measures["nodes.live"] / seconds


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
