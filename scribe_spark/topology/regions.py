"""Regions as routers: each pair of regions is a link with the latency of a matrix.

All links have the same weight, so a route is the one link between two regions.  The diagonal of the
matrix is the delay between two nodes of one region.  With jitter, a region is several routers
(sites), and each pair of sites has an additional random delay.

A matrix, from CSV or JSON, is a table with columns ``from``, ``to`` and the latency, or square.
The name of the latency (in the first cell of a square table, or the key in JSON) gives its meaning:
``one_way_ms``, ``rtt_ms`` (round trips, which are halved), or ``ms`` (the config decides).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from scribe_spark.config import TopologyConfig
from scribe_spark.core import draws
from scribe_spark.core.cells import header_of, read_rows, real_number, without_comments
from scribe_spark.core.errors import InputError, in_words, listed, one_line, shown, unlike
from scribe_spark.core.inputs import check_columns
from scribe_spark.core.paths import exists, is_local, local_path, read_packed
from scribe_spark.core.units import MICROSECONDS, parse_time
from scribe_spark.topology.checks import MOST_DELAY_MS, SHARE_TOLERANCE
from scribe_spark.topology.graph import Graph, Hosts, TopologyKind, router_frame

FIELD = "regions"

#: The meanings of latencies: the values of the setting `region_latency`.
ONE_WAY, ROUND_TRIP = "one-way", "round-trip"

#: The greatest number of regions; each pair of regions is a link.
MOST_REGIONS = 500

_MOST_BYTES = 2**25

#: Name of the latencies -> their meaning; None: the config decides.
_MEANINGS = {"ms": None, "one_way_ms": ONE_WAY, "rtt_ms": ROUND_TRIP}

_SHARE = "share"

#: The matrices in the package, by name.
SHIPPED = ("azure", "continents", "corrosion19")


@dataclass(frozen=True, eq=False)
class RegionMatrix:
    """The one-way latencies between regions, with their names and shares of the nodes."""

    #: The names of the regions.
    names: tuple[str, ...]
    #: int64, shape (R, R): the latency from the row's region to the column's, in microseconds; all
    #: above 0.
    us: np.ndarray
    #: float64, shape (R,): the share of the nodes in each region.
    shares: np.ndarray | None
    #: The meaning of the numbers in the file: ``one-way`` or ``round-trip``.
    latency: str


def is_shipped(regions: str) -> bool:
    """Return True if the text `regions` names a matrix of the package, not a file."""
    return regions in SHIPPED


def is_matrix(start: bytes) -> bool:
    """Return True if a file that begins with the text `start` is a matrix of latencies."""
    if start.lstrip()[:1] in (b"{", b"["):
        return b'"regions"' in start or b'"from"' in start
    try:
        names = header_of(start, ("from", "to", *_MEANINGS)).names
    except ValueError:
        return False
    units = _MEANINGS.keys() & {*names}
    return names[0] in units or (bool(units) and {"from", "to"} <= {*names})


def read_matrix(
    regions: str, latency: str | None = None, shares: Sequence[str] = ()
) -> RegionMatrix:
    """Return the matrix of a file, or of the package (:data:`SHIPPED`).

    `latency` is the meaning of latencies with the name ``ms``, by default ``one-way``.  The texts
    `shares`, each ``REGION=SHARE``, replace the file's shares; other regions then have no nodes.
    """
    found = _RegionReader(regions, latency).read(_text(regions))
    return replace(found, shares=_given_shares(shares, found.names)) if shares else found


def _text(regions: str) -> str:
    if is_shipped(regions):
        file = resources.files("scribe_spark.topology") / "matrices" / f"{regions}.csv"
        return file.read_text("utf-8")
    if not is_local(regions):
        remedy = "is not on this machine; give a local path, or a matrix of the package"
        raise InputError(FIELD, regions, f"{remedy}: {listed(SHIPPED)}")
    if not exists(regions, FIELD):
        remedy = f"does not exist; give a CSV or JSON file, or one of {listed(SHIPPED)}"
        raise InputError(FIELD, regions, remedy)
    try:
        return read_packed(local_path(regions), _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(FIELD, regions, "is not UTF-8 text") from None
    except Exception as error:  # each compression has its own errors
        raise InputError(FIELD, regions, f"cannot be read ({one_line(error)})") from None


def _given_shares(given: Iterable[str], names: Sequence[str]) -> np.ndarray:
    shares = np.zeros(len(names))
    for one in given:
        name, equals, text = one.rpartition("=")
        number = real_number(text)
        if not equals or not 0 <= number <= 1:
            remedy = "must be REGION=SHARE with a share from 0 to 1, such as europe=0.5"
            raise InputError("region_shares", one, remedy)
        if name not in names:
            raise InputError(
                "region_shares", name, f"is not a region; give some of {listed(names)}"
            )
        shares[names.index(name)] = number
    return _summed(shares, "region_shares", ",".join(given))


def _summed(shares: np.ndarray, field: str, value: str) -> np.ndarray:
    total = math.fsum(shares)
    if abs(total - 1) > SHARE_TOLERANCE:
        remedy = f"shares of regions must sum to 1, but sum to {unlike(total, 1)}"
        raise InputError(field, value, remedy)
    return shares


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise a ValueError if a key occurs twice."""
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise ValueError(f"the key {shown(key)} occurs twice in an object")
    return dict(pairs)


