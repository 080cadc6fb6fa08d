# SPDX-License-Identifier: MIT
"""A program that is run under Freeway: it allocates, frees, and has its memory given back."""

import freeway

rows = [bytearray(1000) for _ in range(100_000)]
print("loaded:", freeway.loaded(), "live:", freeway.stats()["live"])
assert freeway.loaded() and freeway.stats()["live"] > 100_000_000
del rows
print("given back:", freeway.trim(), "live:", freeway.stats()["live"])
assert freeway.stats()["live"] < 50_000_000
