# SPDX-License-Identifier: MIT
"""Freeway's part in gdb.

Moves threads that stand inside a restartable section to the section's abort address, where the kernel would send them
when they go on. If the debugger sends one elsewhere first (a call of a function), the kernel does not, and the thread
would later go on in the middle of the section: blocks would be handed out twice.

Commands: freeway heap, freeway block ADDRESS. They read memory alone, of a process or of a core file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

import gdb

# --- Restartable sections. -------------------------------------------------------------------------------------------

FAR = 1 << 63  # marks slots of magazines (src/cache/slots.h)
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

FRAME_SHIFT = 16
UNIT = 64  # Metadata::kUnit
SEGMENT_SHIFT = 20  # Metadata::kSegmentShift
HOLE_BITS = 8  # range_word::kHoleBits
LEAF_FRAMES = 1 << 16  # PageMap::kLeafBits
MOST_LEAVES = 64  # of 4 GiB each, that are searched for the beginning of a huge block
NOTHING, SMALL, LARGE, HUGE = range(4)  # FrameInfo::Kind
GUARDED = 1 << 29  # FrameInfo::kGuarded
FAR = 1 << 63  # cache/slots.h
MOST_BEDS = 64  # cache/quarantine.h
# superblock/anchor.h
HELD = 1 << 1
STATE_MASK = ((1 << 52) - 1) & ~1
WORD_EMPTY = (1 << 12) + (1 << 32)

Slab = tuple[str, int, bytes]  # name, address, memory


def word(atomic: gdb.Value) -> int:
    """The number in an Atomic."""
    return int(atomic["value_"])


def offset_in(type_name: str, field: str) -> int:
    """The offset of a field in bytes."""
    return gdb.lookup_type(type_name)[field].bitpos // 8


def in_units(size: float) -> str:
    """12.3 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return ""


