"""128-bit numbers, arrays and registries for all other packages."""
