# SPDX-License-Identifier: MIT
#
# z3.py: the solver z3 on an SMT-LIB file that is generated here: pigeons and holes (unsatisfiable, propositional),
# products of bit vectors, linear arithmetic over integers, arrays. One operation is one question. Checksum: the
# answers.
"""z3 on a generated SMT-LIB file."""

from __future__ import annotations

from pathlib import Path

from driver import arguments, program, report, run

PIGEONS = 10
FACTORS = (2_147_117_569, 3_215_031_751)  # 46337 squared; 151 * 751 * 28351, no product of two below 65536
CHAIN = 400


def pigeons(count: int) -> list[str]:
    """One more pigeon than holes."""
    lines = []
    lines += [f"(declare-const p{i}h{j} Bool)" for i in range(count) for j in range(count - 1)]
    lines += [f"(assert (or {' '.join(f'p{i}h{j}' for j in range(count - 1))}))" for i in range(count)]
    for j in range(count - 1):
        for i in range(count):
            lines += [f"(assert (not (and p{i}h{j} p{other}h{j})))" for other in range(i)]
    return [*lines, "(check-sat)", "(reset)"]


def factors(product: int) -> list[str]:
    """Which two numbers, multiplied, give this one?"""
    lines = ["(declare-const a (_ BitVec 40))", "(declare-const b (_ BitVec 40))"]
    lines += [f"(assert (= (bvmul a b) (_ bv{product} 40)))", "(assert (bvugt a (_ bv1 40)))", "(assert (bvule a b))"]
    lines += ["(assert (bvult b (_ bv65536 40)))"]
    return [*lines, "(check-sat)", "(reset)"]


def chain(count: int) -> list[str]:
    """Jobs one after another, in any order, on one machine, that must end in time."""
    lines = []
    lines += [f"(declare-const s{i} Int)\n(assert (>= s{i} 0))" for i in range(count)]
    for i in range(count):
        for j in range(max(0, i - 6), i):
            lines.append(f"(assert (or (>= s{i} (+ s{j} {i % 7 + 1})) (>= s{j} (+ s{i} {j % 5 + 1}))))")
        lines.append(f"(assert (<= s{i} {count}))")
    lines += ["(declare-const m (Array Int Int))"]
    lines += [f"(assert (= (select (store m s{i} {i}) s{i + 1}) (+ (select m {i}) s{i})))" for i in range(count // 4)]
    return [*lines, "(check-sat)", "(reset)"]


def main() -> None:
    """Writes the file and asks; --shrink asks the easy questions only."""
    options = arguments(__doc__)
    easy = options.shrink > 1
    script = pigeons(5 if easy else PIGEONS) + chain(10 if easy else CHAIN)
    for product in (143,) if easy else FACTORS:
        script += factors(product)
    path = Path("questions.smt2")
    path.write_text("\n".join(script) + "\n")
    used = run([program("z3", "z3"), "-smt2", str(path)])
    report(ops=script.count("(check-sat)"), used=used, checksum=used.stdout_digest())


if __name__ == "__main__":
    main()
