# SPDX-License-Identifier: MIT
"""Counts the instructions of the fast paths of malloc, free and C++'s basic forms in libfreeway.so.

The fast path is the one on which no conditional branch is taken, from the function's first instruction to its first
return (unconditional jumps are followed): the code is laid out so. It is read from the disassembly because instructions
in restartable sequences cannot be counted by stepping through them: each step restarts the sequence. Where there is no
rseq, the conditional branches lead from there to a second path, in the slab that the thread owns (owned_malloc,
owned_free). Each count may not
exceed the golden one in fast_path.json, and the pair not the limit there; the path may contain no call and no locked
instruction. What is below the golden number passes; --update writes the new numbers.

The library is $FREEWAY_LIB or --library. Needs objdump (binutils). --show prints the paths.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).resolve().with_name("fast_path.json")
LONGEST_PATH = 500
FUNCTIONS = {
    "malloc": "malloc",
    "operator_new": "_Znwm",
    "aligned_new": "_ZnwmSt11align_val_t",
    "free": "free",
    "free_sized": "free_sized",
    "operator_delete": "_ZdlPv",
    "aligned_delete": "_ZdlPvSt11align_val_t",
    "sized_delete": "_ZdlPvm",
    "sized_delete_array": "_ZdaPvm",
}
FRAME_POINTERS = re.compile(r"%[re]bp\b|\b[xw]29\b")


@dataclass(frozen=True)
class Instruction:
    address: int
    mnemonic: str
    operands: str

    @property
    def is_return(self) -> bool:
        return self.mnemonic in ("ret", "retq") or self.mnemonic.startswith("repz ret")

    @property
    def is_jump(self) -> bool:
        return self.mnemonic in ("jmp", "jmpq", "b")

    @property
    def is_conditional(self) -> bool:
        return self.mnemonic.startswith("j") and not self.is_jump

    @property
    def target(self) -> int | None:
        match = re.match(r"([0-9a-f]+)\b", self.operands)
        return int(match[1], 16) if match else None

    def names(self, registers: re.Pattern[str]) -> bool:
        return registers.search(self.operands) is not None

    @property
    def is_call(self) -> bool:
        return self.mnemonic.startswith("call") or self.mnemonic in ("bl", "blr", "syscall", "svc")

    @property
    def is_locked(self) -> bool:
        locked_x86 = self.mnemonic.startswith("lock") or (self.mnemonic == "xchg" and "(" in self.operands)
        return locked_x86 or re.match(r"(ld|st)(a|l|al)?x|cas|swp|ld(add|clr|set|eor)", self.mnemonic) is not None


def disassemble(library: Path) -> dict[int, Instruction]:
    """Every instruction of the library by its address."""
    command = ["objdump", "-d", "--no-show-raw-insn", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[int, Instruction] = {}
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\t(\S+)\s*(.*)", line)
        if match is None:
            continue
        mnemonic, operands = match[2], match[3]
        # "lock", "notrack", "bnd" and the like are printed as words of their own before the mnemonic.
        if mnemonic in ("bnd", "notrack", "data16", "cs", "repz"):
            rest = operands.split(None, 1)
            mnemonic, operands = rest[0], rest[1] if len(rest) > 1 else ""
        found[int(match[1], 16)] = Instruction(int(match[1], 16), mnemonic, operands)
    return found


def entry_of(library: Path, function: str, exported: bool = True) -> int:
    command = ["readelf", "-W", "--dyn-syms" if exported else "--syms", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 8 and fields[7].split("@")[0] == function and fields[6] != "UND":
            return int(fields[1], 16)
    raise SystemExit(f"{library} does not have {function}")


def fast_path(code: dict[int, Instruction], entry: int, function: str, branch_to: int = 0) -> list[Instruction]:
    """With `branch_to` all conditional branches are taken until they have led there."""
    following = dict(zip(sorted(code), sorted(code)[1:], strict=False))
    path: list[Instruction] = []
    at = entry
    while len(path) < LONGEST_PATH:
        instruction = code[at]
        path.append(instruction)
        if at == branch_to:
            branch_to = 0
        if instruction.is_return and branch_to == 0:
            return path
        if instruction.is_jump or (instruction.is_conditional and branch_to != 0):
            if instruction.target is None:
                raise SystemExit(f"{function}: the fast path jumps to an unknown place: {instruction}")
            at = instruction.target
        else:
            at = following[at]
    raise SystemExit(f"{function}: no return after {LONGEST_PATH} instructions")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, default=os.environ.get("FREEWAY_LIB"))
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    if arguments.library is None:
        parser.error("neither --library nor FREEWAY_LIB is given")
    library = Path(arguments.library)

    golden = json.loads(GOLDEN.read_text())
    machine = platform.machine()
    if machine not in golden:
        print(f"no golden numbers for {machine}: nothing is compared")
        return 0
    expected = golden[machine]
    code = disassemble(library)
    faults: list[str] = []
    counts: dict[str, int] = {}
    paths = {name: fast_path(code, entry_of(library, symbol), name) for name, symbol in FUNCTIONS.items()}
    for function in ("malloc", "free"):
        slow = entry_of(library, f"freeway_{function}_slow", exported=False)
        paths[f"owned_{function}"] = fast_path(code, entry_of(library, function), function, branch_to=slow)
    for function, path in paths.items():
        counts[function] = len(path)
        if arguments.show:
            print(f"{function}:")
            for instruction in path:
                print(f"  {instruction.address:8x}  {instruction.mnemonic:8} {instruction.operands}")
        faults += [f"{function}: a call on the fast path: {each}" for each in path if each.is_call]
        faults += [f"{function}: a locked instruction on the fast path: {each}" for each in path if each.is_locked]
        if function.startswith("owned"):  # compiled without frames, but profiles follow them through it
            faults += [f"{function}: uses the frame pointer: {each}" for each in path if each.names(FRAME_POINTERS)]
        if not arguments.update and len(path) > expected[function]:
            faults.append(f"{function}: {len(path)} instructions, golden {expected[function]} (see --show)")
    pair = counts["malloc"] + counts["free"]
    if pair > expected["pair_limit"]:
        faults.append(f"malloc and free: {pair} instructions together, limit {expected['pair_limit']}")
    if arguments.update:
        expected.update(counts)
        GOLDEN.write_text(json.dumps(golden, indent=2) + "\n")
    for fault in faults:
        print(fault)
    print(", ".join(f"{function} {count}" for function, count in counts.items()), f"instructions; pair {pair}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
