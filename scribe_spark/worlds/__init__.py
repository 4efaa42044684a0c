"""Worlds: overlays whose nodes arrive, leave, fail and recover in rounds, with their groups.

The room exports nothing, so that the tasks of a world do not import the modules of the config.
"""
