"""Scribe's measures of a round: its trees after the round, and the events of its groups.

References
----------
docs/rules.md, "Measures, by round".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scribe_spark.core.arrays import distinct, whole_numbers
from scribe_spark.engine import Columns, Inbox, Tables
from scribe_spark.engine.packing import count_rows
from scribe_spark.engine.program import AT
from scribe_spark.rounds.counts import Counted, Counts
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
from scribe_spark.scribe.scribe import REFUSED, REFUSED_KINDS, Scribe
from scribe_spark.scribe.sources import FATES
from scribe_spark.scribe.state import CAUSES

#: The maximal N in ``repaired.N``, the number of repairs that took N rounds; most late deliveries
#: need fewer rounds, too.
_MOST_ROUNDS = 64

#: The measures of a round with their units; see :func:`group_measures`.
MEASURES: dict[str, str] = {
    "members": "members",
    "forwarders": "nodes in trees",
    "children": "entries of children tables",
    "orphans": "nodes in trees",
    "groups.created": "groups",
    "groups.lost": "groups",
    "joins": "JOINs",
    **{f"joins.{cause}": "JOINs" for cause in CAUSES},
    "joins.at_root": "JOINs",
    **{f"refused.{kind}": "messages" for kind in REFUSED_KINDS},
    "failures": "nodes",
    "overloaded": "nodes",
    "repair.nodes": "nodes",
    "repaired": "failures",
    **{f"repaired.{rounds}": "failures" for rounds in range(_MOST_ROUNDS)},
    "deliveries.out_of_order": "deliveries",
    "deliveries.late": "deliveries",
    **{f"deliveries.late.{rounds}": "deliveries" for rounds in range(1, _MOST_ROUNDS)},
    **{f"publications.{fate}": "publications" for fate in FATES},
}

#: The name of the table of a round's counts; see `Counts`.
GROUPS_MEASURED = "scribe measured groups"

#: The message to a dead node's bucket: the node had children.
_WAS_PARENT = "was a parent"


class MeasureGroups(RoundProgram):
    """Count a round's group events and the trees after it: the table :data:`GROUPS_MEASURED`.

    The program is played after `EndOfRound`.
    """

    def play(self, scribe: Scribe, tables: Tables, inbox: Inbox, superstep: int) -> None:
        """See `RoundProgram`."""
        counts = Counts()
        if not superstep:
            _count(scribe, tables, counts)
            if FAILURES in tables:
                scribe.tell(_WAS_PARENT, distinct(tables[FAILURES]["node"]))
        if _WAS_PARENT in inbox:  # several buckets may have sent it
            counts.add_total("failures", len(distinct(inbox[_WAS_PARENT][AT])))
        scribe.note(GROUPS_MEASURED, **counts.columns())


def _count(scribe: Scribe, tables: Tables, counts: Counts) -> None:
    """Count the entries of trees, and the rows of a round's tables."""
    entries = scribe.state.entries
    counts.add_total("members", np.count_nonzero(entries.member))
    counts.add_total("forwarders", np.count_nonzero(~entries.member & ~entries.root))
    counts.add_total("children", len(scribe.state.children))

    def column(table: str, name: str) -> np.ndarray:
        return tables[table][name] if table in tables else whole_numbers()

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
    if not scribe.first:  # the table is equal in all buckets
        counts.add("publications", column(OUTCOMES, "fate"))


#: Counts that are the numbers of rows of tables.
_ROWS = {
    "orphans": ORPHANS,
    "groups.created": MADE,
    "joins.at_root": AT_ROOT,
    "overloaded": OVERLOADED,
}


def group_measures(
    taken: Mapping[str, Columns], groups: int, has_limits: bool = False
) -> dict[str, float]:
    """Return the values of measures after a round.

    ``members``: of all groups.  ``forwarders``: tree nodes that are neither member nor root.
    ``children``: entries of all children tables.  ``orphans``: tree nodes, not roots, without a
    live parent that knows them as a child.  ``groups.created``.  ``groups.lost``: groups whose
    state no live node has.  ``joins``, ``joins.CAUSE``: JOINs that were sent.  ``joins.at_root``:
    JOINs that roots answered.  ``refused.KIND``.  ``failures``: nodes that died (failed or left)
    and had children.  ``overloaded``: nodes with more children than their limit, if there are
    limits.  ``repair.nodes``: nodes that took part in JOINs after a failure of a parent or root.
    ``repaired``: failures after which, since this round, a root reaches all children of the failed
    node again; ``repaired.N``: those that took N rounds.  ``deliveries.late``: deliveries of
    publications of earlier rounds; ``deliveries.late.N``: of those sent N rounds before.
    ``deliveries.out_of_order``: deliveries after a newer one (:mod:`scribe_spark.scribe.order`).
    ``publications.FATE``.  The outcomes of publications are known at their deadline.

    `taken` has the tables :data:`GROUPS_MEASURED` and `HERE` of all buckets.
    """
    found = Counted(taken.get(GROUPS_MEASURED, {}))
    joins, refused = found.by_value("joins"), found.by_value("refused")
    refused_kinds = sorted((REFUSED_KINDS[kind], count) for kind, count in refused.items())
    repaired, late = found.by_value("repaired"), found.by_value("deliveries.late")
    fates = found.by_value("publications")

    def totals(*names: str) -> dict[str, float]:
        return {name: found.total(name) for name in names}

    of: dict[str, float] = {
        **totals("members", "forwarders", "children", "orphans", "groups.created"),
        "groups.lost": len(lost_groups(taken, groups)),
        "joins": sum(joins.values()),
        **{f"joins.{CAUSES[cause]}": count for cause, count in joins.items()},
        **totals("joins.at_root"),
        **{f"refused.{kind}": count for kind, count in refused_kinds},
        **totals("failures", *(["overloaded"] if has_limits else []), "repair.nodes"),
        "repaired": sum(repaired.values()),
        **{f"repaired.{rounds}": count for rounds, count in repaired.items()},
        **totals("deliveries.out_of_order"),
        "deliveries.late": sum(late.values()),
        **{f"deliveries.late.{rounds}": count for rounds, count in late.items()},
        **{f"publications.{FATES[fate]}": count for fate, count in fates.items()},
    }
    return {name: float(value) for name, value in of.items()}