class Superblock:
    """What a descriptor says."""

    def __init__(self, size_class: int, anchor: int, span: int, words: tuple[int, ...]) -> None:
        self.size_class, self.anchor, self.span, self.words = size_class, anchor, span, words

    def free_blocks(self) -> int:
        return sum(bin(each).count("1") for each in self.words)

    def is_free(self, index: int) -> bool:
        return (self.words[index // 64] >> (index % 64) & 1) != 0


class Heap:
    """The flagship's heap, read at once."""

    def __init__(self) -> None:
        try:
            front = gdb.parse_and_eval("'freeway::process_malloc'")
            self.substrate, self.engine = front["substrate_"], front["heap_"]
            self.classes = [
                {name: int(each[name]) for name in ("size", "blocks", "words", "span_frames")}
                for each in self._elements(gdb.parse_and_eval("'freeway::kSizeClasses'")["_M_elems"])
            ]
        except (gdb.error, gdb.MemoryError, KeyError) as error:
            advice = "`freeway classes` and `freeway blocks`, in a shell, need none"
            raise gdb.GdbError(f"no heap of Freeway, or no debug information of it ({advice}): {error}") from error
        self.map, self.metadata = self.substrate["map_"], self.substrate["metadata_"]
        descriptor = "freeway::Descriptor<freeway::Machine>"
        self.at = {name: offset_in(descriptor, name) for name in ("anchor", "span", "size_class", "words")}
        self.slabs = list(self._slabs())

    @staticmethod
    def _elements(array: gdb.Value) -> Iterator[gdb.Value]:
        low, high = array.type.strip_typedefs().range()
        return (array[i] for i in range(low, high + 1))

    def _slabs(self) -> Iterator[Slab]:
        size = gdb.lookup_type("freeway::Slab").sizeof
        made = self.engine["cpu_slabs_"]["made_"]
        pointers = struct.unpack(f"<{made.type.sizeof // 8}Q", read(int(made.address), made.type.sizeof))
        named = [(f"the slab of CPU {i}", p) for i, p in enumerate(pointers) if p != 0]
        for kind, places in (("claimed", "holders_"), ("owned", "seats_")):
            for i, place in enumerate(self._elements(self.engine[f"{kind}_"][places])):
                named.append((f"{kind} slab {i}", word(place["slab"])))
        return ((name, p, read(p, size)) for name, p in named if p != 0)

    def magazine(self, slab: Slab, size_class: int) -> list[int]:
        """The blocks in a slab's magazine, the uppermost first."""
        _, address, memory = slab
        (top,) = struct.unpack_from("<Q", memory, 8 * size_class)
        blocks = []
        at = top - address - 8
        while 0 <= at < len(memory):
            (block,) = struct.unpack_from("<Q", memory, at)
            if block == 0:
                break
            blocks.append(block & ~FAR)
            at -= 8
        return blocks

    def resting(self, slab: Slab, size_class: int) -> list[int]:
        """The blocks of a slab that rest (cache/quarantine.h)."""
        if int(self.substrate["options_"]["harden"]) == 0:
            return []
        _, address, memory = slab
        first = offset_in("freeway::Slab", "rest") + 8 * size_class
        behind = (len(memory) + 63) // 64 * 64 + 8 * MOST_BEDS * size_class
        tops = (read(address + first, 8) + read(address + behind, 8 * MOST_BEDS))[: 8 * (1 + MOST_BEDS)]
        blocks = []
        for (top,) in struct.iter_unpack("<Q", tops):
            at = top - 8
            while (block := int.from_bytes(read(at, 8), "little")) != 0:
                blocks.append(block & ~FAR)
                at -= 8
        return blocks

    def _superblock(self, memory: bytes, at: int) -> Superblock | None:
        (size_class,) = struct.unpack_from("<I", memory, at + self.at["size_class"])
        if not 0 < size_class < len(self.classes):
            return None
        anchor, span = (struct.unpack_from("<Q", memory, at + self.at[name])[0] for name in ("anchor", "span"))
        words = struct.unpack_from(f"<{self.classes[size_class]['words']}Q", memory, at + self.at["words"])
        return Superblock(size_class, anchor, span, words)

    @staticmethod
    def _accessible(segment: gdb.Value) -> int:
        """Bytes from a segment's start: range_word::end_of."""
        return word(segment["extent"]["word_"]) >> HOLE_BITS << FRAME_SHIFT

    def superblocks(self) -> Iterator[Superblock]:
        """All that are in use."""
        end = word(self.metadata["cursor_"])
        for number, segment in enumerate(self._elements(self.metadata["segments_"])):
            first = number << SEGMENT_SHIFT
            accessible = self._accessible(segment)
            if first >= end or accessible == 0:
                continue
            memory = read(word(segment["packed"]) >> FRAME_SHIFT << FRAME_SHIFT, accessible)
            unit = 1 if number == 0 else 0
            while first + unit < end and unit * UNIT < accessible:
                found = self._superblock(memory, unit * UNIT)
                if found is None:
                    unit += 1
                    continue
                if self._is_in_use(found):
                    yield found
                unit += 1 + (self.classes[found.size_class]["words"] + 7) // 8

    def _is_in_use(self, superblock: Superblock) -> bool:
        empty = (superblock.size_class << 2) + self.classes[superblock.size_class]["words"] * WORD_EMPTY
        return superblock.anchor != 0 and ((superblock.anchor & HELD) != 0 or superblock.anchor & STATE_MASK != empty)

    def descriptor(self, index: int) -> Superblock | None:
        """The superblock that a descriptor describes."""
        segment = self.metadata["segments_"][index >> SEGMENT_SHIFT]
        unit = index & ((1 << SEGMENT_SHIFT) - 1)
        address = (word(segment["packed"]) >> FRAME_SHIFT << FRAME_SHIFT) + unit * UNIT
        largest = max(each["words"] for each in self.classes)
        return self._superblock(read(address, min(UNIT + 8 * largest, self._accessible(segment) - unit * UNIT)), 0)

    def _entries_up_to(self, frame: int) -> tuple[int, bytes]:
        """The page map's entries of a frame and of frames before it: their number, and the memory they are in."""
        inside = frame - (int(self.map["primary_"]) >> FRAME_SHIFT)
        if 0 <= inside < int(self.map["frames_"]):
            count = min(inside, LEAF_FRAMES - 1) + 1
            return count, read(int(self.map["infos_"]) + 4 * (inside + 1 - count), 4 * count)
        count = frame % LEAF_FRAMES + 1
        leaf = word(self.map["root_"][frame // LEAF_FRAMES]) if frame < 1 << (48 - FRAME_SHIFT) else 0
        return count, read(leaf, 4 * count) if leaf != 0 else b""

    def entry(self, address: int) -> tuple[int, int, int]:
        """(first address, kind, value) of the last entry up to an address: of its own frame, or of one before."""
        frame = address >> FRAME_SHIFT
        for _ in range(MOST_LEAVES):
            count, memory = self._entries_up_to(frame)
            used = (len(memory.rstrip(b"\0")) + 3) // 4
            if used != 0:
                (bits,) = struct.unpack_from("<I", memory, 4 * (used - 1))
                return (frame - (count - used)) << FRAME_SHIFT, bits >> 30, bits & ((1 << 30) - 1)
            frame -= count
            if frame < 0:
                break
        return 0, NOTHING, 0

    def account(self) -> Iterator[tuple[int, int, int, int, int]]:
        """A line for each class: size, superblocks, live, cached and free blocks."""
        total = {}
        for superblock in self.superblocks():
            line = total.setdefault(superblock.size_class, [0, 0, 0])
            free = superblock.free_blocks()
            line[0] += 1
            line[1] += self.classes[superblock.size_class]["blocks"] - free
            line[2] += free
        for c, (count, taken, free) in sorted(total.items()):
            cached = sum(len(self.magazine(slab, c)) + len(self.resting(slab, c)) for slab in self.slabs)
            yield self.classes[c]["size"], count, max(taken - cached, 0), cached, free


# --- The commands. ---------------------------------------------------------------------------------------------------


class FreewayCommand(gdb.Command):
    """What Freeway, the malloc of this program, knows."""

    def __init__(self) -> None:
        super().__init__("freeway", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class HeapCommand(gdb.Command):
    """freeway heap: the blocks of each size class: in the program's hands, cached, free in superblocks."""

    def __init__(self) -> None:
        super().__init__("freeway heap", gdb.COMMAND_DATA)

    def invoke(self, _argument: str, _from_tty: bool) -> None:
        heap = Heap()
        print("   size  superblocks       live     cached       free")
        blocks = size = 0
        for each, count, live, cached, free in heap.account():
            print(f"{each:7} {count:12} {live:10} {cached:10} {free:10}")
            blocks += live
            size += live * each
        large = heap.substrate["large_"]
        huge = word(large["huge_count_"])
        huge_size = in_units(word(large["huge_"]) << FRAME_SHIFT)
        runs = word(heap.substrate["large_count_"]) - huge
        print(f"live: {blocks} small blocks, {in_units(size)}; {runs} large blocks; {huge} huge ones, {huge_size}")


class BlockCommand(gdb.Command):
    """freeway block ADDRESS: which block the address is in, and who has it."""

    def __init__(self) -> None:
        super().__init__("freeway block", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument: str, _from_tty: bool) -> None:
        if not argument:
            raise gdb.GdbError("freeway block: which address?")
        address = int(gdb.parse_and_eval(argument).cast(gdb.lookup_type("unsigned long")))
        heap = Heap()
        print(f"{address:#x}: {self._describe(heap, address)}")

    def _describe(self, heap: Heap, address: int) -> str:
        begin, kind, value = heap.entry(address)
        inside = address - begin
        if kind == SMALL and inside >> FRAME_SHIFT == 0:
            return self._small(heap, address, value)
        length = (value & (GUARDED - 1)) << FRAME_SHIFT
        if kind not in (LARGE, HUGE) or inside >= length:
            return "in no block of Freeway's"
        size = "huge" if kind == HUGE else "large"
        if value & GUARDED:
            length -= word(heap.substrate["large_"]["ends_"]["bytes_"])
        where = self._where(inside) if inside < length else "on the guard page behind"
        return f"{where} the {size} block {begin:#x} of {length} bytes: live"

    @staticmethod
    def _where(inside: int) -> str:
        return "the beginning of" if inside == 0 else f"{inside} bytes into"

    def _small(self, heap: Heap, address: int, descriptor: int) -> str:
        superblock = heap.descriptor(descriptor)
        if superblock is None:
            return f"in a superblock whose descriptor {descriptor} makes no sense"
        shape = heap.classes[superblock.size_class]
        index, inside = divmod(address - superblock.span, shape["size"])
        if index >= shape["blocks"]:
            return f"behind the last block of a superblock of {shape['size']} bytes a block"
        begin = address - inside
        state = "free" if superblock.is_free(index) else "live"
        for slab in heap.slabs:
            if begin in heap.magazine(slab, superblock.size_class):
                state = f"cached in {slab[0]}"
            elif begin in heap.resting(slab, superblock.size_class):
                state = f"resting in {slab[0]}"
        return (
            f"{self._where(inside)} the block {begin:#x} of {shape['size']} bytes, number {index} of {shape['blocks']}"
            f" of the superblock {superblock.span:#x}: {state}"
        )


if not hasattr(gdb, "freeway_is_loaded"):  # several files of the program may have this script beside them
    gdb.freeway_is_loaded = True
    FreewayCommand()
    HeapCommand()
    BlockCommand()
    gdb.events.stop.connect(at_stop)
    gdb.events.inferior_call.connect(around_call)
    if gdb.selected_thread() is not None:
        at_stop(None)
