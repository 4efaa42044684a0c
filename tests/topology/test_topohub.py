"""Real networks by name."""

from __future__ import annotations

import builtins
import math

import pytest
from given import loaded, refusal


def test_topohub_delay_is_light_in_fibre():
    topohub = pytest.importorskip("topohub")
    graph = loaded("topohub:sndlib/germany50")
    link = topohub.get("sndlib/germany50")["edges"][0]
    assert len(graph.vertices) == 50
    assert len(graph.edges) == 2 * 88
    found = graph.edges.set_index(["src", "dst"]).loc[(link["source"], link["target"])]
    assert math.isclose(found["delay_ms"], round(link["dist"] * 5e-3, 3))  # 5 us per km
    assert found["weight"] == found["delay_ms"]
    assert graph.vertices["x"].between(5, 16).all()  # longitudes of Germany
    assert graph.vertices["y"].between(47, 56).all()


def test_topohub_with_routers_at_one_place():
    pytest.importorskip("topohub")
    graph = loaded("topohub:topozoo/Dfn")
    assert (graph.edges["delay_ms"] == 0).any()
    assert (graph.edges["weight"] > 0).all()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sndlib/germany5", "sndlib/germany50"),
        ("topozoo/abilene", "topozoo/Abilene"),
        ("../../secret", "is unknown to topohub; it has "),
        ("", "is unknown to topohub; it has "),
    ],
)
def test_unknown_topohub_names(name, near):
    pytest.importorskip("topohub")
    assert near in refusal(f"topohub:{name}")


def test_topohub_not_installed(monkeypatch):
    plain = builtins.__import__

    def without(name, *rest):
        if name == "topohub":
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'scribe_spark[topohub]'" in refusal("topohub:sndlib/polska")


def test_a_disconnected_topohub_network_is_refused(monkeypatch):
    topohub = pytest.importorskip("topohub")
    network = topohub.get("sndlib/polska")
    network["edges"] = [e for e in network["edges"] if 0 not in (e["source"], e["target"])]
    monkeypatch.setattr(topohub, "get", lambda name: network)
    assert "must be connected" in refusal("topohub:sndlib/polska")
