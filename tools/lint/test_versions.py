# SPDX-License-Identifier: MIT
"""Planted faults that the lint of versions must find."""

from __future__ import annotations

import pytest

from tools.lint import versions
from tools.lint.planted import Tree

DEFINES = "".join(f"#define FREEWAY_VERSION_{part} {n}\n" for part, n in (("MAJOR", 1), ("MINOR", 2), ("PATCH", 30)))


@pytest.fixture
def header(tree: Tree) -> Tree:
    """A tree whose version is 1.2.30."""
    tree.write(versions.HEADER, DEFINES)
    return tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in versions.check(tree.root)]


def test_the_version_is_read_from_the_header() -> None:
    assert versions.version_of(DEFINES) == "1.2.30"
    assert versions.version_of("#define FREEWAY_VERSION_MAJOR 1\n") == ""


def test_copies_that_agree_are_accepted(header: Tree) -> None:
    header.write("debian/changelog", "freeway (1.2.30-0upstream1) unstable\nfreeway (1.2.29-0upstream1) unstable\n")
    assert messages(header) == []


def test_another_version_is_found(header: Tree) -> None:
    header.write("packaging/rust/freeway-sys/Cargo.toml", '[package]\nname = "x"\nversion = "1.2.3"\n')
    (message,) = messages(header)
    assert message.startswith("packaging/rust/freeway-sys/Cargo.toml:3: version 1.2.3, but")


def test_a_place_that_lost_its_version_is_found(header: Tree) -> None:
    header.write("docs/man/freeway-jemalloc.3", "nothing\n")
    (message,) = messages(header)
    assert "where the version was" in message


def test_major_and_minor_version_are_enough_for_cmake(header: Tree) -> None:
    header.write("shared/README.md", "find_package(Freeway 1.2 REQUIRED)\n")
    assert messages(header) == []
    header.write("shared/README.md", "find_package(Freeway 1.1 REQUIRED)\n")
    (message,) = messages(header)
    assert message.startswith("shared/README.md:1: version 1.1, but")


def test_a_header_without_version_is_found(tree: Tree) -> None:
    tree.write(versions.HEADER, "int main;\n")
    assert messages(tree) == ["include/freeway/freeway.h:1: no version"]
