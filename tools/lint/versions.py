# SPDX-License-Identifier: MIT
"""The version is written once, in the public header. Files that other tools read, and that need it too, agree."""

from __future__ import annotations

import re
from pathlib import Path

from tools.lint.source import Finding

HEADER = Path("include/freeway/freeway.h")
# Files, and what stands around the version there, in the first line that has it.
COPIES = (
    (Path("debian/changelog"), r"^freeway \(([\d.]+)-"),
    (Path("packaging/rust/freeway/Cargo.toml"), r'^version = "([\d.]+)"'),
    (Path("packaging/rust/freeway/Cargo.toml"), r'^freeway-sys = .*"=([\d.]+)"'),
    (Path("packaging/rust/freeway-sys/Cargo.toml"), r'^version = "([\d.]+)"'),
    (Path("docs/linking.md"), r"libfreeway\.so\.([\d.]+)-gdb\.py"),
    (Path("docs/man/freeway-jemalloc.3"), r"^\(Freeway ([\d.]+)\)"),
    *(
        (Path(file), r"^find_package\(Freeway ([\d.]+) ")  # major and minor
        for file in ("docs/linking.md", "shared/README.md", "tests/whole/install/consumer/CMakeLists.txt")
    ),
)


def version_of(header: str) -> str:
    """The version that the public header has; empty: it has none."""
    parts = dict(re.findall(r"^#define FREEWAY_VERSION_(MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))
    return ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH")) if len(parts) == 3 else ""


def check(root: Path) -> list[Finding]:
    """All copies under `root` that are another version than the header's, or gone."""
    version = version_of((root / HEADER).read_text()) if (root / HEADER).exists() else ""
    if not version:
        return [Finding(str(HEADER), 1, "no version")] if (root / HEADER).exists() else []
    findings = []
    for path, pattern in COPIES:
        if not (root / path).exists():
            continue
        text = (root / path).read_text()
        found = re.search(pattern, text, re.MULTILINE)
        if found is None:
            findings.append(Finding(str(path), 1, f"nothing like {pattern}, where the version was"))
        elif found[1] != version and not version.startswith(f"{found[1]}."):
            line = text.count("\n", 0, found.start(1)) + 1
            findings.append(Finding(str(path), line, f"version {found[1]}, but {HEADER} has {version}"))
    return findings
