# SPDX-License-Identifier: MIT
#
# `make peers` without the network: recipes made for this test, good ones and bad ones. A failure must be named, must
# not stop the others, and must not hide behind an earlier success.
"""Tests of bench/peers."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

SOURCE = Path(os.environ["FREEWAY_SOURCE_DIR"])
LOCKED = Path(os.environ["LOCKED_LIBRARY"])
sys.path.insert(0, str(SOURCE / "bench"))

from peers import recipes, workshop  # noqa: E402
from peers.install import install  # noqa: E402
from peers.workshop import Built, Recipe, Workshop  # noqa: E402

KEYS = {"name", "library", "version", "origin", "variables", "failed"}


class Peers(unittest.TestCase):
    """Each test installs into a folder of its own."""

    def setUp(self) -> None:
        """An empty build folder, and a file that recipes are made of."""
        self.folder = Path(tempfile.mkdtemp(prefix="freeway-peers-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.source = self.folder / "source.txt"
        self.source.write_text("1")
        self.made = 0

    def good(self, peer: Workshop) -> Built:
        """A library that is a malloc."""
        self.made += 1
        library = peer.folder / "libgood.so"
        shutil.copy(LOCKED, library)
        return Built(library, "1.2", "test", {"SOME_VARIABLE": "1"})

    def install(self, *made: Recipe, chosen: tuple[str, ...] = ()) -> tuple[dict[str, dict[str, Any]], str]:
        """The manifest by name, and what was printed."""
        with contextlib.redirect_stdout(io.StringIO()) as said:
            install(made, self.folder / "peers", list(chosen), 1)
        manifest = json.loads((self.folder / "peers/manifest.json").read_text())
        return {peer["name"]: peer for peer in manifest}, said.getvalue()

    def test_entries_have_all_keys(self) -> None:
        """Of a good one, of glibc, of a failed one."""

        def fails(_: Workshop) -> Built:
            raise workshop.RecipeError("no such thing")

        good = Recipe("good", self.good, (self.source,))
        peers, _ = self.install(Recipe("glibc", recipes.glibc), good, Recipe("bad", fails))
        self.assertEqual(list(peers), ["glibc", "good", "bad"])
        for peer in peers.values():
            self.assertEqual(set(peer), KEYS)
        self.assertIsNone(peers["glibc"]["library"])
        self.assertTrue(peers["glibc"]["version"])
        self.assertTrue(Path(peers["good"]["library"]).is_absolute())
        self.assertEqual(peers["good"]["variables"], {"SOME_VARIABLE": "1"})
        self.assertIsNone(peers["good"]["failed"])
        self.assertEqual(peers["bad"]["failed"], "no such thing")

    def test_failed_command_is_named_with_its_last_lines_and_others_go_on(self) -> None:
        """A build that fails in the middle of the list."""

        def fails(peer: Workshop) -> Built:
            peer.run("sh", "-c", "for i in $(seq 100); do echo line $i; done; echo the compiler is broken >&2; exit 3")
            raise AssertionError("unreachable")

        peers, said = self.install(Recipe("bad", fails), Recipe("good", self.good, (self.source,)))
        self.assertIn("the compiler is broken", peers["bad"]["failed"])
        self.assertIn("status 3", peers["bad"]["failed"])
        self.assertNotIn("line 50", peers["bad"]["failed"])
        self.assertIn("FAILED", said)
        self.assertIsNone(peers["good"]["failed"])

    def test_missing_program_is_named(self) -> None:
        """A tool that is not installed."""

        def fails(peer: Workshop) -> Built:
            peer.run("no-such-compiler")
            raise AssertionError("unreachable")

        peers, _ = self.install(Recipe("bad", fails))
        self.assertIn("no-such-compiler", peers["bad"]["failed"])

    def compiled(self, code: str) -> Recipe:
        """A peer whose library is this C code."""

        def make(peer: Workshop) -> Built:
            library = peer.folder / "lib.so"
            (peer.folder / "lib.c").write_text(code)
            peer.run("gcc", "-shared", "-fPIC", "-fno-builtin", "-w", peer.folder / "lib.c", "-o", library)
            return Built(library, "1", "test")

        return Recipe("bad", make, (self.source,))

    def test_library_that_is_no_malloc_is_named(self) -> None:
        """The preload works, but malloc stays glibc's."""
        peers, _ = self.install(self.compiled("int nothing;"))
        self.assertIn("malloc comes from", peers["bad"]["failed"])

    def test_library_under_which_programs_crash_is_named(self) -> None:
        """Every allocation is refused."""
        code = """#include <stddef.h>
        void* malloc(size_t n) { return NULL; } void free(void* p) {} void* calloc(size_t a, size_t b) { return NULL; }
        void* realloc(void* p, size_t n) { return NULL; } void* aligned_alloc(size_t a, size_t n) { return NULL; }"""
        peers, _ = self.install(self.compiled(code))
        self.assertIn("a small program failed under it", peers["bad"]["failed"])

    def test_what_is_there_is_not_built_again(self) -> None:
        """Nor fetched: the recipe is not called. A changed input calls it."""
        good = Recipe("good", self.good, (self.source,))
        first, _ = self.install(good)
        second, _ = self.install(good)
        self.assertEqual((self.made, first), (1, second))
        self.source.write_text("2")
        self.install(good)
        self.assertEqual(self.made, 2)

    def test_library_that_was_spoiled_is_named(self) -> None:
        """It was built and proven, then replaced by something else: proven again each time."""
        good = Recipe("good", self.good, (self.source,))
        self.install(good)
        (self.folder / "peers/good/libgood.so").write_text("not a library")
        peers, _ = self.install(good)
        self.assertIsNotNone(peers["good"]["failed"])

    def test_chosen_ones_leave_the_others_entries(self) -> None:
        """install.py NAME."""
        one, two = (Recipe(name, self.good, (self.source,)) for name in ("one", "two"))
        self.install(one, two)
        peers, _ = self.install(one, two, chosen=("two",))
        self.assertEqual((list(peers), self.made), (["one", "two"], 2))

    def test_unpinned_or_unlocked_sources_are_a_fault(self) -> None:
        """Each crate is pinned to one version, which Cargo.lock has with a checksum."""
        for manifest in sorted((SOURCE / "bench/peers/crates").glob("*/Cargo.toml")):
            pinned = [line.split(" = ") for line in manifest.read_text().splitlines() if ' = "=' in line]
            self.assertEqual(len(pinned), 1, manifest)
            crate, version = pinned[0][0], pinned[0][1].strip('"=')
            lock = manifest.with_name("Cargo.lock").read_text()
            found = lock.partition(f'name = "{crate}"\nversion = "{version}')[2].partition("[[package]]")[0]
            self.assertRegex(found, r'checksum = "[0-9a-f]{64}"')

    def test_names_are_the_reports(self) -> None:
        """Reports and targets use these names."""
        wanted = (
            "glibc locked mimalloc-2.0 jemalloc-5.3.0 tcmalloc-2.10 tbbmalloc mimalloc2 mimalloc3 snmalloc jemalloc"
        )
        hardened = ("scudo", "scudo-quarantine", "mimalloc3-secure", "snmalloc-checks")
        profiling = ("jemalloc-prof", "tcmalloc-2.10-prof")
        names = [recipe.name for recipe in recipes.RECIPES]
        self.assertEqual(names, [*wanted.split(), "rpmalloc", "tcmalloc", *hardened, *profiling])

    def test_python_runs_under_locked(self) -> None:
        """An interpreter, its modules, and a child."""
        code = "import json, subprocess; print(json.dumps([str(i) * 100 for i in range(20000)])[-5:]); "
        code += "subprocess.run(['true'], check=True)"
        done = subprocess.run(
            ["/usr/bin/python3", "-c", code],
            env={**os.environ, "LD_PRELOAD": str(LOCKED), "PYTHONMALLOC": "malloc"},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '999"]\n', ""))


if __name__ == "__main__":
    unittest.main()
