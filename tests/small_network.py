"""A network of a few routers, for worlds and runs on Spark, and the tables that they leave."""

from pathlib import Path

import pandas as pd

NETWORK = {"transit_domains": 2, "transit_size": 2, "stubs_per_transit": 2, "stub_size": 3}


def table(out: Path, name: str) -> pd.DataFrame:
    """A table that a world has left."""
    return pd.read_parquet(out / "tables" / name)
