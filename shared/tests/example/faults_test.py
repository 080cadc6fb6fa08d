# SPDX-License-Identifier: MIT
"""Faults planted in a copy of shared/example/cache.h: shared_cache_steps_test.cc, built with it, must fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
EXAMPLE = SOURCE / "shared/example"
LIBRARY = Path(os.environ["SHARED_HEAP"])
SECONDS = 900

# What it is about: the text, and what replaces it. Found where a worker is killed ...
FAULTS = {
    "who replaces a bucket does not say that it was seen": (
        "      if (found.at != 0) store(bucket(found.at)->seen, 1);\n",
        "",
    ),
    "the bucket that is being put is not protected": (
        "      atomic(record_.hazards[kOfFresh]).store(record_.fresh_bucket, std::memory_order_seq_cst);\n",
        "",
    ),
    "a CAS that has happened is not found out": (
        "    if (load(record_.step) == kTrying && was_put()) store(record_.step, kDone);\n",
        "",
    ),
    "a CAS counts as done before it was": ("== kTrying && was_put())", "== kTrying)"),
    "what was replaced is not taken over": (
        "    if (load(record_.step) == kDone) finish();\n    give_up",
        "    give_up",
    ),
    "what nobody has seen is not freed": ("finish();\n    give_up();\n    forget", "finish();\n    forget"),
    "idle before what was replaced is in the limbo": (
        "    store(record_.limbo[record_.bucket_place], record_.old_bucket);\n",
        "    store(record_.step, kIdle);\n    store(record_.limbo[record_.bucket_place], record_.old_bucket);\n",
    ),
    "the fresh bucket is forgotten before the CAS counts as done": (
        "        store(record_.step, kDone);\n        finish",
        "        store(record_.fresh_bucket, 0);\n        store(record_.step, kDone);\n        finish",
    ),
}

# ... and where it is stopped and overtaken.
FAULTS_AMONG_OTHERS = {
    "a bucket counts as protected though it may have been replaced before": (
        "      if (atomic(head).load(std::memory_order_seq_cst) == at) return at;  ",
        "      return at;  ",
    ),
    "an entry counts as protected though its bucket may have been replaced before": (
        "        changed = atomic(head).load(std::memory_order_seq_cst) != at;",
        "        changed = false;",
    ),
    "an entry that is read is not protected": (
        "        atomic(record_.hazards[kOfEntry]).store(now.items[i].entry, std::memory_order_seq_cst);",
        "",
    ),
    "a bucket that is read is not protected": (
        "      atomic(record_.hazards[hazard]).store(at, std::memory_order_seq_cst);",
        "",
    ),
    "others' hazards are not looked at": ("(Word w = 0; w < header_.workers", "(Word w = 1; w < header_.workers"),
}


class Faults(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="freeway-faults-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        shutil.copy(EXAMPLE / "freeway_heap.h", self.folder)
        shutil.copy(SOURCE / "shared/tests/example/shared_cache_steps_test.cc", self.folder)

    def status(self, cache: str, *how: str) -> int:
        """Of the test with this cache.h."""
        (self.folder / "cache.h").write_text(cache)
        flags = ["-std=c++20", "-O2", f"-I{SOURCE / 'include'}", "-Wl,-z,now", f"-Wl,-rpath,{LIBRARY.parent}"]
        program = self.folder / "steps"
        compiler = os.environ.get("CXX", "c++")
        source = self.folder / "shared_cache_steps_test.cc"
        subprocess.run([compiler, *flags, source, LIBRARY, "-o", program], check=True)
        return subprocess.run([program, "1", *how], capture_output=True, timeout=SECONDS, check=False).returncode

    def test_each_is_found(self) -> None:
        right = (EXAMPLE / "cache.h").read_text()
        for faults, how in ((FAULTS, []), (FAULTS_AMONG_OTHERS, ["stopped"])):
            self.assertEqual(self.status(right, *how), 0)
            for name, (text, replacement) in faults.items():
                with self.subTest(name):
                    self.assertEqual(right.count(text), 1, "its text is not there once")
                    self.assertNotEqual(self.status(right.replace(text, replacement), *how), 0)


if __name__ == "__main__":
    unittest.main()
