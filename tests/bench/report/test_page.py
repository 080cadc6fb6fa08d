# SPDX-License-Identifier: MIT
"""The page: whole, self-contained, and there even when little was measured."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from harness.report import make_report, page, readme_table
from harness.report.measured import Measured
from harness.results import CRASHED, HUNG, WRONG_CHECKSUM, AllocatorRecord, Count, ResultsError
from synthetic import RUN_ID, run_line, sample, write

Make = Callable[[Iterable], Measured]
VOID = {"meta", "br", "link", "img", "hr", "input", "col"}
FOUR = ("freeway", "glibc", "mimalloc3", "michael")


class Checker(HTMLParser):
    """Tags must be balanced, ids unique, links to places of the page must lead somewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._attributes(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(tag, attrs)

    def _attributes(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "data", "poster", "srcset"):
                (self.links if (value or "").startswith("#") else self.loads).append(value or "")
        if tag == "svg" and not dict(attrs).get("aria-label"):
            self.faults.append("a drawing without words")
        if tag == "script":
            self.faults.append("a script")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-3:]} in line {self.getpos()[0]}")
        else:
            self.open.pop()

    def verdict(self) -> list[str]:
        """Everything that is wrong."""
        twice = sorted({each for each in self.ids if self.ids.count(each) > 1})
        lost = sorted({link for link in self.links if link[1:] not in self.ids})
        named = {"open": self.open, "twice": twice, "lost": lost, "loads": self.loads}
        return self.faults + [f"{what}: {which}" for what, which in named.items() if which]


def some_lines() -> list:
    """Few workloads of each kind, with every way to fail."""
    records = tuple(AllocatorRecord(name, f"lib{name}.so", "1.2.3") for name in FOUR)
    absent = AllocatorRecord("snmalloc", None, "", failed="not built: <no compiler>")
    run = run_line(["lifo", "spill-16-in", "larson-michael", "batch"], repeats=2, allocators=())
    lines = [type(run)(**{**vars(run), "allocators": (*records, absent)})]
    curve = tuple((at / 10, 1000 * at) for at in range(1, 200))
    for repeat in (0, 1):
        for place, name in enumerate(FOUR, 1):
            lines.append(sample("lifo", name, repeat, 5 * place, rss=curve))
            lines.append(sample("spill-16-in", name, repeat, place, alloc_ns=7 * place, free_ns=3.0))
            for threads in (1, 2, 16):
                ns = place * threads
                lines.append(sample("larson-michael", name, repeat, ns, threads=threads, heap_kib=900, rss=curve))
    lines.append(sample("lifo", "glibc", 1, 0, status=CRASHED, detail="signal 11 (SIGSEGV)"))
    lines.append(sample("lifo", "mimalloc3", 1, 0, status=HUNG, detail="stopped after 300 s"))
    lines.append(sample("spill-16-in", "michael", 1, 0, status=WRONG_CHECKSUM, detail="1 <> 2"))
    lines.append(Count(RUN_ID, "malloc(32) + free", "freeway", 33.0, None, "callgrind"))
    lines.append(Count(RUN_ID, "local_pair", "michael", None, 3.0, "counted build"))
    return lines


def test_the_page_is_balanced_and_loads_nothing(measured: Make) -> None:
    text = page.html(measured(some_lines()))
    assert Checker(text).verdict() == []
    assert not re.search(r"@import|url\(", text)


def test_the_checker_would_notice() -> None:
    assert Checker('<p><b></p><img src="https://a/b"><a href="#x">').verdict() != []
    assert any("loads" in fault for fault in Checker('<img src="https://a/b">').verdict())
    assert any("lost" in fault for fault in Checker('<a href="#x"></a>').verdict())


def test_every_workload_and_every_failure_is_named(measured: Make) -> None:
    text = page.html(measured(some_lines()))
    for name in ("lifo", "spill-16-in", "larson-michael", "batch"):
        assert f'id="w-{name}"' in text
    for words in ("crashed", "signal 11 (SIGSEGV)", "hung", "stopped after 300 s", "wrong-checksum", "1 &lt;&gt; 2"):
        assert words in text
    assert "not built: &lt;no compiler&gt;" in text
    assert "no sample of: batch" in text
    assert text.count("<svg") == 1 + 2 + 1 + 3  # means; lifo and its memory; spill; larson twice and its memory


def test_what_was_measured_stands_beside_the_papers_figures(measured: Make) -> None:
    text = page.html(measured(some_lines()))
    table = text[text.index("Table 1: Speed-up over libc") :]
    assert "2.25" in table[:4000]
    row = re.search(r'<th scope="row">Larson</th>.*?</tr>', text[text.index("Maximum space, 16 threads") :])
    assert "3.83 ×" in row[0]
    assert "1.00 ×" in row[0]  # heap_kib is the same under all
    locked = re.search(r'<th scope="row">locked instructions a pair</th>.*?</tr>', text)
    assert "3</td>" in locked[0]
    assert "not measured" in locked[0]  # the flagship's was not counted


@pytest.mark.parametrize("samples", [0, 1])
def test_an_interrupted_run_gives_a_page(tmp_path: Path, samples: int) -> None:
    lines = [run_line(["lifo", "larson-michael"], FOUR), *[sample("lifo", "glibc", 0, 5)] * samples]
    results = write(tmp_path / "results.jsonl", lines)
    make_report(results, tmp_path / "report.html", tmp_path / "report.md")
    text = (tmp_path / "report.html").read_text()
    assert Checker(text).verdict() == []
    assert "not measured" in text
    assert "not measured" in (tmp_path / "report.md").read_text()
    assert readme_table(results)


def test_an_empty_file_gives_a_page(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    results.touch()
    make_report(results, tmp_path / "deep/report.html", tmp_path / "report.md")
    text = (tmp_path / "deep/report.html").read_text()
    assert Checker(text).verdict() == []
    assert "nothing was measured" in text


def test_workloads_that_the_catalogue_no_longer_has_are_shown(measured: Make) -> None:
    text = page.html(
        measured([run_line(["gone"], FOUR), sample("gone", "freeway", 0, 5), sample("gone", "glibc", 0, 9)])
    )
    assert 'id="w-gone"' in text
    assert "no longer in the catalogue" in text


def test_a_machine_is_described_once_and_counts_are_no_suite(measured: Make) -> None:
    counting = run_line((), FOUR, suite="count", repeats=0, id="2030-01-03T00:00:00+00:00")
    other = run_line(["lifo"], FOUR, machine={"model": "Another CPU", "cpus": 64}, id="2030-01-04T00:00:00+00:00")
    text = page.html(measured([*some_lines(), counting, other]))
    assert text.count("A made-up CPU, 2 CPUs") == 1
    assert "begun 2030-01-02 03:04 UTC" in text
    assert "Counts of 2030-01-03 00:00 UTC." in text
    assert "Another CPU, 64 CPUs, ? MiB" in text
    assert "2 different machines" in text


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot read"):
        make_report(tmp_path / "none.jsonl", tmp_path / "report.html")
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b"x" * 1000)[:-12])
    with pytest.raises(ResultsError, match="cannot read"):
        make_report(cut, tmp_path / "report.html")


def test_text_from_results_is_escaped(measured: Make) -> None:
    lines = [
        run_line(["lifo"], FOUR),
        sample("lifo", "freeway", 0, 5, status=CRASHED, detail="<script>alert(1)</script>"),
    ]
    assert "<script" not in page.html(measured(lines))
