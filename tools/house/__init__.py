# SPDX-License-Identifier: MIT
"""Lints for rules of this repository that no compiler checks. See README.md."""
