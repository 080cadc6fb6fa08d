// SPDX-License-Identifier: MIT
//
// sections.cc: what the product has in assembly (fast_path.S, rseq_sections.S, own_sections.S, alone.S), as one thread
// after the other executes it here. tests/cache/rseq and tests/whole/golden are about the assembly; this has the same
// steps, with the same numbers.
#include "arch/alone.h"
#include "cache/hot.h"
#include "cache/rseq_sections.h"
#include "cache/slab.h"
#include "harden/births.h"
#include "heap/own_heap.h"
#include "malloc/heap.h"
#include "malloc/malloc_form.h"
#include "malloc/own_sections.h"

extern "C" const std::array<freeway::u32, freeway::kClassCount> freeway_strip_sizes;

namespace freeway {
namespace {

char* thread_at(u64 offset) { return sim_thread_pointer + offset; }
int cpu_id(u64 area) { return *reinterpret_cast<int*>(thread_at(area + RSEQ_CPU_ID)); }

// body() in a section: it is interrupted at any of its operations, and its last one commits.
template <class Body> __attribute__((noinline)) u64 section(Body&& body) {
  SimSection here;
  sim_section_begin(&here);
  _setjmp(here.start);
  here.interrupted = false;
  const u64 answer = body();
  sim_section_end(&here);
  return answer;
}

Slab* null_slab() { return reinterpret_cast<Slab*>(freeway_hot.null_slab); }

// f(slab) in a section on the CPU's slab.
template <class F> u64 on_slab(const void* table, F&& f) {
  return section([&]() -> u64 {
    if (cpu_id(freeway_rseq.area) < 0) return kNoSlab;             // [2]
    const auto* slabs = static_cast<const Atomic<Slab*>*>(table);  // [3]
    Slab* slab = slabs[*reinterpret_cast<u32*>(thread_at(freeway_rseq.id))].load_relaxed();
    return slab == null_slab() ? kNoSlab : f(*slab);
  });
}

Atomic<u8>& birth_at(u64 block, unsigned c) {
  return *reinterpret_cast<Atomic<u8>*>((freeway_hot.birth_scale[c] * block >> 8) + freeway_hot.birth_base[c]);
}

// [2] to [4] of malloc and free: f(slab) on the slab of the CPU, by mm_cid or by cpu_id; `out` where there is none.
template <class F> u64 on_cpu(u64 out, F&& f) {
  return section([&]() -> u64 {
    u32 id;
    if (cpu_id(freeway_hot.rseq) >= 0) {
      id = *reinterpret_cast<u32*>(thread_at(freeway_hot.rseq + RSEQ_MM_CID));
    } else {
      if (cpu_id(freeway_hot.cpu_rseq) < 0) return out;
      id = static_cast<u32>(cpu_id(freeway_hot.cpu_rseq));
    }
    return f(*freeway_hot.slab_of[id].load_relaxed());
  });
}

enum Out : u64 { kSlow = 1, kLeave, kDrawn, kChosen, kFull, kForeign, kDone };

Out pop(unsigned c, u64 size, u64 form, u64& block, Slab*& in) {
  const Out none = form == MallocForm::kCounted ? kDrawn : kSlow;
  return static_cast<Out>(on_cpu(none, [&](Slab& slab) -> u64 {
    in = &slab;
    Atomic<u64>& top = slab_words::top_of(slab, c);
    const u64 seen = top.load_relaxed();  // [5]
    block = slab_words::slot(seen - 8)->load_relaxed();
    if (block == 0) return form == MallocForm::kPlain ? kLeave : none;
    if (form == MallocForm::kChecked && static_cast<i64>(block) < 0) return kSlow;
    if (form == MallocForm::kCounted) {
      const u64 gap = slab.gap.load_relaxed();
      if (gap <= size) return kChosen;
      slab.gap.store_relaxed(gap - size);
    }
    top.store_relaxed(seen - 8);  // [6]
    return kDone;
  }));
}

unsigned class_in_tables(u64 size) {
  return size <= kByteTableMax ? freeway_hot.byte_table[size] : freeway_hot.step_table[(size + 127) >> 7];
}

}  // namespace
}  // namespace freeway

