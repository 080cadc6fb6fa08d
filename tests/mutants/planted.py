# SPDX-License-Identifier: MIT
"""The planted faults: one line of the library changed, and the test that must then fail.

A fault's text must occur exactly once in its file (`make test` checks it), so a change of the source that moves it is
noticed here. Faults in the shared structures themselves are the models' (model/faults/*.diff, which plant.py plants);
these are the ones that only the compiled library shows: its assembly, its sections, and what handlers, forks and
stopped threads meet.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Killer:
    """A test program, below the build folder, with its arguments. Environment variables come as K=V."""

    program: str
    arguments: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()

    is_told_of_steps: bool = False  # by the library that calls the program at each step (tests/whole/stall)

    @property
    def has_the_sources(self) -> bool:
        """It is compiled with the sources, and so with the fault; others load the library."""
        return self.program.endswith(("_models", "/simulator"))

    @property
    def targets(self) -> tuple[str, ...]:
        """What is built anew with the fault."""
        if self.has_the_sources:
            return (Path(self.program).name,)
        if self.is_told_of_steps:
            return ("freeway_flagship_counted",)
        return ("freeway_shared", "freeway_static", "freeway_shared_heap")

    def folder(self, root: Path) -> Path:
        """Of its source: the tests of shared/ are built below tests/."""
        built = Path(self.program).parent
        return root / ("shared/tests" if built == Path("tests/shared") else built)


# Slabs stay a thread's between its calls.
OWNING = ("FREEWAY_RSEQ=0",)
# Each call claims a slab: hardened heaps have no slabs that stay a thread's.
CLAIMING = (*OWNING, "FREEWAY_HARDEN=1")


def handler_at_every_instruction(
    case: str, of_symbols: str, environment: tuple[str, ...] = ("FREEWAY_RSEQ=1",)
) -> Killer:
    """Of the symbols whose names contain `of_symbols`: seconds, not minutes."""
    return Killer(
        "tests/whole/signal/signal_every_instruction_test",
        ("--only", case, "--seconds", "60"),
        (*environment, f"FREEWAY_TOUR_ONLY={of_symbols}"),
    )


SECTIONS = Killer("tests/cache/rseq/rseq_every_section_test", (), ("FREEWAY_RSEQ=1",))
CHECKED_SECTIONS = Killer(
    "tests/cache/rseq/rseq_every_section_test",
    ("--only", "every_section"),
    ("FREEWAY_RSEQ=1", "FREEWAY_HARDEN=1"),
)
FIRST_CALL = Killer(
    "tests/whole/signal/signal_first_call_test",
    ("--only", "first_call_and_a_handler_allocates", "--seconds", "20"),
    ("FREEWAY_RSEQ=1",),
)
VFORK = Killer("tests/whole/fork/fork_vfork_test", (), ("FREEWAY_RSEQ=1",))
OWN_RSEQ = Killer(
    "tests/cache/rseq/rseq_own_registration_test",
    (),
    ("FREEWAY_RSEQ=1", "GLIBC_TUNABLES=glibc.pthread.rseq=0"),
)
PARKED = Killer("tests/whole/stall/stall_park_test", ("--seconds", "1"), OWNING)
FALSE_SHARING = Killer("tests/whole/stress/stress_false_sharing", (), ("FREEWAY_RSEQ=1",))
FALSE_SHARING_OWNED = Killer("tests/whole/stress/stress_false_sharing", (), OWNING)
BESIDE_HELPER = Killer("tests/background/background_beside", ("--gtest_filter=*OneThread",), ("FREEWAY_RSEQ=1",))
HELPERS_RATE = Killer("tests/background/background_helper", ("--gtest_filter=*ARate*",), ("FREEWAY_RSEQ=1",))
RESERVED = Killer("tests/malloc/reserve/reserve_kept", ("--gtest_filter=*AddsUp:*Threshold*",), ("FREEWAY_RSEQ=1",))
HELPERS_LIVES = Killer("tests/background/background_lifetimes", (), ("FREEWAY_RSEQ=1",))
SHARED_STEPS = Killer("tests/shared/shared_every_instruction")
HEAPS = Killer(
    "tests/abi/abi_heap",
    ("--gtest_filter=Heap.After*:Heap.CachesAre*", "--gtest_repeat=30", "--gtest_brief=1"),
    ("FREEWAY_RSEQ=1",),
)
TRIMMED_HEAPS = Killer(
    "tests/abi/abi_heap",
    ("--gtest_filter=Heap.ATrim*:Heap.HeapsAreMade*:Heap.HandlersDestroy*", "--gtest_repeat=5", "--gtest_brief=1"),
    ("FREEWAY_RSEQ=1",),
)
PROFILED_HEAPS = Killer("tests/profile/profile_heaps", (), ("FREEWAY_RSEQ=1",))
HEAP_RECORDS = Killer("tests/heap/heap_models", ("--gtest_filter=HeapRegistryModel.*",))
HEAP_STRIPS = Killer("tests/heap/heap_models", ("--gtest_filter=HeapStrips*TwoThreads:HeapStrips*StopsForEver",))
HEAP_SLAB_PLACE = Killer("tests/heap/heap_models", ("--gtest_filter=HeapSlabPlaceModel.*",))
HEAP_DIRECT = Killer("tests/heap/heap_models", ("--gtest_filter=HeapDirectModel.*",))
STEPS_OF_PROFILES = Killer(
    "tests/whole/stall/stall_profile_mended_test", (), ("FREEWAY_RSEQ=1",), is_told_of_steps=True
)
SIMULATOR = Killer("tests/whole/simulator/simulator", ("--seeds", "0..9999"))
GUARDED_HEAPS = Killer("tests/harden/guard/guard_heaps", (), ("FREEWAY_RSEQ=1",))
TOLD_SIZES = Killer("tests/abi/abi_told_size", (), ("FREEWAY_RSEQ=1",))
ALIGNED = Killer("tests/abi/abi_functions", (), ("FREEWAY_RSEQ=1",))
MAKING = Killer("tests/shared/shared_making")
BEGUN = Killer("tests/shared/shared_attach", ("--gtest_filter=*Making*",))


@dataclass(frozen=True)
class Mutant:
    """`text`, which is once in `file`, becomes `replacement`; then `killer` must fail within `seconds`."""

    name: str
    file: str  # below src/, or shared/...
    text: str
    replacement: str
    killer: Killer
    seconds: int = 240
    only_on: str = ""  # a processor, as platform.machine() names it

    def path(self, root: Path) -> Path:
        """Of the file, in this copy of the repository."""
        return root / ("" if self.file.startswith("shared/") else "src") / self.file


MUTANTS = (
    Mutant(
        "free: the commit before the block is in its slot",
        "malloc/x86_64/fast_path.S",
        """    mov     [rax], rdi                                  // [6]
    add     qword ptr [rsi + rcx*8 + (\\form * SLAB_REST)], 8
