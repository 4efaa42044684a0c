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
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    try:
        found = _matrix([*_rows_of(_text(regions), regions)], regions, latency)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(FIELD, regions, f"cannot be read as a matrix: {error}") from None
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
    except Exception as error:  # no UTF-8, or an error of a compression
        raise InputError(FIELD, regions, f"cannot be read ({one_line(error)})") from None


def _given_shares(given: Sequence[str], names: Sequence[str]) -> np.ndarray:
    shares = np.zeros(len(names))
    for one in given:
        name, equals, text = one.rpartition("=")
        number = real_number(text)
        if not equals or not 0 <= number <= 1:
            remedy = "must be REGION=SHARE with a share from 0 to 1, such as europe=0.5"
            raise InputError("region_shares", one, remedy)
        if name not in names:
            remedy = f"is not a region; give some of {listed(names)}"
            raise InputError("region_shares", name, remedy)
        shares[names.index(name)] = number
    return _summed(shares, "region_shares", ",".join(given))


def _summed(shares: np.ndarray, field: str, value: str) -> np.ndarray:
    total = math.fsum(shares)
    if abs(total - 1) > SHARE_TOLERANCE:
        remedy = f"shares of regions must sum to 1, but sum to {unlike(total, 1)}"
        raise InputError(field, value, remedy)
    return shares


#: A row of a matrix: its place for messages, and its cells by the names of columns.
_Row = tuple[str, Mapping[str, Any]]


def _rows_of(text: str, source: str) -> Iterator[_Row]:
    """Yield the rows ``from, to, LATENCY, share`` of a matrix; a ValueError says what is bad."""
    if text.lstrip()[:1] in ("{", "["):
        names, rows = _json_rows(text)
    else:
        data, columns = without_comments(text.encode()), ("from", "to", *_MEANINGS, _SHARE)
        header = header_of(data, columns)
        names, rows = header.names, read_rows(data, header)
        if {"from", "to"} <= {*names}:
            check_columns(names, FIELD, source, columns, columns)
            named = (dict(zip(names, row, strict=True)) for row in rows)
            yield from ((f"row {number}", row) for number, row in enumerate(named, 1))
            return
        check_columns(names, FIELD, source, (_SHARE,), (_SHARE,))
    if not names:  # a list of rows
        yield from ((f"row {number}", row) for number, row in enumerate(rows, 1))
        return
    corner, regions = names[0] or "ms", [name for name in names[1:] if name != _SHARE]
    if corner not in _MEANINGS:
        raise ValueError(
            f"the first cell must be one of {listed(_MEANINGS)}, or empty, not {shown(corner)}"
        )
    given = [row[0] for row in rows]
    counts, of_columns = Counter(given), Counter(regions)
    odd = [name for name in {**counts, **of_columns} if not counts[name] == of_columns[name] == 1]
    if odd:
        raise ValueError(
            f"must be square: {len(given)} rows and {len(regions)} columns of regions; each region "
            f"needs one of each, not so {listed(odd)}"
        )
    for number, row in enumerate(rows, 1):
        cells = dict(zip(names, row, strict=True))
        for name in regions:
            own = {_SHARE: cells.get(_SHARE)} if name == row[0] else {}
            yield f"row {number}", {"from": row[0], "to": name, corner: cells[name], **own}


