# SPDX-License-Identifier: MIT
"""Freeway's part in gdb.

Moves threads that stand inside a restartable section to the section's abort address, where the kernel would send them
when they go on. If the debugger sends one elsewhere first (a call of a function), the kernel does not, and the thread
would later go on in the middle of the section: blocks would be handed out twice.

Commands: freeway heap, freeway block ADDRESS: what the shell's command `freeway` says of the process or the core file.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import gdb

# --- Restartable sections. -------------------------------------------------------------------------------------------

SECTION = struct.Struct("<IIQQQ")  # struct rseq_cs: version, flags, start, length, abort


def read(address: int, size: int) -> bytes:
    """Bytes of the program's memory."""
    return bytes(gdb.selected_inferior().read_memory(address, size))


def sections() -> list[tuple[int, int, int]]:
    """The restartable sections of the program and its libraries: (first address, address behind, abort address)."""
    found = []
    for begin, end in re.findall(
        r"0x([0-9a-f]+) - 0x([0-9a-f]+) is __rseq_cs\b", gdb.execute("info files", False, True)
    ):
        try:
            content = read(int(begin, 16), int(end, 16) - int(begin, 16))
        except gdb.MemoryError:
            continue  # not loaded yet
        for _, _, start, length, abort in SECTION.iter_unpack(content[: len(content) // SECTION.size * SECTION.size]):
            if start != 0:
                found.append((start, start + length, abort))
    return found


def move_out_of_sections(but: tuple[int, int, int] | None = None) -> None:
    """Moves the threads that stand in a section, but for one, to where the kernel would send them."""
    known = sections()
    if not known:
        return
    selected = gdb.selected_thread()
    moved = False
    for thread in gdb.selected_inferior().threads():
        if thread.ptid == but or not thread.is_valid() or not thread.is_stopped():
            continue
        try:
            thread.switch()
            pc = gdb.newest_frame().pc()
            for start, end, abort in known:
                if start <= pc < end:
                    gdb.execute(f"set $pc = {abort:#x}", False, True)
                    moved = True
        except gdb.error:
            continue  # it is gone by now, or its registers cannot be had
    if selected is not None and selected.is_valid() and (moved or gdb.selected_thread() != selected):
        selected.switch()


def is_process() -> bool:
    """Whether there is a process, which may go on; a core file may not."""
    inferior = gdb.selected_inferior()
    return inferior.pid != 0 and inferior.connection is not None and inferior.connection.type != "core"


def at_stop(_event: object) -> None:
    """Threads stand still now, and may be sent elsewhere."""
    if is_process():
        move_out_of_sections()


def around_call(event: object) -> None:
    """After a call: the other threads have run meanwhile. The registers of the caller are restored after this."""
    if isinstance(event, gdb.InferiorCallPostEvent) and is_process():
        move_out_of_sections(but=event.ptid)


# --- The heap. -------------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).resolve().parent


def command() -> str:
    """Freeway's command: of the build or the installation that this file is part of, else the shell's."""
    folders = (FOLDER, *(each / "bin" for each in FOLDER.parents))
    found = next((str(each / "freeway") for each in folders if (each / "freeway").is_file()), shutil.which("freeway"))
    if found is None:
        raise gdb.GdbError("freeway: the command `freeway` is not there, nor in a folder of $PATH")
    return found


def target() -> str:
    """What is debugged, as the command is told: the number of a process, or the path of a core file."""
    inferior = gdb.selected_inferior()
    if is_process() and inferior.connection.type == "native":
        return str(inferior.pid)
    core = re.search(r"Local core dump file:\n\s*`(.*)', file type", gdb.execute("info files", False, True))
    if core is None:
        raise gdb.GdbError("freeway: there is no process of this machine, and no core file")
    return core[1]


def ask(what: str, *arguments: str) -> None:
    """Prints the command's answer."""
    done = subprocess.run([command(), what, target(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise gdb.GdbError(done.stderr.strip())
    print(done.stderr + done.stdout, end="")


class FreewayCommand(gdb.Command):
    """What Freeway, the malloc of this program, knows."""

    def __init__(self) -> None:
        super().__init__("freeway", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class HeapCommand(gdb.Command):
    """freeway heap: what the heap holds, and the blocks of each size class: live, cached, free in superblocks."""

    def __init__(self) -> None:
        super().__init__("freeway heap", gdb.COMMAND_DATA)

    def invoke(self, _argument: str, _from_tty: bool) -> None:
        ask("stat", "--verbose")
        ask("classes")


class BlockCommand(gdb.Command):
    """freeway block ADDRESS: which block the address is in, and who has it."""

    def __init__(self) -> None:
        super().__init__("freeway block", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument: str, _from_tty: bool) -> None:
        if not argument:
            raise gdb.GdbError("freeway block: which address?")
        ask("blocks", hex(int(gdb.parse_and_eval(argument).cast(gdb.lookup_type("unsigned long")))))


if not hasattr(gdb, "freeway_is_loaded"):  # several files of the program may have this script beside them
    gdb.freeway_is_loaded = True
    FreewayCommand()
    HeapCommand()
    BlockCommand()
    gdb.events.stop.connect(at_stop)
    gdb.events.inferior_call.connect(around_call)
    if gdb.selected_thread() is not None:
        at_stop(None)
