# SPDX-License-Identifier: MIT
"""What a run left: figures that tests wrote (tests/support/proof.h), and ctest's own account of the tests."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path

ENGINES = ("michael", "lfmalloc", "streamflow", "hmalloc", "nbbs")
_ENGINE = re.compile(rf"(?:^|_)({'|'.join(ENGINES)})(?=[-_.])")
_MODE = re.compile(r"\.(rseq|no-rseq)$")


@dataclass(frozen=True)
class Figure:
    """A count, added up over all that one test wrote about the same thing."""

    area: str
    subject: str
    what: str
    test: str
    value: int
    most: bool = False  # the largest of what was written, not the sum

    @property
    def engine(self) -> str:
        """The paper engine that the test is about; empty: Freeway's own."""
        found = _ENGINE.search(self.test)
        return found[1] if found else ""

    @property
    def mode(self) -> str:
        """`rseq`, `no-rseq`, `hardened`, or empty for a test that knows no modes."""
        found = _MODE.search(self.test)
        return found[1] if found else "hardened" if "_harden" in self.test else ""


@dataclass
class Step:
    """One call of ctest."""

    name: str
    seconds: float
    passed: int = 0
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)  # failed at first, and were run again
    why: dict[str, str] = field(default_factory=dict)  # of these, why; written by hand into what is kept


@dataclass
class Run:
    """A whole run."""

    begun: str
    machine: str
    steps: list[Step]
    figures: list[Figure]
    commit: str = ""  # of the checkout; older runs do not say

    @property
    def seconds(self) -> float:
        """Wall time of all steps, without building."""
        return sum(step.seconds for step in self.steps)

    @property
    def failed(self) -> list[str]:
        """Names of the tests that failed."""
        return [name for step in self.steps for name in step.failed]

    @property
    def unexplained(self) -> list[str]:
        """Names of the tests that failed at first, and nobody has said why."""
        return [name for step in self.steps for name in step.again if not step.why.get(name)]

    def with_again(self, again: Run) -> Run:
        """The same run of one step after its failed tests were run again, which is `again`."""
        (before,), (now,) = self.steps, again.steps
        step = Step(
            before.name,
            round(before.seconds + now.seconds, 1),
            before.passed + now.passed,
            before.skipped + now.skipped,
            now.failed,
            sorted({*before.again, *before.failed}),
        )
        kept = [figure for figure in self.figures if figure.test not in before.failed]
        return Run(self.begun, self.machine, [step], kept + again.figures, self.commit)

    def save(self, path: Path) -> None:
        """Writes the run as JSON, a figure a line (Figure's fields), so that two runs can be compared as text."""
        steps = [asdict(step) for step in self.steps]
        head = {"begun": self.begun, "machine": self.machine, "commit": self.commit, "steps": steps}
        lines = [json.dumps(astuple(figure)) for figure in self.figures]
        text = json.dumps(head, indent=1)[:-2] + ',\n "figures": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
        path.write_text(text)

    @staticmethod
    def load(path: Path) -> Run:
        """Reads what save wrote."""
        data = json.loads(path.read_text())
        return Run(
            data["begun"],
            data["machine"],
            [Step(**step) for step in data["steps"]],
            [Figure(*figure) for figure in data["figures"]],
            data.get("commit", ""),
        )


def read_figures(path: Path) -> list[Figure]:
    """Reads and adds up the lines of a figures file, in the order of their first appearance.

    Raises ValueError for a line that is not a figure: a test that was killed while writing, or writes nonsense.
    """
    sums: dict[tuple[str, str, str, str, bool], int] = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        try:
            entry = json.loads(line)
            most = "most" in entry
            value = int(entry["most" if most else "count"])
            key = (entry["area"], entry["subject"], entry["what"], entry["test"], most)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a figure: {line!r}") from error
        sums[key] = max(sums.get(key, 0), value) if most else sums.get(key, 0) + value
    return [Figure(area, subject, what, test, value, most) for (area, subject, what, test, most), value in sums.items()]


def read_junit(path: Path, step: Step) -> None:
    """Adds ctest's results (--output-junit) to `step`."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        match case.get("status"):
            case "run":
                step.passed += 1
            case "notrun" | "disabled":
                step.skipped.append(case.get("name", ""))
            case _:
                step.failed.append(case.get("name", ""))
