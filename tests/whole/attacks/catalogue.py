# SPDX-License-Identifier: MIT
"""What is tried: the attacks with their arguments, Freeway's levels, and what each of them must come to."""

from __future__ import annotations

from dataclasses import dataclass

# What can come of an attack, the worst last. An attack is run with several sizes, several times: the worst counts.
AT_ONCE, UNHARMED, LATE, CRASHED, EXPLOITABLE = "stopped at once", "unharmed", "stopped late", "crashed", "exploitable"
OUTCOMES = (AT_ONCE, UNHARMED, LATE, CRASHED, EXPLOITABLE)

SIZES = (24, 64, 1000, 8000)  # bytes requested: small blocks of every allocator, of glibc's all kinds below mmap
# What fills a size class of one or the other to its last byte; of Scudo, with its headers of 16 bytes, 48, 112 and 240.
FILLING = (24, 48, 64, 112, 240, 1000, 1024, 8000)


@dataclass(frozen=True)
class Attack:
    """One row of the table. `arguments` follow the size; of several the worst outcome counts."""

    name: str
    what: str
    program: str
    arguments: tuple[tuple[str, ...], ...] = ((),)
    sizes: tuple[int, ...] = SIZES


ATTACKS = (
    Attack("double free, at once", "free(a), free(a)", "double_free"),
    Attack("double free, after another free", "free(a), free(b), free(a)", "double_free_later", (("1",),)),
    Attack("double free, after 1000 frees", "the same with 1000 others between", "double_free_later", (("1000",),)),
    Attack("double free, by another thread", "free(a) in two threads", "double_free_thread"),
    Attack("double free of a recycled block", "somebody else has the block by now", "double_free_recycled"),
    Attack("interior pointer", "free(a + 16)", "interior_pointer", (("16",),), (64, 1000, 8000)),
    Attack("misaligned pointer", "free(a + 17)", "interior_pointer", (("17",),), (64, 1000, 8000)),
    Attack("foreign pointer", "free of a static array", "foreign_pointer"),
    Attack("house of spirit", "free of an array on the stack that looks like a chunk of glibc's", "house_of_spirit"),
    Attack("overflow by 1 byte", "past all that malloc_usable_size grants", "overflow", (("1",),), FILLING),
    Attack("overflow by 16 bytes", "the same", "overflow", (("16",),), FILLING),
    Attack("overflow of a large block", "by 1 byte, by a page", "overflow", (("1",), ("4096",)), (100 * 1024,)),
    Attack("underflow by 16 bytes", "before a block", "underflow", ((),), FILLING),
    Attack("write after free", "an address as a free list's link", "write_after_free", (("plain",), ("linked",))),
    Attack("stale pointer, 1 block later", "a write after the victim has allocated", "stale_pointer", (("1",),)),
    Attack("stale pointer, 64 blocks later", "the same", "stale_pointer", (("64",),)),
    Attack("stale pointer, 1000 blocks later", "the same", "stale_pointer", (("1000",),)),
    Attack("read after free", "looks for addresses in the freed block", "read_after_free"),
    Attack("metadata behind a block", "256 bytes of links", "neighbour_metadata", (("plain",), ("letters",))),
    Attack("another size, some blocks freed", "twice as large over freed ones", "size_confusion", (("half",),)),
    Attack("another size, all blocks freed", "the same", "size_confusion", (("all",),)),
    Attack("realloc of a freed block", "to twice its size", "realloc_freed"),
    Attack("malloc_usable_size of a freed block", "changes nothing; who notices?", "usable_size_freed"),
)
ENTROPY_SIZE = 64

# Freeway's levels: the name in the table, and what is set. A level more is a line here and a column in EXPECTED.
LEVELS = {
    "freeway": {},
    "freeway-harden": {"FREEWAY_HARDEN": "1"},
    # Large blocks with guards, and the handler that explains the fault.
    "freeway-guard-large": {"FREEWAY_HARDEN": "1", "FREEWAY_GUARD": "1000000000,large"},
}
# Which CPU's cache has the block, and who asks it next, is up to the scheduler.
ANYTHING_BUT_A_CRASH = (AT_ONCE, UNHARMED, LATE, EXPLOITABLE)
# What Freeway does, one outcome for each level, or several where chance decides. The test fails where Freeway does
# worse, and where it does better: then this is what has to change, and the page with it.
EXPECTED: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "double free, at once": (AT_ONCE, AT_ONCE, AT_ONCE),
    "double free, after another free": (EXPLOITABLE, AT_ONCE, AT_ONCE),
    "double free, after 1000 frees": (EXPLOITABLE, AT_ONCE, AT_ONCE),
    "double free, by another thread": (ANYTHING_BUT_A_CRASH, AT_ONCE, AT_ONCE),
    "double free of a recycled block": (EXPLOITABLE, AT_ONCE, AT_ONCE),
    "interior pointer": (AT_ONCE, AT_ONCE, AT_ONCE),
    "misaligned pointer": (AT_ONCE, AT_ONCE, AT_ONCE),
    "foreign pointer": (AT_ONCE, AT_ONCE, AT_ONCE),
    "house of spirit": (AT_ONCE, AT_ONCE, AT_ONCE),
    "overflow by 1 byte": (EXPLOITABLE, EXPLOITABLE, EXPLOITABLE),
    "overflow by 16 bytes": (EXPLOITABLE, EXPLOITABLE, EXPLOITABLE),
    "overflow of a large block": (EXPLOITABLE, EXPLOITABLE, AT_ONCE),
    "underflow by 16 bytes": (EXPLOITABLE, EXPLOITABLE, EXPLOITABLE),
    "write after free": (UNHARMED, UNHARMED, UNHARMED),
    "stale pointer, 1 block later": (EXPLOITABLE, UNHARMED, UNHARMED),
    "stale pointer, 64 blocks later": (EXPLOITABLE, UNHARMED, UNHARMED),
    "stale pointer, 1000 blocks later": (EXPLOITABLE, (UNHARMED, EXPLOITABLE), (UNHARMED, EXPLOITABLE)),
    "read after free": (UNHARMED, UNHARMED, UNHARMED),
    "metadata behind a block": (UNHARMED, UNHARMED, UNHARMED),
    "another size, some blocks freed": (UNHARMED, UNHARMED, UNHARMED),
    "another size, all blocks freed": (EXPLOITABLE, EXPLOITABLE, EXPLOITABLE),
    "realloc of a freed block": (AT_ONCE, AT_ONCE, AT_ONCE),
    "malloc_usable_size of a freed block": (AT_ONCE, AT_ONCE, AT_ONCE),
}
