# SPDX-License-Identifier: MIT
"""The allocators that Freeway is compared with: how they are made, and the proof that they work."""
