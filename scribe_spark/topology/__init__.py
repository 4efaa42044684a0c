"""The router network: generated, real or the user's own.

The room exports nothing, so that Spark tasks that only need the rates of routers (`hosts`) load no
module of the config.
"""
