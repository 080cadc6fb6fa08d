# SPDX-License-Identifier: MIT
"""How the house stands: its figures, measured, and their limits."""
