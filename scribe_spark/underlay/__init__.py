"""Unicast routing between routers: delay, nearest, packets per link."""