using namespace freeway;

extern "C" {

// There are no C++ forms here.
bool freeway_delete_is_ours() { return false; }

extern FREEWAY_HIDDEN const SectionDescriptor freeway_section_malloc, freeway_section_free;
constinit const SectionDescriptor freeway_section_malloc = {}, freeway_section_free = {};
FREEWAY_HIDDEN void* freeway_malloc_slow(std::size_t size);
FREEWAY_HIDDEN void* freeway_malloc_drawn(std::size_t size);
FREEWAY_HIDDEN void* freeway_malloc_chosen(std::size_t size, Slab* slab);
FREEWAY_HIDDEN void freeway_free_slow(void* block, u64, u64 frame);
FREEWAY_HIDDEN void freeway_free_own(void* block, u64, u64 frame);
FREEWAY_HIDDEN void freeway_free_full(void* block);
FREEWAY_HIDDEN void freeway_send_home(void* block);

FREEWAY_EXPORT void* freeway_malloc(std::size_t size) noexcept {
  u64 block = 0;
  Slab* slab = nullptr;
  const bool by_byte = size < freeway_hot.byte_limit.load_relaxed();
  if (by_byte || size < freeway_hot.step_limit.load_relaxed()) {
    const unsigned c = by_byte ? freeway_hot.byte_table[size] : freeway_hot.step_table[(size + 127) >> 7];
    const Out out = pop(c, size, MallocForm::kPlain, block, slab);
    if (out == kDone) return reinterpret_cast<void*>(block);
    if (out == kSlow) return freeway_malloc_slow(size);
  }
  const u64 form = freeway_hot.malloc_form.load_relaxed();
  if (form < MallocForm::kCounted || (form != MallocForm::kDrawn && size > kMaxSmall)) return freeway_malloc_slow(size);
  if (form == MallocForm::kDrawn) return freeway_malloc_drawn(size);
  const unsigned c = class_in_tables(size);
  switch (pop(c, size, form, block, slab)) {
    case kDrawn: return freeway_malloc_drawn(size);
    case kChosen: return freeway_malloc_chosen(size, slab);
    case kDone: break;
    default: return freeway_malloc_slow(size);
  }
  if (form == MallocForm::kChecked) birth_at(block, c).store_relaxed(static_cast<u8>(block + 1));
  return reinterpret_cast<void*>(block);
}

FREEWAY_EXPORT void freeway_free(void* pointer) noexcept {
  const auto block = reinterpret_cast<u64>(pointer);
  const u64 frame = (block - freeway_hot.arena.load_relaxed()) >> kFrameShift;
  if (frame < freeway_hot.frames.load_relaxed()) {
    const unsigned c = frame_bytes()[frame].size_class.load_relaxed();  // [1]
    if (!may_begin(block, c)) {                                         // [7]
      if (c == 0) return freeway_free_own(pointer, 0, frame);
    } else {
      Slab* in = nullptr;
      const u64 out = on_cpu(kSlow, [&](Slab& slab) -> u64 {
        in = &slab;
        Atomic<u64>& top = slab_words::top_of(slab, c);
        const u64 seen = top.load_relaxed();  // [5]
        if (slab_words::slot(seen)->load_relaxed() == 0) return kLeave;
        if (slab_words::slot(seen - 8)->load_relaxed() == block) return kLeave;
        slab_words::slot(seen)->store_relaxed(block);  // [6]
        top.store_relaxed(seen + 8);
        return kDone;
      });
      if (out == kSlow) return freeway_free_slow(pointer, 0, frame);
      if (out == kDone) {
        const u8 home = frame_bytes()[frame].home.load_relaxed();  // [8]
        if (in->home[c].load_relaxed() == home) return;
        const u32 left = in->patience.load_relaxed() - 1;
        in->patience.store_relaxed(left);
        if ((left >> 31) != 0) freeway_send_home(pointer);
        return;
      }
    }
  }
  const u64 frames = freeway_hot.checked;
  if (frames == 0 || frame >= frames || block % 16 != 0) return freeway_free_slow(pointer, 0, frame);
  const unsigned c = frame_bytes()[frame].size_class.load_relaxed();
  if (birth_at(block, c).load_relaxed() != static_cast<u8>(block + 1)) return freeway_free_slow(pointer, 0, frame);
  birth_at(block, c).store_relaxed(0);
  const u64 out = on_cpu(kFull, [&](Slab& slab) -> u64 {
    Atomic<u64>& top = slab.rest[c];
    const u64 seen = top.load_relaxed();
    if (slab_words::slot(seen)->load_relaxed() == 0) return kFull;
    slab_words::slot(seen)->store_relaxed(block);
    top.store_relaxed(seen + 8);
    return kDone;
  });
  if (out == kFull) freeway_free_full(pointer);
}

// --- rseq_sections.S ---

u64 freeway_rseq_pop(const void* table, u64 c) {
  return on_slab(table, [=](Slab& slab) { return PlainSlab(slab).pop(static_cast<unsigned>(c)); });
}
u64 freeway_rseq_push(const void* table, u64 c, u64 block) {
  return on_slab(table, [=](Slab& slab) -> u64 { return PlainSlab(slab).push(static_cast<unsigned>(c), block); });
}
u64 freeway_rseq_pop_batch(const void* table, u64 c, void** out, u64 count) {
  return on_slab(table, [=](Slab& slab) -> u64 {
    return PlainSlab(slab).pop_batch(static_cast<unsigned>(c), out, static_cast<unsigned>(count));
  });
}
u64 freeway_rseq_push_batch(const void* table, u64 c, void* const* blocks, u64 count) {
  return on_slab(table, [=](Slab& slab) -> u64 {
    return PlainSlab(slab).push_batch(static_cast<unsigned>(c), blocks, static_cast<unsigned>(count));
  });
}
u64 freeway_rseq_push_run(const void* table, u64 c, u64 lowest, u64 size, u64 count) {
  return on_slab(table, [=](Slab& slab) -> u64 {
    return PlainSlab(slab).push_run(static_cast<unsigned>(c), lowest, size, static_cast<unsigned>(count));
  });
}
u64 freeway_rseq_exchange(const void* table, u64 offset, u64 value) {
  return on_slab(table, [=](Slab& slab) {
    Atomic<u64>& word = slab_words::word(slab, offset);
    const u64 old = word.load_relaxed();
    word.store_relaxed(value);
    return old;
  });
}
u64 freeway_rseq_replace(const void* table, u64 offset, u64 expected, u64 value) {
  return on_slab(table, [=](Slab& slab) {
    Atomic<u64>& word = slab_words::word(slab, offset);
    const u64 old = word.load_relaxed();
    if (old == expected) word.store_relaxed(value);
    return old;
  });
}
u64 freeway_rseq_open(const void* table, u64 c, u64 area, u64 bytes, u64 closed) {
  return on_slab(
      table, [=](Slab& slab) -> u64 { return PlainSlab(slab).open(static_cast<unsigned>(c), area, bytes, closed); });
}
u64 freeway_rseq_move(const void* table, u64 c, const MagazineMove& move) {
  return on_slab(table, [&](Slab& slab) -> u64 {
    return PlainSlab(slab).move(static_cast<unsigned>(c), move.old_area, move.old_bytes, move.distance, move.new_bytes);
  });
}
u64 freeway_rseq_grow(const void* table, u64 capacity_at, u64 expected, u64 end, u64 bytes) {
  return on_slab(table, [=](Slab& slab) { return PlainSlab(slab).grow(capacity_at, expected, end, bytes); });
}
u64 freeway_rseq_store_if(const void* table, u64 offset, u64 expected, u64 other, u64 value) {
  return on_slab(table, [=](Slab& slab) -> u64 {
    if (slab_words::word(slab, offset).load_relaxed() != expected) return 0;
    if (slab_words::word(slab, offset ^ 8).load_relaxed() != other) return 0;
    slab_words::word(slab, offset).store_relaxed(value);
    return 1;
  });
}

// --- own_sections.S ---

u64 freeway_rseq_give_own(const void* pointer, std::size_t, u64 c) {
  const auto* own = static_cast<const heap::OwnHeap*>(pointer);
  return section([&]() -> u64 {
    if (cpu_id(freeway_rseq.area) < 0) return 0;                         // [2]
    const u32 id = *reinterpret_cast<u32*>(thread_at(freeway_rseq.id));  // [3]
    if (id >= own->ids.load_relaxed()) return 0;
    Slab& slab = *reinterpret_cast<Slab*>(own->slab_of[id].load_relaxed());
    const u64 top = slab_words::top_of(slab, static_cast<unsigned>(c)).load_relaxed() - 8;  // [4]
    if (const u64 block = slab_words::slot(top)->load_relaxed()) {
      slab_words::top_of(slab, static_cast<unsigned>(c)).store_relaxed(top);  // [6]
      return block;
    }
    if (&slab == null_slab()) return 0;
    const u64 base = slab_words::word(slab, heap::kStripBase).load_relaxed();  // [5]
    if (base == 0) return 0;
    auto& run = *reinterpret_cast<heap::Run<Machine>*>(base);
    const u64 block = slab_words::word(slab, heap::kStripNext).load_relaxed();
    const u64 next = block + freeway_strip_sizes[c];
    if (next > run.end.load_relaxed()) return 0;
    reinterpret_cast<Atomic<u8>*>((block >> 4) + run.kinds.load_relaxed())->store_relaxed(static_cast<u8>(c));
    slab_words::word(slab, heap::kStripNext).store_relaxed(next);  // [6]
    return block;
  });
}

void* freeway_rseq_malloc_own(void* own, std::size_t bytes, u64 c) {
  if (const u64 block = freeway_rseq_give_own(own, bytes, c)) return reinterpret_cast<void*>(block);
  return freeway_malloc_own_slow(own, bytes, c);
}

void freeway_rseq_free_own(void* pointer, u64 c, const void* of) {
  const auto* own = static_cast<const heap::OwnHeap*>(of);
  const auto block = reinterpret_cast<u64>(pointer);
  const u64 done = section([&]() -> u64 {
    if (cpu_id(freeway_rseq.area) < 0) return 0;
    const u32 id = *reinterpret_cast<u32*>(thread_at(freeway_rseq.id));
    if (id >= own->ids.load_relaxed()) return 0;
    Slab& slab = *reinterpret_cast<Slab*>(own->slab_of[id].load_relaxed());
    return PlainSlab(slab).push_once(static_cast<unsigned>(c), block);
  });
  if (done == 0) freeway_free_otherwise(pointer);
}

// --- alone.S ---

alone::Stopped freeway_alone_set_each(const alone::Change* change, const alone::Change* end) {
  u64 old = 0;
  for (; change < end; ++change) {
    const u64 done = section([&]() -> u64 {
      if (cpu_id(freeway_rseq.area) < 0 || !alone::holds(freeway_rseq.alone.load_relaxed())) return 0;  // [2]
      old = change->word->load_relaxed();                                                               // [3]
      change->word->store_relaxed(old | change->mask);                                                  // [5]
      return 1;
    });
    if (done == 0) return {reinterpret_cast<u64>(change) | 1, old};
    const u64 now = old | change->mask;
    if (old == 0 || (old & change->mask) != 0 || ((now + 1) & now) == 0)
      return {reinterpret_cast<u64>(change), old};  // [6]
  }
  return {reinterpret_cast<u64>(change), old};
}

alone::Answer freeway_alone_clear_bits(Atomic<u64>* word, u64 mask) {
  u64 old = 0;
  const u64 done = section([&]() -> u64 {
    if (cpu_id(freeway_rseq.area) < 0 || !alone::holds(freeway_rseq.alone.load_relaxed())) return 0;
    old = word->load_relaxed();
    word->store_relaxed(old & ~mask);
    return 1;
  });
  return {old, done};
}
}