.Lpost_\\name:
""",
        """    add     qword ptr [rsi + rcx*8 + (\\form * SLAB_REST)], 8
    mov     [rax], rdi
.Lpost_\\name:
""",
        SECTIONS,
        only_on="x86_64",
    ),
    Mutant(
        "push: the block is written after the commit",
        "cache/x86_64/rseq_sections.S",
        """    mov     [r11], rdx                                  // [5]
    add     qword ptr [r9 + rsi*8], 8                   // [6] commit
.Lpost_push:
""",
        """    add     qword ptr [r9 + rsi*8], 8
.Lpost_push:
    mov     [r11], rdx
""",
        SECTIONS,
        only_on="x86_64",
    ),
    Mutant(
        "push_run: the top follows each slot instead of being moved once",
        "cache/x86_64/rseq_sections.S",
        """    mov     [r11], rax
    add     r11, 8
    sub     rax, rcx
""",
        """    mov     [r11], rax
    add     r11, 8
    mov     [r9 + rsi*8], r11
    sub     rax, rcx
""",
        SECTIONS,
        only_on="x86_64",
    ),
    Mutant(
        "alone: whether there is one thread is asked before the section",
        "arch/x86_64/alone.S",
        """.Lstart_\\name:
    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ALONE]
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      1f
    cmp     byte ptr [r9], 0
    je      1f
    mov     rax, [rdi]                                  // [3]
