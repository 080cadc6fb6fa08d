# SPDX-License-Identifier: MIT
"""hold.c in Python."""

import os
import sys

held = [bytes(1000) for _ in range(8000)]
print("held", os.getpid(), flush=True)
sys.stdin.read()
