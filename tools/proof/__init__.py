# SPDX-License-Identifier: MIT
"""Runs all of Freeway's proofs and writes down what they counted: `python3 -m tools.proof`, README.md."""