""",
        """    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ALONE]
    cmp     byte ptr [r9], 0
    je      1f
.Lstart_\\name:
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0
    js      1f
    mov     rax, [rdi]
""",
        SECTIONS,
        only_on="x86_64",
    ),
    Mutant(
        "alone: the same, once for all words of a batch",
        "arch/x86_64/alone.S",
        """    .p2align 4
.Lnext_set_each:
    mov     fs:[r10 + RSEQ_SECTION], r11                // [1]
.Lstart_set_each:
    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ALONE] //     idle.cc moves it, and interrupts sections
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0         // [2]
    js      2f
    cmp     byte ptr [r9], 0
    je      2f
""",
        """    mov     r9, [rip + freeway_rseq + RSEQ_PLACE_ALONE]
    cmp     byte ptr [r9], 0
    je      2f
    .p2align 4
.Lnext_set_each:
    mov     fs:[r10 + RSEQ_SECTION], r11
.Lstart_set_each:
    cmp     dword ptr fs:[r10 + RSEQ_CPU_ID], 0
    js      2f
""",
        SECTIONS,
        only_on="x86_64",
    ),
    Mutant(
        "let_go: what was taken is not subtracted from the anchor",
        "superblock/superblocks.h",
        "const u64 owed = desc.owed.get();\n    desc.owed.set(0);\n    u64 seen",
        "const u64 owed = 0;\n    desc.owed.set(0);\n    u64 seen",
        handler_at_every_instruction("handler_allocates", "let_go"),
    ),
    Mutant(
        "put_current: a superblock that a handler has put there is overwritten",
        "cache/rseq_slabs.h",
        "return freeway_rseq_replace(table_, offset_of_current(c), 0, d) == 0;",
        "return freeway_rseq_exchange(table_, offset_of_current(c), d) != kNoSlab;",
        handler_at_every_instruction("handler_allocates", "refill"),
    ),
    Mutant(
        "drain: the slab is emptied while its CPU's threads use it",
        "cache/cpu_slabs.h",
        "    entries_[id].store_relaxed(none_);  // it publishes nothing\n",
        "",
        handler_at_every_instruction("handler_allocates", "::empty"),
    ),
    Mutant(
        "drain: a spare slab is not released",
        "cache/spare_slabs.h",
        "      seat.claim.release(is_others ? seen : 0);\n",
        "",
        Killer("tests/abi/abi_extension", ("--gtest_filter=Trim.*",), CLAIMING),
    ),
    Mutant(
        "loans: what was reserved is not what is given",
        "malloc/reserve.cc",
        "  heap.loans.end(c);\n",
        "",
        Killer("tests/malloc/reserve/reserve_kept", ("--gtest_filter=Reserve.*",)),
    ),
    Mutant(
        "heaps: a block in hand is taken as aligned",
        "malloc/heaps.h",
        "FREEWAY_LIKELY(block != 0 && block % alignment == 0)",
        "FREEWAY_LIKELY(block != 0)",
        Killer("tests/abi/abi_heap", ("--gtest_filter=Heap*.*",), ("FREEWAY_RSEQ=1",)),
    ),
    Mutant(
        "loans: they never end",
        "cache/loans.h",
        "if (cost == 0 || lost + cost > loans::kMostLost) return c;",
        "if (cost == 0) return c;",
        ALIGNED,
    ),
    Mutant(
        "claim: load and store, no CAS",
        "sync/claim.h",
        "return word_.cas_acquire(seen, next);  // [A1] pairs with [R1]",
        "word_.store_relaxed(next);\n    return true;",
        Killer("tests/whole/stall/stall_park_test", ("--seconds", "20"), CLAIMING),
    ),
    Mutant(
        "start: who comes second publishes his arena over the first one's",
        "sync/once.h",
        "    if (word_.cas_release(seen, mine)) return mine;  // [R1] pairs with [A1]\n",
        "    word_.store_release(mine);\n    if (seen == 0) return mine;\n",
        FIRST_CALL,
    ),
    Mutant(
        "page map: a span's entries are cleared after its frames were given back",
        "pages/substrate.cc",
        """  map_.clear(address, frames);
  Machine::step("span.cleared");
  frames_.give(address, frames, process::coarse_time_ns());
