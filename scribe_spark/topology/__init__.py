"""The router network: generated, real or the user's own.

Names are loaded at their first use, so that Spark tasks that only need the rates of routers
(`hosts`) load no module of the config.
"""
