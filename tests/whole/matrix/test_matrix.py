# SPDX-License-Identifier: MIT
"""The matrix: which kernel a machine takes, which machines words name, and what becomes of the page."""

from __future__ import annotations

import re

import pytest

from tests.whole.matrix import matrix

KERNELS = ["6.1.0-50", "6.12.107+deb13", "6.19.14+deb13", "7.0.13+deb13"]
SAID = """\
== kernel {kernel}, rseq debug off
== begin glibc-2.41 threads
  path       per-CPU slabs in restartable sections, indexed by {index}
== end glibc-2.41 threads 0
== done
"""


def rows(machine: str, kernel: str, index: str = "cpu_id") -> list[matrix.Row]:
    return matrix.rows_of(machine, SAID.format(kernel=kernel, index=index))


@pytest.mark.parametrize(("number", "taken"), [("6.1", KERNELS[0]), ("6.12", KERNELS[1]), ("7.0", KERNELS[3])])
def test_a_machine_takes_its_own_kernel_only(number: str, taken: str) -> None:
    machine = matrix.machine_of(matrix.AMD64, number, "trixie")
    names = [f"linux-image-{kernel}-cloud-amd64" for kernel in KERNELS]
    assert [name for name in names if re.fullmatch(machine.package, name)] == [f"linux-image-{taken}-cloud-amd64"]


def test_words_name_machines_and_not_parts_of_their_names() -> None:
    names = [machine.name for machine, _ in matrix.chosen_machines(["amd64", "6.1", "6.12"])]
    assert names == ["amd64-6.1", "amd64-6.12"]
    assert len(matrix.chosen_machines([])) == len(matrix.MACHINES)
    with pytest.raises(SystemExit):
        matrix.chosen_machines(["6"])


def test_another_kernel_than_the_machines_is_a_fault() -> None:
    (row,) = rows("amd64-6.1", "6.19.14+deb13-cloud-amd64", "mm_cid")
    assert row.faults() == ["another kernel booted: 6.19.14+deb13-cloud-amd64"]
    (row,) = rows("amd64-6.1", "6.1.0-50-cloud-amd64")
    assert row.faults() == []


def test_the_page_keeps_what_was_not_tried() -> None:
    first = matrix.page(rows("amd64-6.1", "6.1.0-50-cloud-amd64") + rows("arm64-6.12", "6.12.9-cloud-arm64", "mm_cid"))
    again = matrix.page(rows("amd64-6.1", "6.1.0-51-cloud-amd64"), first)
    assert again == first
    assert "amd64 6.12.9" in matrix.page(rows("amd64-6.12", "6.12.9-cloud-amd64", "mm_cid"), first)
    assert matrix.lines_of(first).keys() == {"amd64-6.1", "arm64-6.12"}


def test_the_page_says_first_what_is_not_as_it_should_be() -> None:
    good = matrix.cells_of(rows("amd64-6.1", "6.1.0-50-cloud-amd64")[0])
    bad = [*good[:-1], "**fails**"]
    assert matrix.summary([good]).endswith("| amd64 6.1.0 | per-CPU, by cpu_id | 1 | nothing |")
    assert matrix.summary([good, bad]).endswith("| 2 | glibc 2.41: sections |")


def test_a_machine_that_did_not_boot_is_a_fault_and_no_row() -> None:
    first = matrix.page(rows("amd64-6.1", "6.1.0-50-cloud-amd64"))
    (row,) = matrix.rows_of("amd64-6.1", "Kernel panic")
    assert row.faults() == ["the machine did not boot"]
    assert matrix.page([row], first) == first


def test_every_machine_has_its_rows_in_the_page() -> None:
    lines = matrix.lines_of(matrix.PAGE.read_text())
    assert lines.keys() == {machine.name for machine, _ in matrix.MACHINES}
