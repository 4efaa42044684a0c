"""A matrix of latencies between named regions, from CSV or JSON.

A table has columns ``from``, ``to`` and the latency, or it is square, with a row and a column for
each region.  The name of the latency (in the first cell of the square table, or the key in JSON)
gives its meaning: ``one_way_ms``, ``rtt_ms`` (round trips, which are halved), or ``ms`` (the
config decides).
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

from scribe_spark.core.cells import real_number
from scribe_spark.core.delimited import header_of, read_rows, without_comments
from scribe_spark.core.input_files import read_packed
from scribe_spark.core.paths import exists, is_local, local_path
from scribe_spark.errors import InputError, in_words, listed, one_line, shown, unlike
from scribe_spark.inputs import check_columns
from scribe_spark.topology.checks import MOST_DELAY_MS

FIELD = "regions"

#: The meanings of latencies: the values of the setting `region_latency`.
ONE_WAY, ROUND_TRIP = "one-way", "round-trip"

#: The greatest number of regions; each pair of regions is a link.
MOST_REGIONS = 500

_MOST_BYTES = 2**25

#: Name of the latencies -> their meaning; None: the config decides.
_MEANINGS = {"ms": None, "one_way_ms": ONE_WAY, "rtt_ms": ROUND_TRIP}

_SHARE = "share"

#: The sum of the shares may differ from 1 by this much, as decimals are rounded.
_TOLERANCE = 1e-6

#: The matrices in the package, by name.
SHIPPED = ("azure", "continents")


@dataclass(frozen=True, eq=False)
class RegionMatrix:
    """One-way latencies between regions."""

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
    """Return True if `regions` names a matrix of the package, not a file."""
    return regions in SHIPPED


def is_matrix(start: bytes) -> bool:
    """Return True if a file with this start is a matrix of latencies, not a table of links."""
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

    `latency` is the meaning of latencies with the name ``ms``, by default ``one-way``; it is
    refused if the name in the file has another meaning.  The texts `shares`, each
    ``REGION=SHARE``, replace the file's shares; other regions then have no nodes.
    """
    found = _Reader(regions, latency).read(_text(regions))
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
    if abs(total - 1) > _TOLERANCE:
        remedy = f"shares of regions must sum to 1, but sum to {unlike(total, 1)}"
        raise InputError(field, value, remedy)
    return shares


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise a ValueError if a key occurs twice."""
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            raise ValueError(f"the key {shown(key)} occurs twice in an object")
    return dict(pairs)


class _Reader:
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

    def _rows(self, rows: Iterable[tuple[str, Mapping[str, Any]]], unit: str) -> RegionMatrix:
        """Return the matrix of rows with the keys ``from, to``, `unit`, and perhaps ``share``."""
        entries, shares = [], {}
        for where, row in rows:
            one, other = row.get("from", ""), row.get("to", "")
            entries.append((where, one, other, row.get(unit, "")))
            if row.get(_SHARE) not in (None, ""):
                if one != other:
                    remedy = f"{where}: a share must be in the row from a region to itself"
                    raise self._refused(
                        f"{remedy}, not in that from {shown(one)} to {shown(other)}"
                    )
                shares[one] = row[_SHARE]
        return self._of_entries(entries, shares, unit)

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
        entries, shares = [], {}
        for where, row in rows:
            for name, cell in zip(names[1:], row[1:], strict=True):
                if name == _SHARE:
                    shares[row[0]] = cell
                else:
                    entries.append((where, row[0], name, cell))
        return self._of_entries(entries, shares, corner)

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
        table = found[unit]
        if isinstance(regions, Mapping):
            shares = {str(name): share for name, share in regions.items()}
        elif isinstance(regions, list):
            shares = {}
        else:
            raise self._refused('needs "regions": a list of names, or an object of shares')
        names = [*regions]
        if not all(isinstance(name, str) for name in names):
            raise self._refused("names of regions must be texts")
        rows = table if isinstance(table, list) else []
        lengths = [len(row) if isinstance(row, list) else 0 for row in rows]
        if lengths != [len(names)] * len(names):
            remedy = f"must be square: {unit} needs {len(names)} lists of {len(names)} numbers"
            raise self._refused(remedy)
        entries = [
            (f"{unit}[{i}][{j}]", one, other, table[i][j])
            for i, one in enumerate(names)
            for j, other in enumerate(names)
        ]
        return self._of_entries(entries, shares, unit)

    def _json_list(self, found: list[Any]) -> RegionMatrix:
        if not found or not all(isinstance(row, Mapping) for row in found):
            raise self._refused("must be rows, such as {from: a, to: b, ms: 5}, at least one")
        units = [self._unit([*row]) for row in found]
        for number, (row, unit) in enumerate(zip(found, units, strict=True), 1):
            if unit != units[0]:
                raise self._refused(f"row {number}: has {unit}, but row 1 has {units[0]}")
            if not all(isinstance(row.get(end, ""), str) for end in ("from", "to")):
                raise self._refused(f"row {number}: names of regions must be texts")
        numbered = ((f"row {number}", row) for number, row in enumerate(found, 1))
        return self._rows(numbered, units[0])

    # --- common parts of the forms

    def _unit(self, names: Sequence[str]) -> str:
        units = [name for name in _MEANINGS if name in names]
        if len(units) != 1:
            remedy = f"needs one of {listed(_MEANINGS)}; found {listed(names)}"
            raise self._refused(remedy)
        return units[0]

    def _of_entries(
        self, entries: list[tuple[str, str, str, Any]], shares: Mapping[str, Any], unit: str
    ) -> RegionMatrix:
        names = tuple(dict.fromkeys(name for _, one, other, _ in entries for name in (one, other)))
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
        """Return the meaning of the latencies with a name; refuse a setting that contradicts it."""
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
