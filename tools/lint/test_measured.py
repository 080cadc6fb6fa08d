# SPDX-License-Identifier: MIT
"""Changes that the lint of measured figures must find, changes that cannot matter, and what its command writes."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable

import pytest

from tools.lint import measured
from tools.lint.planted import Tree

FAST_PATH, WORKLOAD, SUITE = (
    "src/malloc/x86_64/fast_path.S",
    "bench/workloads/today/lifo.cc",
    "bench/harness/catalogue/today.py",
)
TODAY = measured.SETS["today"]
PROMISE = "| `malloc` | wait-free | 16 [fast] | `tests/abi/a_test.cc` |"
COMMIT = "0123abcd"
PAGE = "# Benchmarks\n\n- Suite *today*, begun 2026-01-02 03:04 UTC. Measured at commit 0123abcd.\n"
Command = Callable[..., int]


def results(tree: Tree, begun: str = "2026-01-02T03:04:05+00:00", commit: str = "") -> None:
    head = {"kind": "run", "id": begun} | ({"commit": commit} if commit else {})
    text = json.dumps(head, separators=(",", ":")) + '\n{"kind":"sample"}\n'
    path = tree.root / TODAY.source
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))


@pytest.fixture
def command(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`python3 -m tools.lint.measured` in the tree."""

    def call(*words: str) -> int:
        monkeypatch.chdir(tree.root)
        monkeypatch.setattr(sys, "argv", ["tools.lint.measured", *words])
        return measured.main()

    return call


@pytest.fixture
def kept(tree: Tree, command: Command, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A tree with two sets of figures, of today's suite and of a proof."""
    monkeypatch.setattr(measured, "SETS", {name: measured.SETS[name] for name in ("today", "proof")})
    tree.source(FAST_PATH, "mov rax, rbx // a copy\nret\n")
    tree.write("tests/whole/golden/fast_path.json", '{"x86_64": {"malloc": 16}}\n')
    tree.source(WORKLOAD, "int main() {\n  return 0;\n}\n")
    tree.source("bench/workloads/support/measure.h", "int measure();\n")
    tree.write(SUITE, "WORKLOADS = (1, 2)\n")
    tree.write("GUARANTEES.md", f"# Guarantees\n\nProse.\n\n{PROMISE}\n")
    tree.write("docs/proof.json", '{"begun": "2026-01-03 04:05 UTC"}')
    tree.write("docs/proof.md", "Begun 2026-01-03 04:05 UTC; a machine. Run at commit 89abcdef.\n")
    tree.write("docs/benchmarks.md", PAGE)
    tree.write("README.md", "Measured at commit\n0123abcd, in a quiet hour.\n")
    results(tree)
    assert command("again", "today", "--commit", COMMIT) == 1  # the proof is not there yet
    assert command("again", "proof", "--commit", "89abcdef") == 0
    return tree


def messages(tree: Tree) -> list[str]:
    return [str(finding) for finding in measured.check(tree.root)]


def test_what_has_not_changed_is_accepted(kept: Tree) -> None:
    assert messages(kept) == []


def test_a_tree_without_figures_is_accepted(tree: Tree) -> None:
    assert messages(tree) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (FAST_PATH, "mov rax,   rbx\n\n    ret // to the caller\n"),
        ("tests/whole/golden/fast_path.json", '{\n "x86_64": {"malloc":   16}}'),
        (WORKLOAD, "// Does nothing.\nint main() { return 0; /* well */ }\n"),
        (SUITE, "# Two.\nWORKLOADS = (\n    1,\n    2,\n)\n"),
        ("bench/workloads/today/README.md", "What it does.\n"),
        ("GUARANTEES.md", f"Other prose.\n{PROMISE.replace('tests/abi/a_test.cc', 'tests/malloc/b_test.cc')}\n"),
    ],
)
def test_a_change_that_cannot_matter_is_accepted(kept: Tree, path: str, text: str) -> None:
    kept.source(path, text) if path.endswith((".S", ".cc")) else kept.write(path, text)
    assert messages(kept) == []


