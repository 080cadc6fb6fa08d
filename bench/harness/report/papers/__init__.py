# SPDX-License-Identifier: MIT
"""The five papers' printed figures, beside ours: a module for each paper, the declarations' types in table.py."""

from __future__ import annotations

from harness.report.papers import hmalloc, lfmalloc, michael, nbbs, streamflow
from harness.report.papers.table import Paper

PAPERS: tuple[Paper, ...] = (michael.PAPER, lfmalloc.PAPER, streamflow.PAPER, hmalloc.PAPER, nbbs.PAPER)
