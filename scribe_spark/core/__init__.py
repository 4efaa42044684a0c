"""128-bit numbers, arrays and registries, which every other room may use."""