def _json_rows(text: str) -> tuple[Sequence[str], Sequence[Any]]:
    """Return the header and the rows of a square table in JSON, or no header and its rows."""
    try:
        found = json.loads(text, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {in_words(str(error))}") from None
    if isinstance(found, list):
        if not found or not all(isinstance(row, Mapping) for row in found):
            raise ValueError("must be rows, such as {from: a, to: b, ms: 5}, at least one")
        return (), found
    regions, unit = found.get("regions"), _unit(found)
    if not isinstance(regions, Mapping | list) or not all(isinstance(a, str) for a in regions):
        raise ValueError('needs "regions": a list of names, or an object of shares')
    table, shares = found[unit], regions if isinstance(regions, Mapping) else {}
    rows = table if isinstance(table, list) else []
    if [len(row) if isinstance(row, list) else 0 for row in rows] != [len(regions)] * len(regions):
        raise ValueError(
            f"must be square: {unit} needs {len(regions)} lists of {len(regions)} numbers"
        )
    named = zip(regions, rows, strict=True)
    return (unit, *regions, _SHARE), [(name, *row, shares.get(name)) for name, row in named]


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise a ValueError if a key occurs twice."""
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise ValueError(f"the key {shown(key)} occurs twice in an object")
    return dict(pairs)


def _unit(names: Iterable[str]) -> str:
    units = [name for name in _MEANINGS if name in names]
    if len(units) != 1:
        raise ValueError(f"needs one of {listed(_MEANINGS)}; found {listed(names)}")
    return units[0]


def _matrix(rows: Sequence[_Row], source: str, latency: str | None) -> RegionMatrix:
    """Return the matrix of rows; a ValueError says what is bad."""
    if not rows:
        raise ValueError("has no rows")
    unit, shares, entries = _unit(rows[0][1]), dict[str, Any](), []
    for where, row in rows:
        if _unit(row) != unit:
            raise ValueError(f"{where}: has {_unit(row)}, but row 1 has {unit}")
        one, other, share = row.get("from", ""), row.get("to", ""), row.get(_SHARE)
        if not isinstance(one, str) or not isinstance(other, str):
            raise ValueError(f"{where}: names of regions must be texts")
        if share not in (None, ""):
            if one != other:
                raise ValueError(
                    f"{where}: a share must be in the row from a region to itself, not in that "
                    f"from {shown(one)} to {shown(other)}"
                )
            if not 0 <= real_number(share) <= 1:
                what = f"the share of {shown(one)} must be a number from 0 to 1"
                raise ValueError(f"{what}, not {shown(share)}")
            shares[one] = real_number(share)
        entries.append((where, one, other, row[unit]))
    names = tuple(dict.fromkeys(name for _, *ends, _ in entries for name in ends))
    if not all(names):
        raise ValueError("has a region without a name")
    if len(names) > MOST_REGIONS:
        raise ValueError(f"has {len(names):,} regions; must be at most {MOST_REGIONS}")
    meaning = _MEANINGS[unit] or latency or ONE_WAY
    if latency not in (None, meaning):
        remedy = f"contradicts {unit}, the name of the latencies in {source}; leave it out"
        raise InputError("region_latency", latency, remedy)
    us = np.zeros((len(names), len(names)), dtype=np.int64)
    at = {name: place for place, name in enumerate(names)}
    for where, one, other, cell in entries:
        pair = at[one], at[other]
        if us[pair]:
            raise ValueError(f"{where}: has {shown(one)} to {shown(other)} twice; keep one")
        us[pair] = _microseconds(f"{where}: the latency from {shown(one)} to {shown(other)}",
                                 cell, 2 if meaning == ROUND_TRIP else 1)  # fmt: skip
    us = np.where(us == 0, us.T, us)
    if (us == 0).any():
        one, other = (names[place] for place in np.argwhere(us == 0)[0])
        raise ValueError(
            f"has no latency from {shown(one)} to {shown(other)}; each pair of regions needs one, "
            "and each region one to itself"
        )
    of_nodes = np.array([shares.get(name, 0.0) for name in names])
    return RegionMatrix(names, us, _summed(of_nodes, FIELD, source) if shares else None, meaning)


def _microseconds(what: str, cell: Any, ways: int) -> int:
    ms = real_number(cell) / ways
    if not 0.001 <= ms <= MOST_DELAY_MS:
        bounds = f"a number from {0.001 * ways:g} to {MOST_DELAY_MS:,.0f} ms"
        raise ValueError(f"{what} must be {bounds}, not {shown(cell)}")
    return max(1, math.floor(ms * 1000 + 0.5))


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
