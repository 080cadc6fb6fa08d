# SPDX-License-Identifier: MIT
"""The command line of bench/lab."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness import fragmentation
from harness.allocators import ROOT, known_allocators
from harness.catalogue import workloads
from harness.compare import Difference, Side, differences, drift, mean_of
from harness.count import CountError, instruction_counts, rmw_counts
from harness.machine import commit, facts
from harness.measure import ALL, CHOSEN, Request, default_limits, run
from harness.plan import SUITES
from harness.results import ResultsError, Run, Writer, read
from harness.runner import NOISE_RETRIES
from harness.sampling import Bench
from harness.statistics import geomean
from harness.terminal import number, ratio_text

RESULTS = ROOT / "build/lab"
COUNTS = "counts.jsonl"


def positive(text: str) -> int:
    """A whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def newest() -> Path:
    """The results file that was written last."""
    files = [path for path in RESULTS.glob("*.jsonl") if path.name != COUNTS]
    found = sorted(files, key=lambda path: path.stat().st_mtime)
    if not found:
        raise ResultsError(f"no results in {RESULTS}: `lab run` makes some")
    return found[-1]


def wide_console() -> Console:
    """Standard output; wide enough not to wrap when it is a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=200)


def run_command(options: argparse.Namespace) -> int:
    """lab run"""
    suite = options.suite or (CHOSEN if options.only else "quick")
    minutes, timeout_s = default_limits(suite)
    minutes = options.time_limit if options.time_limit is not None else minutes
    output = options.output or RESULTS / f"{suite}.jsonl"
    request = Request(
        build=options.build.resolve(),
        output=output,
        suite=suite,
        only=options.only,
        allocators=options.allocators,
        repeats=options.repeat,
        shrink=options.shrink,
        minutes=minutes,
        timeout_s=options.timeout or timeout_s,
        retries=options.noise_retries,
        resume=options.resume,
        nice=not options.no_nice,
    )
    return run(request)


def compare_command(options: argparse.Namespace) -> int:
    """lab compare"""
    a, b = Side.parse(options.a), Side.parse(options.b)
    found = differences(a, b)
    if not found:
        raise ResultsError("the two have no workload and allocator in common")
    console = wide_console()
    table = Table(title=f"{options.b} / {options.a}: above 1, the second costs more", title_justify="left")
    for heading in ("workload", "figure", "allocator", "ratio (95 % interval)", ""):
        table.add_column(heading)
    shown = [each for each in found if not options.beyond_noise or each.ratio.differs]
    for each in shown:
        who = each.b if each.a == each.b else f"{each.b} / {each.a}"
        mark = {"B costs more": "red", "B costs less": "green"}.get(each.verdict, "dim")
        table.add_row(
            str(each.case), each.metric.label, who, ratio_text(each.ratio), f"[{mark}]{each.verdict}[/{mark}]"
        )
    console.print(table)
    _print_means(console, found)
    if (shift := drift(a, b)) is not None:
        console.print(f"glibc itself: {shift:.3f}; as much of each ratio is the machine, not the allocator")
    return 0


def _print_means(console: Console, found: Sequence[Difference]) -> None:
    for pair in dict.fromkeys((each.a, each.b) for each in found):
        mine = [each for each in found if (each.a, each.b) == pair]
        name = pair[0] if pair[0] == pair[1] else f"{pair[1]} / {pair[0]}"
        means = [(label, mean_of(mine, timing)) for label, timing in (("time", True), ("peak RSS", False))]
        text = ", ".join(f"{label} {ratio:.3f}" for label, ratio in means if ratio is not None)
        beyond = sum(each.ratio.differs for each in mine)
        console.print(f"{name}: geometric means: {text}; {beyond} of {len(mine)} figures beyond noise")


def list_command(options: argparse.Namespace) -> int:
    """lab list"""
    console = wide_console()
    bench = Bench(options.build.resolve())
    table = Table(title="Workloads", title_justify="left")
    for heading in ("name", "suites", "groups", "paper", "threads", "what", ""):
        table.add_column(heading)
    for workload in workloads().values():
        threads = ",".join(map(str, workload.threads))
        built = "" if bench.program(workload).exists() else "[red]not built[/red]"
        paper = f"{workload.paper} {workload.item}".strip()
        what = workload.what or workload.metrics[0].label
        table.add_row(workload.name, " ".join(workload.suites), " ".join(workload.groups), paper, threads, what, built)
    console.print(table)
    table = Table(title="Suites", title_justify="left")
    for heading in ("suite", "repeats", "what", "allocators"):
        table.add_column(heading)
    for suite in SUITES.values():
        table.add_row(suite.name, str(suite.repeats), suite.what, " ".join(suite.allocators))
    console.print(table)
    table = Table(title="Allocators", title_justify="left")
    for heading in ("name", "version", "library", ""):
        table.add_column(heading)
    for allocator in known_allocators(options.build.resolve()).values():
        library = allocator.library.name if allocator.library else ""
        table.add_row(allocator.name, allocator.version, library, f"[red]{allocator.failed or ''}[/red]")
    console.print(table)
    return 0


def count_command(options: argparse.Namespace) -> int:
    """lab count"""
    build = options.build.resolve()
    allocators = [a for a in known_allocators(build).values() if not a.failed]
    if options.allocators:
        allocators = [a for a in allocators if a.name in options.allocators]
    output = options.output or RESULTS / COUNTS
    run_id = datetime.now(UTC).isoformat(timespec="seconds")
    console = wide_console()
    records = tuple(a.record() for a in allocators)
    head = Run(run_id, "count", 0, 1, facts(build), records, (), commit=commit())
    with Writer(output) as writer:
        writer.write(head)
        for each in (*instruction_counts(build, allocators, run_id), *rmw_counts(build, run_id)):
            if isinstance(each, CountError):
                console.print(f"[yellow]{each}[/yellow]")
                continue
            writer.write(each)
            if each.instructions is not None:
                figure = f"{number(each.instructions)} instructions"
            else:
                figure = f"{each.locked_rmw:.3f} locked read-modify-writes"
            console.print(f"{each.allocator:<24} {each.pair:<44} {figure} ({each.source})")
    console.print(f"Results: {output}")
    return 0


def fragmentation_command(options: argparse.Namespace) -> int:
    """lab fragmentation"""
    results = read(options.results or newest())
    bench = Bench(options.build.resolve(), shrink=results.runs[-1].shrink)
    console = wide_console()
    found = []
    for each in fragmentation.rows(bench, results, options.least * 1024):
        if isinstance(each, str):
            console.print(f"[yellow]{each}[/yellow]")
        else:
            found.append(each)
    names = list(dict.fromkeys(name for row in found for name in row.over_live))
    table = Table(title="Peak RSS / peak of live bytes", title_justify="left")
    for heading in ("workload", "live, MiB", *names):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for row in found:
        ratios = (f"{row.over_live[name]:.2f}" if name in row.over_live else "" for name in names)
        table.add_row(str(row.case), f"{row.live_kib / 1024:.1f}", *ratios)
    shared = [row for row in found if len(row.over_live) == len(names)]
    if shared:
        means = (geomean([row.over_live[name] for row in shared]) for name in names)
        table.add_row(f"geometric mean of {len(shared)}", "", *(f"{mean:.3f}" for mean in means))
    console.print(table)
    return 0


def report_command(options: argparse.Namespace) -> int:
    """lab report"""
    from harness.report import (
        make_report,
        readme_table,
    )  # here, for it needs matplotlib and jinja2, which the rest does not

    counts = RESULTS / COUNTS
    results = options.results or [newest(), *([counts] if counts.exists() else [])]
    if options.readme:
        print(readme_table(results), end="")
        return 0
    html = options.html or RESULTS / "report.html"
    make_report(results, html, options.markdown)
    print(f"Report: {html}")
    return 0


def pulse_command(options: argparse.Namespace) -> int:
    """lab pulse"""
    from harness import pulse
    from harness.report import over_time  # here, for it needs matplotlib

    if not options.draw:
        print(pulse.append(pulse.take(options.build.resolve(), RESULTS / "pulse.jsonl")))
    pulse.PICTURE.write_text(over_time.draw(pulse.kept()).file())
    for path in (pulse.PICTURE,) if options.draw else (pulse.LINES, pulse.PICTURE):
        print(f"written: {path.relative_to(ROOT)}", file=sys.stderr)
    return 0


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    whole = argparse.ArgumentParser(prog="lab", description="Freeway's laboratory: measures malloc implementations.")
    commands = whole.add_subparsers(required=True, metavar="command")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(function=function)
        return made

    build = {"type": Path, "default": ROOT / "build/release", "help": "default build/release"}
    one = add("run", run_command, "measure, and print a summary")
    one.add_argument("--suite", choices=[*SUITES, ALL], help="default quick, or with --only the workload's own")
    one.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names, prefixes, groups, or a paper")
    one.add_argument("--allocators", nargs="+", default=[], metavar="NAME[=PATH[:VAR=VALUE]]", help="see `lab list`")
    one.add_argument("--repeat", type=positive, metavar="N", help="default: the suite's")
    one.add_argument("--shrink", type=positive, default=1, metavar="N", help="divide the work, to try something out")
    one.add_argument("--resume", action="store_true", help="go on with the results file")
    one.add_argument("--output", type=Path, metavar="FILE", help="default build/lab/SUITE.jsonl")
    one.add_argument("--build", **build)
    one.add_argument("--time-limit", type=float, metavar="MINUTES", help="begin no row after this (quick: 9)")
    one.add_argument("--timeout", type=float, metavar="SECONDS", help="of one sample, instead of the workload's own")
    one.add_argument("--noise-retries", type=int, default=NOISE_RETRIES, metavar="N", help="of a disturbed sample")
    one.add_argument("--no-nice", action="store_true", help="do not ask for a better CPU priority")

    two = add("compare", compare_command, "compare two results files, or two allocators")
    two.add_argument("a", metavar="FILE[:ALLOCATOR]")
    two.add_argument("b", metavar="FILE[:ALLOCATOR]")
    two.add_argument("--beyond-noise", action="store_true", help="show only what differs")

    three = add("list", list_command, "show workloads, suites and allocators, and what is missing")
    three.add_argument("--build", **build)

    four = add("count", count_command, "count instructions and locked read-modify-writes of single operations")
    four.add_argument("--allocators", nargs="+", default=[], metavar="NAME")
    four.add_argument("--output", type=Path, metavar="FILE", help="added to it; default build/lab/counts.jsonl")
    four.add_argument("--build", **build)

    five = add("report", report_command, "make one HTML page of results files")
    five.add_argument("results", nargs="*", type=Path, help="default: the newest of build/lab, and the counts there")
    five.add_argument("--html", type=Path, metavar="FILE", help="default build/lab/report.html")
    five.add_argument("--markdown", type=Path, metavar="FILE", help="the same as text, too")
    five.add_argument("--readme", action="store_true", help="only print the README's table")

    frag = add("fragmentation", fragmentation_command, "peak RSS of a results file, divided by what was live at most")
    frag.add_argument("results", nargs="?", type=Path, help="default: the newest of build/lab")
    frag.add_argument("--least", type=float, default=1, metavar="MIB", help="leave out what has less live (default 1)")
    frag.add_argument("--build", **build)

    six = add("pulse", pulse_command, "a minute of figures at this commit: a line more in bench/results/over-time")
    six.add_argument("--draw", action="store_true", help="measure nothing, only draw the lines there are")
    six.add_argument("--build", **build)
    return whole


def main() -> int:
    """Exit status 0; 1 with a message for what the user can mend; 130 after an interruption."""
    options = parser().parse_args()
    try:
        return options.function(options)
    except (ResultsError, ValueError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
