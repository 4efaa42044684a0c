"""What is known of every number before it is measured: the paper's values, the independent check's.

References
----------
JSAC 2002, Section IV.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from scribe_spark.config import RunConfig

__all__ = ["FIGURES", "NUMBERS", "SMALL_GROUPS", "Published", "published"]


@dataclass(frozen=True)
class Published:
    """What is known of a number before it is measured.

    Attributes
    ----------
    unit : str
    figure : str
        Figure or section of the JSAC paper.
    paper : float or None
        The published value.
    check : str or None
        An independent simulation with perfect tables, its range over ten seeds.
    note : str or None
    """

    unit: str
    figure: str
    paper: float | None = None
    check: str | None = None
    note: str | None = None


#: The figure (or section) that shows how a measure is distributed.
FIGURES = {
    "group_size": "6",
    "rad": "7",
    "rmd": "7",
    "children_tables": "8",
    "children_entries": "9",
    "link_stress": "10",
    "join_stress": "IV.E",
    "depth": "III",
}

#: The same things with many small groups (Section IV.F).
SMALL_GROUPS = {"8": "12", "9": "13", "10": "14"}

#: Every number that a run may have, in the order in which it is told.
NUMBERS: dict[str, Published] = {
    "topology.core_delay.mean": Published("ms", "IV.A", 40.7, "39-43"),
    "topology.core_links": Published("directed links", "IV.A", 25_295, "25,294"),
    "groups.size.sum": Published("members", "6", 395_247, "395,247"),
    "groups.size.max": Published("members", "6", 100_000),
    "groups.size.min": Published("members", "6", 11),
    "pastry.hops.mean": Published("hops", "II", note="paper: less than the bound on average"),
    "pastry.hops.bound": Published("hops", "II", note="ceil(log_2^b N)"),
    "pastry.stretch": Published("x", "II.A", note="paper: between 1.59 and 2.2"),
    "pastry.table_entries.mean": Published("per node", "II"),
    "scribe.rad.median": Published("x", "7", 1.68, "1.46-1.50"),
    "scribe.rad.max": Published("x", "7", 2.0, "2.8-3.9"),
    "scribe.rmd.median": Published("x", "7", 1.69, "1.36-1.47"),
    "scribe.rmd.max": Published("x", "7", 4.26),
    "scribe.rdp.mean": Published("x", "IV.B", 1.81, "1.3-1.64"),
    "scribe.rdp.median": Published("x", "IV.B", 1.65),
    "scribe.rdp.below_2_25": Published("of members", "IV.B", 0.80, note="paper: more than 80 %"),
    "scribe.rdp.below_4": Published("of members", "IV.B", 0.98, note="paper: more than 98 %"),
    "scribe.rdp.below_1": Published("of members", "IV.B", 0.022),
    "scribe.depth.mean": Published("hops", "III"),
    "scribe.depth.max": Published("hops", "III"),
}


def _stress_numbers() -> dict[str, Published]:
    known = {}
    for measure, ours in (
        ("children_tables", {"mean": (2.4, "2.31-2.33"), "median": (2, "2"), "max": (40, "20-25")}),
        (
            "children_entries",
            {"mean": (6.2, "6.15-6.17"), "median": (3, "3"), "max": (1059, "250-470")},
        ),
    ):
        figure = FIGURES[measure]
        for kind, (paper, check) in ours.items():
            known[f"scribe.{measure}.{kind}"] = Published("per node", figure, paper, check)
        for kind in ours:
            known[f"naive_unicast.{measure}.{kind}"] = Published("per node", figure)
    for system, packets, mean, median, most in (
        ("scribe", (2_489_824, "2.21-2.23 M"), 2.4, 0, (4031, "2500-2850")),
        ("ip_multicast", (758_853, "757-760 k"), 0.7, 0, (950, "467-679")),
        ("naive_unicast", (), None, None, ()),
    ):
        known |= _link_numbers(f"{system}.link_stress", mean, median, most)
        known[f"{system}.messages"] = Published("packets", "10", *packets)
    known["links.existing"] = Published("directed links", "10")
    known["links.paper_slots"] = Published("directed links", "10", 1_035_295)
    return known


def _link_numbers(
    name: str,
    mean: float | None = None,
    median: float | None = None,
    most: tuple = (),
    figure: str = "10",
) -> dict[str, Published]:
    return {
        f"{name}.mean": Published("per slot", figure, mean),
        f"{name}.median": Published("per slot", figure, median),
        f"{name}.mean_existing": Published("per link", figure),
        f"{name}.median_existing": Published("per link", figure),
        f"{name}.max": Published("per link", figure, *most),
    }


def _variant_numbers(system: str) -> dict[str, Published]:
    """Of trees built another way."""
    known = {
        f"{system}.{measure}.{kind}": Published(unit, FIGURES[measure])
        for measure, unit, kinds in (
            ("rad", "x", ("median", "max")),
            ("rmd", "x", ("median", "max")),
            ("depth", "hops", ("mean", "max")),
            ("children_tables", "per node", ("mean", "median", "max")),
            ("children_entries", "per node", ("mean", "median", "max")),
        )
        for kind in kinds
    }
    known |= _link_numbers(f"{system}.link_stress")
    known[f"{system}.messages"] = Published("packets", "10")
    return known


def _remover_numbers() -> dict[str, Published]:
    system, section = "scribe_bottleneck", "IV.E"
    return {
        f"{system}.overloaded": Published(
            "nodes", section, 0, note="keep more children than their limit"
        ),
        f"{system}.extra_joins": Published(
            "messages", section, note="JOINs to siblings, and those that a refusal led to"
        ),
        f"{system}.probes_per_join": Published(
            "probes", section, 3, note="probes / (JOINs of members and of dropped children)"
        ),
        **_link_numbers(f"{system}.join_stress", 2.7, None, (4728,), section),
    }


NUMBERS |= _stress_numbers()
NUMBERS |= _variant_numbers("scribe_bottleneck") | _remover_numbers()
NUMBERS["scribe_bottleneck.children_entries.max"] = Published("per node", "11", 64)
NUMBERS |= _variant_numbers("scribe_collapse") | _variant_numbers("scribe_lazy")
NUMBERS["scribe_lazy.overloaded"] = Published(
    "nodes", "IV.F", note="have more children than their limit: the only node of a route takes all"
)

#: Section IV.F's own: the published value and the independent check's.
_SMALL_GROUPS: dict[str, tuple[float, str | None]] = {
    "scribe.children_entries.mean": (21.2, "20.9"),
    "naive_unicast.children_entries.mean": (6.6, None),
    "scribe_collapse.children_entries.mean": (8.5, None),
    "scribe.link_stress.mean": (6.1, "5.6"),
    "ip_multicast.link_stress.mean": (1.6, "1.65"),
    "naive_unicast.link_stress.mean": (2.9, "2.89"),
    "scribe_collapse.link_stress.mean": (3.3, None),
}


def published(config: RunConfig, systems: list[str]) -> dict[str, Published]:
    """What is known of each number of a run, in the order in which it is told.

    Groups of equal size are held against Section IV.F, all others against IV.A to IV.E.

    Parameters
    ----------
    systems : list of str
        The multicast systems of the run.
    """
    others = {name.split(".")[0] for name in NUMBERS if name.startswith("scribe_")} - {*systems}
    known = {name: k for name, k in NUMBERS.items() if name.split(".")[0] not in others}
    if (
        config.topology.kind == "power-law"
    ):  # the paper gives no numbers of its second topology's links
        of_links = ("topology.", "links.", "_stress.", ".messages")
        alien = [name for name in known if any(part in name for part in of_links)]
        known |= {n: dataclasses.replace(known[n], paper=None, check=None) for n in alien}
    if config.group_size is None:
        return known
    return {name: _with_small_groups(name, k) for name, k in known.items()}


def _with_small_groups(name: str, known: Published) -> Published:
    if known.figure in ("IV.A", "II", "II.A") or name.startswith("links."):
        return dataclasses.replace(known, figure=SMALL_GROUPS.get(known.figure, known.figure))
    paper, check = _SMALL_GROUPS.get(name, (None, None))
    quoted = known.note is not None and known.note.startswith("paper:")
    return Published(
        known.unit,
        SMALL_GROUPS.get(known.figure, known.figure),
        paper,
        check,
        None if quoted else known.note,
    )