""",
        """  frames_.give(address, frames, process::coarse_time_ns());
  map_.clear(address, frames);
""",
        handler_at_every_instruction("handler_allocates", "give_span"),
    ),
    Mutant(
        "arena: two threads take the same frames",
        "pages/arena.h",
        """        if (!chunks_[chunk].used.cas_acquire(used, used | mask)) continue;  // [A1] pairs with [R1]
        Env::step("arena.taken");
""",
        """        chunks_[chunk].used.store_release(used | mask);
""",
        handler_at_every_instruction("handler_allocates", "take_short"),
    ),
    Mutant(
        "purge: frames in use lose their memory",
        "pages/arena.h",
        "u64 candidates = chunks_[chunk].dirty.load_relaxed() & ~used & ~tried;",
        "u64 candidates = chunks_[chunk].dirty.load_relaxed() & ~tried;",
        handler_at_every_instruction("handler_allocates", "::purge"),
    ),
    Mutant(
        "memalign: an alignment that nobody has is an invalid one",
        "abi/malloc.cc",
        "kMaxAlignment = std::size_t{1} << 63;",
        "kMaxAlignment = std::size_t{1} << 62;",
        ALIGNED,
    ),
    Mutant(
        "vfork: the child runs on its parent's registration",
        "malloc/x86_64/vfork.S",
        """    RSEQ_CALL RSEQ_UNREGISTER
""",
        """    xor     eax, eax
""",
        VFORK,
        only_on="x86_64",
    ),
    Mutant(
        "vfork: the child of a thread that has not called the heap registers itself",
        "malloc/x86_64/vfork.S",
        """    call    freeway_before_vfork
""",
        """    xor     eax, eax
""",
        OWN_RSEQ,
        only_on="x86_64",
    ),
    Mutant(
        "vfork: rseq is left with the length that the kernel offers",
        "os/process.cc",
        """__rseq_size > kRseqBytes ? __rseq_size : kRseqBytes""",
        """2 * kRseqBytes""",
        VFORK,
    ),
    Mutant(
        "own rseq: the child of a vfork registers its parent's struct",
        "os/rseq_area.cc",
        """    tried = 1;
""",
        """""",
        OWN_RSEQ,
    ),
    Mutant(
        "own rseq: threads are not registered when they come",
        "malloc/slabs.cc",
        " || process::enter_own_rseq(freeway_rseq.area);",
        ";",
        OWN_RSEQ,
    ),
    Mutant(
        "span: given back with its entries in the page map",
        "pages/substrate.cc",
        "  map_.clear(address, frames);\n",
        "  if (frames > 1) map_.clear(address, frames);\n",
        PARKED,
    ),
    Mutant(
        "superblock: the descriptor is not recycled",
        "superblock/superblocks.h",
        "if (next.duty == anchor::Duty::kEmpty) recycle(c, d);",
        "",
        PARKED,
    ),
    Mutant(
        "kept slabs: a handler enters what it may have interrupted",
        "cache/spare_slabs.h",
        "FREEWAY_UNLIKELY(own.inside.load_relaxed() != 0)) return nullptr;",
        "false) return nullptr;",
        handler_at_every_instruction("handler_allocates", "freeway_malloc_slow", OWNING),
    ),
    Mutant(
        "births: the tag is set before the block is the caller's",
        "malloc/x86_64/fast_path.inc",
        """    sub     qword ptr [rsi + rcx*8], 8                  // [6]
.Lpost_\\name:
  .if \\form == CHECKED
    BIRTH   rdx, rax, r8
    lea     ecx, [rax + 1]
    mov     [rdx], cl
  .endif
""",
        """  .if \\form == CHECKED
    BIRTH   rdx, rax, r8
    lea     r10d, [rax + 1]
    mov     [rdx], r10b
  .endif
    sub     qword ptr [rsi + rcx*8], 8
