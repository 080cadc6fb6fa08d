# SPDX-License-Identifier: MIT
"""The laboratory: runs workloads under several allocators and reports what it measured. `bench/lab` is its command."""
