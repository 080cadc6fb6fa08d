# SPDX-License-Identifier: MIT
"""What there is to run: a module for each group, each with a tuple WORKLOADS."""