.Lpost_\\name:
""",
        CHECKED_SECTIONS,
        only_on="x86_64",
    ),
    Mutant(
        "sizes: the fast path takes any size up to 1 KiB",
        "malloc/x86_64/fast_path.inc",
        """    cmp     cl, [r8 + rsi + HOT_BYTE_TABLE AT_FREE]
    jne     \\out
""",
        "",
        TOLD_SIZES,
        only_on="x86_64",
    ),
    Mutant(
        "sizes: a lent block is another's",
        "malloc/sizes.h",
        "asked == c || loans::lends(c, asked)",
        "asked == c",
        TOLD_SIZES,
    ),
    Mutant(
        "sizes: what realloc kept is another's",
        "malloc/sizes.h",
        "return told.may_be_resized && keeps(told.size, kSizeClasses[c].size);",
        "return false;",
        TOLD_SIZES,
    ),
    Mutant(
        "sizes: any block is taken for a size that could never be asked for",
        "malloc/sized.cc",
        "return told.can_be() && may_be ? 0 : bytes;",
        "return may_be ? 0 : bytes;",
        TOLD_SIZES,
    ),
    Mutant(
        "sizes: small sizes have large blocks",
        "malloc/sizes.h",
        "  if (told.size <= kMaxSmall && !told.is_aligned()) return false;\n",
        "",
        TOLD_SIZES,
    ),
    Mutant(
        "births: a freed block stays live",
        "malloc/x86_64/fast_path.S",
        """    mov     byte ptr [r9], 0
""",
        """""",
        CHECKED_SECTIONS,
        only_on="x86_64",
    ),
    Mutant(
        "homes: foreign blocks are counted and never sent",
        "malloc/x86_64/fast_path.S",
        """    js      freeway_send_home
""",
        """""",
        FALSE_SHARING,
        only_on="x86_64",
    ),
    Mutant(
        "homes: the kept slabs' patience has no end",
        "cache/homes.h",
        "  return left > kPatience;\n",
        "  return false;\n",
        FALSE_SHARING_OWNED,
    ),
    Mutant(
        "heap records: two threads destroy one heap",
        "heap/registry.h",
        "!record->handle.cas_relaxed(handle, 0)) return false;",
        "(record->handle.store_relaxed(0), false)) return false;",
        HEAP_RECORDS,
    ),
    Mutant(
        "heap records: all lives have the same handle",
        "heap/registry.h",
        "record.lives.load_relaxed() + 1;",
        "record.lives.load_relaxed();",
        HEAP_RECORDS,
    ),
    Mutant(
        "heap records: one that is found before its heap begins",
        "heap/registry.h",
        """    begin(record);
    const u64 life = record.lives.load_relaxed() + 1;
    record.lives.store_relaxed(life);
    const u64 handle = handle_of(reinterpret_cast<uptr>(&record), life);
    record.handle.store_release(handle);  // [R1] pairs with [A2]
""",
        """    const u64 life = record.lives.load_relaxed() + 1;
    const u64 handle = handle_of(reinterpret_cast<uptr>(&record), life);
    record.handle.store_release(handle);
    begin(record);
    record.lives.store_relaxed(life);
""",
        HEAP_RECORDS,
    ),
    Mutant(
        "heap records: spare before its heap has ended",
        "heap/registry.h",
        """    end(record);
    VisitOf::done(record.visitor);
    Env::step("own.destroyed");
    pool_.push(record.self.load_relaxed(), links(records));
""",
        """    pool_.push(record.self.load_relaxed(), links(records));
    end(record);
    VisitOf::done(record.visitor);
""",
        HEAP_RECORDS,
    ),
    Mutant(
        "heap records: one that is used again is listed again",
        "heap/registry.h",
        "if (is_new) all_.push(index, nexts(records));",
        "all_.push(index, nexts(records));",
        HEAP_RECORDS,
        seconds=30,  # walks have no end
    ),
    Mutant(
        "heap records: its keeper is asked for its next after it has gone",
        "sync/tagged_stack.h",
        """      below = links(node).load_relaxed();
      f(node);
