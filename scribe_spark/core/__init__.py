"""What every other room may use: 128-bit numbers, arrays, registries."""
