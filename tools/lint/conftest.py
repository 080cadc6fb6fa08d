# SPDX-License-Identifier: MIT
"""Fixture of the lints' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lint.planted import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree without faults."""
    return Tree(tmp_path)