@pytest.mark.parametrize(
    ("path", "text", "pages"),
    [
        (FAST_PATH, "mov rax, rcx\nret\n", {"README.md", "docs/benchmarks.md", "docs/proof.md"}),
        (
            "tests/whole/golden/fast_path.json",
            '{"x86_64": {"malloc": 17}}',
            {"README.md", "docs/benchmarks.md", "docs/proof.md"},
        ),
        (WORKLOAD, "int main() { return 1; }\n", {"README.md", "docs/benchmarks.md"}),
        ("bench/workloads/today/new.cc", "int main() {}\n", {"README.md", "docs/benchmarks.md"}),
        ("bench/workloads/support/plan.h", "int steps = 1;\n", {"README.md", "docs/benchmarks.md"}),
        (SUITE, "WORKLOADS = (1, 3)\n", {"README.md", "docs/benchmarks.md"}),
        ("GUARANTEES.md", PROMISE.replace("wait-free", "lock-free"), {"docs/proof.md"}),
    ],
)
def test_a_change_is_found_on_each_page_until_it_says_so(
    kept: Tree, command: Command, path: str, text: str, pages: set[str]
) -> None:
    kept.write(path, text)
    found = messages(kept)
    assert {message.split(":")[0] for message in found} == pages
    assert all("tools.lint.measured" in message for message in found)
    assert command("older") == 0
    assert messages(kept) == []
    for page in pages:
        assert "changed since" in (kept.root / page).read_text()
    for page in {"README.md", "docs/benchmarks.md", "docs/proof.md"} - pages:
        assert "changed since" not in (kept.root / page).read_text()


def test_a_file_that_is_gone_is_found_also_where_figures_are_older(kept: Tree, command: Command) -> None:
    kept.write(FAST_PATH, "ret\n")
    assert command("older") == 0
    (kept.root / FAST_PATH).unlink()
    (message,) = messages(kept)
    assert FAST_PATH in message


def test_what_is_known_to_be_older_may_change_again(kept: Tree, command: Command) -> None:
    for count in (17, 18):
        kept.write("tests/whole/golden/fast_path.json", json.dumps({"x86_64": {"malloc": count}}))
        assert command("older") == 0
    kept.write("tests/whole/golden/fast_path.json", "{}")
    assert messages(kept) == []
    assert "commit 0123abcd; the fast path has changed since, in a" in (kept.root / "README.md").read_text()


def test_what_cannot_matter_may_be_declared_so_but_not_what_is_known_to_be_older(kept: Tree, command: Command) -> None:
    kept.write(SUITE, "WORKLOADS = (1, 3)\n")
    assert command("older", "today") == 0
    kept.write(FAST_PATH, "ret\n")
    assert command("same") == 0
    text = (kept.root / "README.md").read_text()
    assert "the workloads of today have changed since" in text
    assert "fast path" not in text


def test_measured_again_pages_say_the_new_commit_alone(kept: Tree, command: Command) -> None:
    kept.write(FAST_PATH, "ret\n")
    assert command("older") == 0
    results(kept, commit="fedcba98")
    assert command("again", "today") == 0
    for page in ("README.md", "docs/benchmarks.md"):
        text = (kept.root / page).read_text()
        assert "commit fedcba98" in text
        assert COMMIT not in text
        assert "changed since" not in text


def test_results_of_another_run_are_found(kept: Tree) -> None:
    results(kept, begun="2026-02-02T00:00:00+00:00")
    (message,) = messages(kept)
    assert message.startswith(f"{TODAY.source}:1: the run of 2026-02-02")


@pytest.mark.parametrize(
    "text", ["", PAGE.replace("0123abcd", "76543210"), PAGE.replace("abcd.", "abcd; the promises have changed since.")]
)
def test_a_page_that_says_another_commit_or_no_or_too_much_is_found(kept: Tree, text: str) -> None:
    kept.write("docs/benchmarks.md", text)
    (message,) = messages(kept)
    assert message.startswith("docs/benchmarks.md:")
    assert 'does not say "commit 0123abcd" of today' in message


def test_sets_of_one_commit_on_one_page_are_told_apart(kept: Tree, command: Command) -> None:
    other = "- Suite *real*, begun 2026-01-01 01:01 UTC. Measured at commit 0123abcd.\n"
    kept.write("docs/benchmarks.md", PAGE + other)
    kept.write(FAST_PATH, "ret\n")
    assert command("older") == 0
    assert other in (kept.root / "docs/benchmarks.md").read_text()