""",
        """      f(node);
      below = links(node).load_relaxed();
""",
        HEAP_RECORDS,
    ),
    Mutant(
        "destroy: runs keep their frames' numbers",
        "heap/strips.h",
        """        f(run);
        run.frames.store_relaxed(0);
""",
        """        f(run);
""",
        HEAP_RECORDS,
    ),
    Mutant(
        "destroy: vacant runs are the next heap's, too",
        "heap/strips.h",
        "    for (auto& each : heap.vacant) each.take_all();\n",
        "",
        HEAP_RECORDS,
    ),
    Mutant(
        "destroy: runs stay in the record",
        "heap/strips.h",
        "heap.runs.take_all(nexts(), [&](u32 index) {\n      RunOf& run = at(index);\n      if (const",
        "heap.runs.each(nexts(), [&](u32 index) {\n      RunOf& run = at(index);\n      if (const",
        HEAP_RECORDS,
    ),
    Mutant(
        "strips: marked and listed by nobody",
        "heap/strips.h",
        "next = strip::marked(seen, granules_of(c));",
        "next = {seen + granules_of(c), strip::Duty::kNone};",
        HEAP_STRIPS,
    ),
    Mutant(
        "strips: closed and listed by nobody",
        "heap/strips.h",
        "      next = move(seen);\n",
        "      next = move(seen);\n      next.duty = strip::Duty::kNone;\n",
        HEAP_STRIPS,
    ),
    Mutant(
        "strips: taken before it is counted",
        "heap/strips.h",
        "taken + granules_of(c) <= counted;",
        "counted <= strip::kCount;",
        HEAP_STRIPS,
    ),
    Mutant(
        "strips: one is found and stays counted",
        "heap/strips.h",
        "      while (!one.word.cas_relaxed(word, strip::taken(word, granules_of(c)))) {}\n",
        "",
        HEAP_STRIPS,
    ),
    Mutant(
        "slab's place: its CPU's before it is in place",
        "heap/slab_place.h",
        '    Env::step("own.replacing");\n',
        '    Env::step("own.replacing");\n    slab.claim.release();\n',
        HEAP_SLAB_PLACE,
    ),
    Mutant(
        "without slabs: what is taken out stays there",
        "heap/direct.h",
        "word_.exchange_acquire(T{});",
        "word_.load_acquire();",
        HEAP_DIRECT,
    ),
    Mutant(
        "without slabs: what another thread has put there is overwritten",
        "heap/direct.h",
        "return word_.cas_release(none, one);",
        "return word_.store_release(one), none == T{};",
        HEAP_DIRECT,
    ),
    Mutant(
        "without slabs: a superblock that finds no room is forgotten",
        "heap/direct.h",
        "if (!has_one || !current_[c].put(d)) superblocks.let_go(d);",
        "if (!has_one || (current_[c].put(d), false)) superblocks.let_go(d);",
        HEAP_DIRECT,
    ),
    Mutant(
        "without slabs: a superblock is let go although it is put back",
        "heap/direct.h",
        "if (!has_one || !current_[c].put(d)) superblocks.let_go(d);",
        "if (current_[c].put(d), true) superblocks.let_go(d);",
        HEAP_DIRECT,
    ),
    Mutant(
        "without slabs: a strip that finds no room stays open",
        "heap/direct.h",
        "    if (!strip_.put(&one)) strips.close(heap, one, one.end.load_relaxed());\n",
        "    if (!strip_.put(&one)) static_cast<void>(strips), static_cast<void>(heap);\n",
        HEAP_DIRECT,
    ),
    Mutant(
        "without slabs: a strip's end moves once it is put back",
        "heap/direct.h",
        """      one->end.store_relaxed(block + kSizeClasses[c].size);
    }
    if (one != nullptr) put(strips, heap, *one);
""",
        """    }
    if (one != nullptr) put(strips, heap, *one);
    if (block != 0) one->end.store_relaxed(block + kSizeClasses[c].size);
