# SPDX-License-Identifier: MIT
#
# php.py: the tests of the Zend engine, of the language and of the extensions that every php has, from Debian's source,
# with Debian's php. USE_ZEND_ALLOC=0 makes each of the engine's blocks one of malloc's.
"""PHP's tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import suite
from debian_source import fetch
from preload import check, need, run
from suite import FAILED, PASSED, SKIPPED, Outcomes

EXTENSIONS = ("date", "hash", "json", "pcre", "random", "reflection", "spl", "standard", "tokenizer")
FOLDERS = ("Zend/tests", "tests", *(f"ext/{name}/tests" for name in EXTENSIONS))
KEPT = ("run-tests.php", "Zend/tests", "tests", "ext")  # tests look for files of other extensions' tests
ENVIRONMENT = {"USE_ZEND_ALLOC": "0", "NO_INTERACTION": "1", "SKIP_ONLINE_TESTS": "1"}
OUTCOME_OF = {"PASSED": PASSED, "SKIPPED": SKIPPED, "XFAILED": SKIPPED}  # all others are failures
TIMEOUT_S = 3600
TEST_TIMEOUT_S = "300"
ENDS = (0, 1)  # all passed; some failed


def php() -> str:
    """Debian's interpreter for the command line."""
    return need("php", "php-cli")


def build(work: Path) -> None:
    """Only the source is needed."""
    php()
    fetch(work, "php8.2", kept=KEPT)


def outcomes(work: Path, preload: bool, names: Sequence[str] | None) -> Outcomes:
    """run-tests.php runs each test in a process of its own, two at a time; here tests are called by their files."""
    source, results = work / "source", work / "results"
    results.unlink(missing_ok=True)
    env = {**ENVIRONMENT, "TEST_PHP_EXECUTABLE": php(), "HOME": str(work)}
    options = ["-q", "-n", "-j2", "-W", str(results), "--set-timeout", TEST_TIMEOUT_S]
    argv = [php(), "run-tests.php", *options, *(names or FOLDERS)]
    ended = run(argv, preload=preload, cwd=source, env=env, timeout=TIMEOUT_S)
    said = f"run-tests.php: exit status {ended.status}\n{ended.out[-2000:]}"
    check(ended.status in ENDS and results.exists(), said)
    lines = (line.split("\t", 1) for line in results.read_text().splitlines())
    return {os.path.relpath(test, source): OUTCOME_OF.get(word, FAILED) for word, test in lines}


PHP = suite.Suite(
    "php",
    build=build,
    outcomes=outcomes,
    least=9_500,
    proves=lambda _: [php(), "-n", "-r", "echo 1;"],
)


if __name__ == "__main__":
    suite.run(PHP)
