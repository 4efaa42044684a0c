"""Unicast routing between routers: delay, nearest router, packets per link."""
