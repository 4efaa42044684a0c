"""The routers and links of a network as Parquet, and what is worth knowing of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scribe_spark.config import RunConfig
from scribe_spark.errors import InputError

__all__ = ["statistics", "write_network"]


def write_network(tables: Mapping[str, Any], out: Path) -> None:
    """Each pandas frame as a Parquet folder under `out`, which must not hold one yet."""
    for name, frame in tables.items():
        try:
            folder = out / name
            folder.mkdir(parents=True)
            frame.to_parquet(folder / "part-00000.parquet", index=False)
        except FileExistsError:
            raise InputError("out", str(out), f"already holds {name}; name another") from None
        except OSError as error:
            raise InputError("out", str(out), f"cannot be written ({error.strerror})") from None


_SAMPLE = 200  # routers whose routes are looked at, where all are too many


def statistics(config: RunConfig, vertices: Any, edges: Any) -> dict[str, str]:
    """What is worth knowing of a topology before a run over it.

    Routes are means over ordered pairs of distinct routers; in a large network over those from a
    sample of routers.
    """
    import numpy as np

    from scribe_spark import draws
    from scribe_spark.topology.checks import MOST_ROUTERS
    from scribe_spark.underlay.dijkstra import LinkArrays, route_block

    links = LinkArrays.of(vertices["id"].to_numpy(), edges, config.topology.tie, config.seed)
    n, delay, hops = len(vertices), 0, 0
    few = min(n, _SAMPLE if n > MOST_ROUTERS else n)
    sampled = draws.distinct_below(n, few, config.seed, "sampled routers", 0)
    block = max(1, 2_500_000 // n)  # bounds the routes held at once
    for start in range(0, few, block):
        sources = sampled[start : start + block]
        delay_us, towards = route_block(links, sources)
        delay += int(delay_us.sum(dtype=np.int64))
        # every route of the block walks back to its source, a link a round
        row, at = np.nonzero(towards >= 0)
        while len(at):
            hops += len(at)
            at = towards[row, at]
            going = towards[row, at] >= 0
            row, at = row[going], at[going]
    pairs = max(1, few * (n - 1))
    of = "" if few == n else f"  (from {few:,} sampled routers)"
    return {
        "routers": f"{n:,}",
        "links (directed)": f"{len(edges):,}",
        "mean link delay": f"{edges['delay_ms'].mean() if len(edges) else 0:.2f} ms",
        "mean route delay": f"{delay / pairs / 1000:.2f} ms{of}",
        "mean route hops": f"{hops / pairs:.2f}{of}",
        "connected": "yes",  # load() refuses any other
    }
