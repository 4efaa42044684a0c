"""Rounds of a living overlay: nodes arrive, leave, fail and recover; numpy kernels."""