""",
        HEAP_DIRECT,
    ),
    Mutant(
        "without slabs: a full strip is left open for the next one",
        "heap/direct.h",
        "      if (one != nullptr) strips.close(heap, *one, one->end.load_relaxed());\n      if",
        "      if",
        HEAP_DIRECT,
    ),
    Mutant(
        "heaps: slabs are taken apart in the middle of sections",
        "heap/heaps.cc",
        "const bool is_mine = process::interrupt_sections();",
        "const bool is_mine = true;",
        HEAPS,
    ),
    Mutant(
        "heaps: a call that the limit refuses leaves slabs as they are",
        "malloc/heaps.cc",
        "    heap.collect();\n    if (",
        "    if (",
        HEAPS,
    ),
    Mutant(
        "heaps: ended beside the trim that looks into them",
        "heap/registry.h",
        "    if (VisitOf::destroy(record->visitor, who)) finish(",
        "    VisitOf::destroy(record->visitor, who);\n    finish(",
        TRIMMED_HEAPS,
    ),
    Mutant(
        "heaps: destroyed in the middle of a trim, and ended by nobody",
        "heap/registry.h",
        " || VisitOf::leave(record.visitor, who)) finish(records, record, end);",
        ") finish(records, record, end); else VisitOf::leave(record.visitor, who);",
        TRIMMED_HEAPS,
    ),
    Mutant(
        "heaps: a trim of everything leaves out their free pages",
        "malloc/heaps.cc",
        "  heap.purge();\n  return before",
        "  return before",
        TRIMMED_HEAPS,
    ),
    Mutant(
        "heaps: what no free will look for stays marked",
        "malloc/heaps.cc",
        "  if (!profile::has_samples()) all().strips().unfollow(*run, address);",
        "",
        STEPS_OF_PROFILES,
    ),
    Mutant(
        "large: a moved block's sample is found where the block was",
        "malloc/large.cc",
        "may_be_sampled ? profile::forget(before) : profile::LiveBlock{};",
        "profile::LiveBlock{};",
        STEPS_OF_PROFILES,
    ),
    Mutant(
        "start: a handler's profile is not followed",
        "malloc/start.cc",
        "  if (profile::is_on()) follow_profile(heap_);",
        "",
        SIMULATOR,
    ),
    Mutant(
        "heaps: samples outlive their heap",
        "malloc/heaps.cc",
        "is_sampled.load_relaxed() != 0)",
        "is_sampled.load_relaxed() == 0)",
        PROFILED_HEAPS,
    ),
    Mutant(
        "heaps: a sampled block is freed on the fast path",
        "heap/strip.h",
        "return kind - 1u < kClass;",
        "return kind - 1u < kMarked - 1u;",
        PROFILED_HEAPS,
    ),
    Mutant(
        "heaps: calls stay on the fast path while a profile is made",
        "malloc/heaps.h",
        "bytes < freeway_hot.byte_limit.load_relaxed()",
        "bytes <= kByteTableMax",
        PROFILED_HEAPS,
    ),
    Mutant(
        "helper: the program of one thread is not told of it",
        "malloc/idle.cc",
        "  freeway_rseq.alone.store_relaxed(&not_alone);\n",
        "",
        BESIDE_HELPER,
        only_on="x86_64",
    ),
    Mutant(
        "helper: the child of a fork takes its parent's for its own",
        "background/bare_thread.cc",
        "vm::wipe_on_fork(block, bytes)",
        "vm::Answer::kDone",
        HELPERS_LIVES,
    ),
    Mutant(
        "helper: what it gave back is not counted against its rate",
        "malloc/idle.cc",
        "  pace.spend(policy.purged_bytes() - before);\n",
        "",
        HELPERS_RATE,
    ),
    Mutant(
        "helper: what its work sets free goes back beside its rate",
        "malloc/idle.cc",
        "policy.never(PurgePolicy<Machine>::kHelper, pace.is_set());",
        "",
        HELPERS_RATE,
    ),
    Mutant(
        "helper: it sleeps with what its rate has left undone",
        "malloc/idle.cc",
        "    complete = complete && left() >= kFrameSize;\n",
        "",
        HELPERS_RATE,
    ),
    Mutant(
        "mallopt: the user's FREEWAY_PURGE=never ends with the program's",
        "pages/purge_policy.h",
        "never_[kUser].load_relaxed() || ",
        "",
        RESERVED,
    ),
    Mutant(
        "reserve: another reservation's frames count as one's own",
        "malloc/reserve.cc",
        "clean_ += arena == nullptr || !arena->any_dirty(address + i * kFrameSize, 1)",
        "++clean_",
        RESERVED,
    ),
    Mutant(
        "helper: it does not look whether it is the last thread",
        "background/helper.cc",
        "      if (const int status = bare_thread::status_if_last(); status >= 0) return status;\n",
        "",
        HELPERS_LIVES,
    ),
    Mutant(
        "shared: memory comes before its mark",
        "shared/backing.h",
        "    const auto come = [&] { came = world_.back(first, n); };\n",
        "    came = world_.back(first, n);\n    const auto come = [] {};\n",
        SHARED_STEPS,
        only_on="x86_64",
    ),
    Mutant(
        "shared: the mark is cleared before memory has gone",
        "shared/backing.h",
        "    const auto go = [&] { punched = world_.punch(first, n); };\n",
        "    remove(first, n, backing::kSome);\n    const auto go = [&] { punched = world_.punch(first, n); };\n",
        SHARED_STEPS,
        only_on="x86_64",
    ),
    Mutant(
        "create: sealed before it is a heap",
        "shared/attachment.cc",
        "  const long bytes = file::write(fd, &constants.magic, sizeof(constants.magic), 0);\n",
        "  file::seal_length(fd);\n"
        "  const long bytes = file::write(fd, &constants.magic, sizeof(constants.magic), 0);\n",
        MAKING,
        only_on="x86_64",
    ),
    Mutant(
        "create: a heap before all that can fail",
        "shared/attachment.cc",
        "  if (error == 0) error = begin(fd, facts, constants, made);\n",
        "  if (error == 0) error = finish(static_cast<int>(own), constants);\n"
        "  if (error == 0) error = begin(fd, facts, constants, made);\n",
        MAKING,
        only_on="x86_64",
    ),
    Mutant(
        "attach: what a killed maker has not sealed stays so",
        "shared/attachment.cc",
        "      file::seal_length(fd);  // who made it may have been killed before\n",
        "",
        MAKING,
        only_on="x86_64",
    ),
    Mutant(
        "create: what may not shrink is not cleared",
        "shared/file.cc",
        "raw_syscall(SYS_fallocate, word(fd), kPunchHole, kept, now - kept)",
        "long{0}",
        BEGUN,
    ),
    Mutant(
        "create: any descriptor does",
        "shared/attachment.cc",
        "  if (!file::is_for_both(fd)) return -EACCES;",
        "  ",
        Killer("tests/shared/shared_attach", ("--gtest_filter=*MakesNone*",)),
    ),
    Mutant(
        "slots: of blocks in magazines",
        "shared/heap.h",
        "      return tables_.state(p.frame, p.index).load_relaxed() == state::kLive;\n",
        "      return true;\n",
        Killer("tests/shared/shared_attach", ("--gtest_filter=*ASlotLies*",)),
    ),
    Mutant(
        "destroy: a heap's guarded blocks stay live",
        "malloc/heaps.cc",
        "  guard::give_all(handle, caller, report_overrun);\n",
        "",
        GUARDED_HEAPS,
    ),
    Mutant(
        "realloc: a heap's guarded block becomes malloc's",
        "malloc/realloc.cc",
        "move_block(block, old_bytes, bytes, caller, guard::owner(address));",
        "move_block(block, old_bytes, bytes, caller);",
        GUARDED_HEAPS,
    ),
    Mutant(
        "guarded blocks: malloc's has the owner of the one before it in its slot",
        "harden/guard_slots.h",
        """    slot.owner.store_release(birth.owner);                                    // [R3] pairs with [A3]
""",
        """    if (birth.owner != 0) slot.owner.store_release(birth.owner);
""",
        GUARDED_HEAPS,
    ),
)
