"""Routes between all pairs of routers, through Spark, against the oracle."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import worlds

from scribe_spark import schemas
from scribe_spark.errors import InputError
from scribe_spark.underlay.all_pairs import compute_routes, unpack_routes
from scribe_spark.underlay.matrices import MatrixUnderlay


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_compute_routes_equal_the_oracle(spark, seed):
    one = worlds.worlds()[seed]
    ids = np.array(one.case.routers) * 3 + 7
    links = worlds.link_frame(one.case)
    links = links.assign(src=links["src"] * 3 + 7, dst=links["dst"] * 3 + 7)
    frame = compute_routes(spark, ids, links, "delay", 1)
    assert frame.schema == schemas.ROUTES
    routers, delay_us, pred = unpack_routes(frame.toArrow())
    assert routers.tolist() == ids.tolist()
    for place, router in enumerate(one.case.routers):
        assert dict(enumerate(delay_us[place].tolist())) == one.routes.delay[router]
        before = {v: None if p < 0 else p for v, p in enumerate(pred[place].tolist())}
        assert before == one.routes.pred[router]


@pytest.mark.parametrize("chain", [2, 3, 40])
def test_a_route_too_long_for_the_matrices_is_refused(spark, chain):
    """In one hop or in several, of the core's routers or through a gateway."""
    ids = np.arange(chain) + 5
    ends = pd.DataFrame({"src": [*ids[:-1], *ids[1:]], "dst": [*ids[1:], *ids[:-1]]})
    each = 2_147_483.647 / (chain - 1)
    for delay_ms, refused in ((each + 0.001, True), (each - 0.001, False)):
        links = ends.assign(delay_ms=delay_ms, weight=1.0)
        routes = compute_routes(spark, ids, links, "delay", 1)
        if refused:
            said = f"delay_ms = '2147484 or more from router 5 to router {ids[-1]}': a route must"
            with pytest.raises(InputError, match=re.escape(said)):
                MatrixUnderlay.of(spark, routes, len(links), 500)
        else:
            MatrixUnderlay.of(spark, routes, len(links), 500).release()
