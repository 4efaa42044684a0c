"""The tables that round 0 of a run leaves: of guests, and of publications along one tree."""

from bayeux_played import run_of
from oracle.bayeux.cases import random_bayeux


def test_guests_have_no_deliveries():
    """A source that joins only to publish is no receiver of another source's publication."""
    columns = "group", "node", "hops", "delay_us"
    every = run_of(random_bayeux(0), 2).rows("deliveries", *columns)
    guest = every[0][:2]
    rest = run_of(random_bayeux(0), 2, guests=[guest]).rows("deliveries", *columns)
    assert rest == [row for row in every if row[:2] != guest]
