"""Damaged and strange tables of users: each is read, or refused in one line."""

import json
import random
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scribe_spark.bandwidth.schedule import check_schedule
from scribe_spark.config import RunConfig, WorldConfig
from scribe_spark.core.errors import InputError
from scribe_spark.systems.scribe.groups import check_capacities, check_members
from scribe_spark.topology.registry import load
from scribe_spark.worlds.events import check_world
from scribe_spark.worlds.groups import read_access

CLASSES = """
[[classes]]
name = "fast"
share = 0.2
up = "1Gbit/s"

[[classes]]
name = "slow"
share = 0.8
validation = "5ms"
"""
PAIRS = (("a", "a", 1), ("a", "b", 1.5), ("b", "b", 2))
WORLD = {"nodes": 20, "groups": 3, "rounds": 10}

#: Kind -> a reader of a path, and good texts.
KINDS: dict[str, tuple[Callable[[str], Any], tuple[str, ...]]] = {
    "schedule": (
        lambda path: check_schedule(path, 100, 1_000),
        ("time,group,node,size\n0,1,17,128KB\n250ms,1,42,16KB\n# c\n1s,2,3,1MiB\n",),
    ),
    "members": (lambda path: check_members(path, 100), ("group,node\n1,0\n1,2\n2,5\n",)),
    "capacities": (lambda path: check_capacities(path, 3), ("node,limit\n0,1\n1,2\n2,3\n",)),
    "access": (
        lambda path: read_access(path, np.array([1, 2]), 100),
        ("group,node,right\n1,2,join\n1,3,multicast\n2,1,create\n",),
    ),
    "regions": (
        lambda path: load(RunConfig(regions=path)),
        (
            "from,to,rtt_ms,share\na,a,2,0.7\na,b,70,\nb,b,4,0.3\n",
            "rtt_ms,a,b\na,2,70\nb,70,4\n",
            json.dumps({"regions": {"a": 0.7, "b": 0.3}, "rtt_ms": [[2, 70], [70, 4]]}),
            json.dumps([{"from": a, "to": b, "ms": ms} for a, b, ms in PAIRS]),
        ),
    ),
    "classes": (lambda path: RunConfig(nodes=100, groups=4, classes=path), (CLASSES,)),
    "events": (
        lambda path: check_world(WorldConfig(**WORLD, events=path)),
        ("round,node,event,group\n1,2,fail,\n2,3,leave,\n3,2,recover,\n",),
    ),
    "links": (
        lambda path: load(RunConfig(topology=path)),
        ("src,dst,delay_ms,weight\n0,1,2.5,1\n1,2,3,1\n2,0,1,2\n",),
    ),
}

#: Texts in place of a cell, or at any place.
STRANGE = (
    *("-1", "0", "9" * 25, "9" * 5_000, "1e400", "nan", "-inf", "NA", "", "1_000", "0x1F"),
    *("\u0663", "true", '"', "'", ",", ",,", "\t", "#", "\r", "\0", "\ufeff", "[[", "}", "="),
    *("1KB", "-5ms", "9" * 30 + "s", "a" * 70_000, "\u202e", "\x1b[31m", '"a\nb"'),
    *(str(2**63), str(-(2**63))),
)


def mutated(text: str, rng: random.Random) -> bytes:
    """Return a text with one to four changes of cells, lines or bytes."""
    for _ in range(rng.randint(1, 4)):
        lines = text.split("\n")
        at, cut = rng.randrange(len(lines)), rng.randrange(len(text) + 1)
        match rng.randrange(8):
            case 0:
                text = text[:cut] + rng.choice(STRANGE) + text[cut:]
            case 1:
                cells = lines[at].split(",")
                cells[rng.randrange(len(cells))] = rng.choice(STRANGE)
                text = "\n".join([*lines[:at], ",".join(cells), *lines[at + 1 :]])
            case 2:
                text = text[:cut] + chr(rng.randrange(256)) + text[cut + 1 :]
            case 3:
                text = "\n".join([*lines, lines[at]])
            case 4:
                text = "\n".join(rng.sample(lines, len(lines)))
            case 5:
                text = text[:cut]
            case 6:
                text = "\n".join([*lines[:at], lines[at] + ",5", *lines[at + 1 :]])
            case 7:
                text = text.replace(",", rng.choice(";\t|"))
    return text.encode("latin-1" if rng.random() < 0.1 else "utf-8", "replace")


@pytest.mark.parametrize("kind", KINDS)
def test_each_table_is_read_or_refused_in_one_line(tmp_path: Path, kind: str):
    """25 of each kind, 200 in all."""
    read, texts = KINDS[kind]
    rng, outcomes = random.Random(f"tables {kind}"), set()
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("takes for ever"))
    for number in range(25):
        path = tmp_path / f"{number}{'.toml' if kind == 'classes' else '.csv'}"
        path.write_bytes(mutated(rng.choice(texts), rng) if number else texts[0].encode())
        signal.alarm(60)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read(str(path))
            outcomes.add("read")
        except InputError as error:
            line = str(error)
            assert line.isprintable(), path.read_bytes()
            assert len(line) < 2_600
            outcomes.add("refused")
        finally:
            signal.alarm(0)
    assert outcomes == {"read", "refused"}