def _own(shares: Mapping[str, Any], one: str, other: str) -> dict[str, Any]:
    """Return the share of a region, in the row from the region to itself."""
    return {_SHARE: shares.get(one)} if shares and one == other else {}


class _RegionReader:
    """Reads a matrix from a text in one of the forms; errors name the file and the bad value."""

    def __init__(self, source: str, latency: str | None) -> None:
        self._source, self._latency = source, latency

    def read(self, text: str) -> RegionMatrix:
        if text.lstrip()[:1] in ("{", "["):
            return self._json(text)
        data = without_comments(text.encode())
        columns = ("from", "to", *_MEANINGS, _SHARE)
        try:
            header = header_of(data, columns)
            rows = read_rows(data, header)
        except ValueError as error:
            raise self._refused(f"cannot be read as a matrix: {in_words(str(error))}") from None
        names = header.names
        numbered = [(f"row {number}", row) for number, row in enumerate(rows, 1)]
        if {"from", "to"} <= {*names}:
            check_columns(names, FIELD, self._source, columns, columns)
            named = [(where, dict(zip(names, row, strict=True))) for where, row in numbered]
            return self._rows(named, self._unit(names))
        return self._square(names, numbered)

    # --- forms

    def _square(
        self, names: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]
    ) -> RegionMatrix:
        """Return the matrix of a square table, whose first column has the names of the rows."""
        check_columns(names, FIELD, self._source, (_SHARE,), (_SHARE,))
        corner = names[0] or "ms"
        if corner not in _MEANINGS:
            remedy = f"the first cell must be one of {listed(_MEANINGS)}, or empty"
            raise self._refused(f"{remedy}, not {shown(corner)}")
        regions = [name for name in names[1:] if name != _SHARE]
        given = [row[0] for _, row in rows]
        if sorted(given) != sorted(regions):
            odd = [name for name in dict.fromkeys([*given, *regions])
                   if given.count(name) != 1 or regions.count(name) != 1]  # fmt: skip
            raise self._refused(
                f"must be square: {len(given)} rows and {len(regions)} columns of regions; each "
                f"region needs one of each, not so {listed(odd)}"
            )
        shares = {row[0]: row[names.index(_SHARE)] for _, row in rows if _SHARE in names}
        named = [
            (where, {"from": row[0], "to": name, corner: cell, **_own(shares, row[0], name)})
            for where, row in rows
            for name, cell in zip(names[1:], row[1:], strict=True)
            if name != _SHARE
        ]
        return self._rows(named, corner)

    def _json(self, text: str) -> RegionMatrix:
        try:
            found = json.loads(text, object_pairs_hook=_without_twins)
        except (ValueError, RecursionError) as error:
            raise self._refused(f"is not JSON: {in_words(str(error))}") from None
        if isinstance(found, list):
            return self._json_list(found)
        if not isinstance(found, Mapping):
            raise self._refused("must be a list of rows, or an object with regions and ms")
        regions, unit = found.get("regions"), self._unit([*found])
        if not isinstance(regions, Mapping | list):
            raise self._refused('needs "regions": a list of names, or an object of shares')
        shares, table = regions if isinstance(regions, Mapping) else {}, found[unit]
        rows = table if isinstance(table, list) else []
        lengths = [len(row) if isinstance(row, list) else 0 for row in rows]
        if lengths != [len(regions)] * len(regions):
            remedy = f"must be square: {unit} needs {len(regions)} lists of {len(regions)} numbers"
            raise self._refused(remedy)
        named = [
            (f"{unit}[{i}][{j}]", {"from": a, "to": b, unit: cell, **_own(shares, a, b)})
            for i, (a, row) in enumerate(zip(regions, table, strict=True))
            for j, (b, cell) in enumerate(zip(regions, row, strict=True))
        ]
        return self._rows(named, unit)

    def _json_list(self, found: list[Any]) -> RegionMatrix:
        if not found or not all(isinstance(row, Mapping) for row in found):
            raise self._refused("must be rows, such as {from: a, to: b, ms: 5}, at least one")
        units = [self._unit([*row]) for row in found]
        for number, unit in enumerate(units, 1):
            if unit != units[0]:
                raise self._refused(f"row {number}: has {unit}, but row 1 has {units[0]}")
        return self._rows([(f"row {n}", row) for n, row in enumerate(found, 1)], units[0])

    # --- common parts of the forms

    def _unit(self, names: Sequence[str]) -> str:
        units = [name for name in _MEANINGS if name in names]
        if len(units) != 1:
            remedy = f"needs one of {listed(_MEANINGS)}; found {listed(names)}"
            raise self._refused(remedy)
        return units[0]

    def _rows(self, rows: Sequence[tuple[str, Mapping[str, Any]]], unit: str) -> RegionMatrix:
        """Return the matrix of rows with the keys ``from``, ``to``, `unit` and ``share``."""
        shares, entries = {}, []
        for where, row in rows:
            one, other, share = row.get("from", ""), row.get("to", ""), row.get(_SHARE)
            if not isinstance(one, str) or not isinstance(other, str):
                raise self._refused(f"{where}: names of regions must be texts")
            if share not in (None, ""):
                if one != other:
                    remedy = f"{where}: a share must be in the row from a region to itself"
                    raise self._refused(
                        f"{remedy}, not in that from {shown(one)} to {shown(other)}"
                    )
                shares[one] = share
            entries.append((where, one, other, row.get(unit, "")))
        names = tuple(dict.fromkeys(name for _, *ends, _ in entries for name in ends))
        if not names or not all(names):
            raise self._refused("has a region without a name")
        if len(names) > MOST_REGIONS:
            raise self._refused(f"has {len(names):,} regions; must be at most {MOST_REGIONS}")
        meaning = self._meaning(unit)
        us = np.zeros((len(names), len(names)), dtype=np.int64)
        at = {name: place for place, name in enumerate(names)}
        for where, one, other, cell in entries:
            pair = at[one], at[other]
            if us[pair]:
                raise self._refused(f"{where}: has {shown(one)} to {shown(other)} twice; keep one")
            us[pair] = self._microseconds(where, one, other, cell, meaning)
        us = np.where(us == 0, us.T, us)
        if (us == 0).any():
            one, other = (names[place] for place in np.argwhere(us == 0)[0])
            raise self._refused(
                f"has no latency from {shown(one)} to {shown(other)}; each pair of regions needs "
                "one, and each region one to itself"
            )
        return RegionMatrix(names, us, self._shares(shares, names), meaning)

    def _meaning(self, unit: str) -> str:
        """Return the meaning of latencies called `unit`: one-way, or round trip."""
        known, given = _MEANINGS[unit], self._latency
        if None not in (known, given) and known != given:
            remedy = (
                f"contradicts {unit}, the name of the latencies in {self._source}; leave it out"
            )
            raise InputError("region_latency", given, remedy)
        return known or given or ONE_WAY

    def _microseconds(self, where: str, one: str, other: str, cell: Any, meaning: str) -> int:
        ms, halves = real_number(cell), meaning == ROUND_TRIP
        one_way = ms / 2 if halves else ms
        if not 0.001 <= one_way <= MOST_DELAY_MS:
            least = "0.002" if halves else "0.001"
            raise self._refused(
                f"{where}: the latency from {shown(one)} to {shown(other)} must be a number from "
                f"{least} to {MOST_DELAY_MS:,.0f} ms, not {shown(cell)}"
            )
        return max(1, math.floor(one_way * 1000 + 0.5))

    def _shares(self, given: Mapping[str, Any], names: tuple[str, ...]) -> np.ndarray | None:
        if not given:
            return None
        for name, share in given.items():
            if name not in names:
                raise self._refused(
                    f"has a share of {shown(name)}, which is no region of the matrix"
                )
            if not 0 <= real_number(share) <= 1:
                remedy = f"the share of {shown(name)} must be a number from 0 to 1"
                raise self._refused(f"{remedy}, not {shown(share)}")
        return _summed(
            np.array([real_number(given.get(name, 0)) for name in names]), FIELD, self._source
        )

    def _refused(self, remedy: str) -> InputError:
        return InputError(FIELD, self._source, remedy)


