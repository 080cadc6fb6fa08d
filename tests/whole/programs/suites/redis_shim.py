# SPDX-License-Identifier: MIT
#
# redis_shim.py: redis's own test suite once more, with compat/jemalloc in the place of jemalloc, as its README.md
# recommends for redis: mallctl is Freeway's, too, and jemalloc is not loaded at all.
"""redis's own tests, on jemalloc and on Freeway with its jemalloc functions."""

from redis_runtest import suite_of
from suite import run  # it says where the others are

# isort: split
from shim import stand_in

if __name__ == "__main__":
    run(suite_of("redis_shim", 16111, stand_in))
