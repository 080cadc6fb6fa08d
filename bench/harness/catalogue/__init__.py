# SPDX-License-Identifier: MIT
"""What there is to run: a module for each group, each with a tuple WORKLOADS."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from harness.workload import Workload


@cache
def workloads() -> dict[str, Workload]:
    """Every declared workload by name; ValueError if two have the same."""
    found: dict[str, Workload] = {}
    for module in pkgutil.iter_modules(__path__):
        for workload in importlib.import_module(f"{__name__}.{module.name}").WORKLOADS:
            if workload.name in found:
                raise ValueError(f"two workloads are called '{workload.name}'")
            found[workload.name] = workload
    return found