# --- regions as routers


#: With jitter: the greatest number of sites of a region, and of all regions; each pair of sites is
#: a link.
_SITES = 16
_ALL_SITES = 512

#: With shorter delays, the simulation of sizes needs very many steps.
_SHORT_US = 500


def region_network(config: TopologyConfig, seed: int) -> Graph:
    """Return the network of a config with regions."""
    assert config.regions is not None  # the config has checked this
    matrix = read_matrix(config.regions, config.region_latency, config.region_shares)
    jitter_us = 0 if config.region_jitter is None else parse_time(config.region_jitter)
    lan_us = round(config.lan_delay_ms * MICROSECONDS)
    return graph_of_regions(matrix, jitter_us, lan_us, seed, config.regions)


def used_settings(config: TopologyConfig) -> dict[str, str]:
    """Return the settings that the matrix of a config decides: flat name -> value."""
    if config.regions is None:
        return {}
    return {"region_latency": read_matrix(config.regions, config.region_latency).latency}


def graph_of_regions(
    matrix: RegionMatrix, jitter_us: int, lan_us: int, seed: int, source: str
) -> Graph:
    """Return the network of a matrix: a router for each region or, with jitter, for each site."""
    sites = max(1, min(_SITES, _ALL_SITES // len(matrix.names))) if jitter_us else 1
    region = np.repeat(np.arange(len(matrix.names)), sites)
    site = np.arange(len(region))
    us = matrix.us[region[:, None], region[None, :]]
    if jitter_us:
        bits = draws.bits_np(seed, "region jitter", site[:, None], site[None, :])
        us = us + (bits % np.uint64(jitter_us + 1)).astype(np.int64)
    src, dst = np.nonzero(~np.eye(len(region), dtype=bool))
    delay_ms = us[src, dst] / MICROSECONDS
    edges = pd.DataFrame({"src": src, "dst": dst, "delay_ms": delay_ms, "weight": 1.0})
    shares = None if matrix.shares is None else matrix.shares[region] / sites
    hosts = Hosts(shares, us.diagonal().copy(), regions=matrix.names, region=region)
    return Graph(router_frame(site, domain=region), edges, source, hosts, notes=_notes(us, lan_us))


def _notes(us: np.ndarray, lan_us: int) -> tuple[str, ...]:
    shortest = int(us.min()) + 2 * lan_us
    if shortest >= _SHORT_US:
        return ()
    return (
        f"regions: the shortest delay between two nodes is {shortest / MICROSECONDS:g} ms; below "
        "0.5 ms a clock with bandwidth has many windows and takes long",
    )


KIND = TopologyKind("regions", lambda _, config, seed: region_network(config, seed), is_kept=False)
