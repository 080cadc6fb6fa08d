# SPDX-License-Identifier: MIT
"""What the report's tests share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import synthetic
from harness.report.measured import Measured, load
from harness.results import Count, Run, Sample


@pytest.fixture
def measured(tmp_path: Path) -> Callable[[Iterable[Run | Sample | Count]], Measured]:
    """Makes results of lines, by way of a file."""

    def make(lines: Iterable[Run | Sample | Count]) -> Measured:
        return Measured(load([synthetic.write(tmp_path / "results.jsonl", lines)]))

    return make
