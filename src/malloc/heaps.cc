// SPDX-License-Identifier: MIT
#include "malloc/heaps.h"

#include <string.h>

#include "harden/guarded.h"
#include "look/explanation.h"
#include "malloc/drain.h"
#include "malloc/errors.h"
#include "malloc/family.h"
#include "malloc/profile.h"
#include "malloc/spare_path.h"
#include "os/report.h"
#include "profile/profiler.h"

namespace freeway::heaps {

namespace {

using heap::OwnHeap;

// A block that is a run of frames.
void* allocate_whole(OwnHeap& heap, std::size_t bytes, std::size_t alignment, bool& zero) {
  const std::size_t frames = ceil_div(clamp(bytes, 1, bytes), kFrameSize);
  if (frames > kMaxFrames || alignment > (std::size_t{1} << 46)) return nullptr;
  void* block = all().allocate_whole(heap, frames, clamp(alignment / kFrameSize, 1, alignment), zero);
  if (block != nullptr) process_malloc.substrate().count_large(1);
  return block;
}

u32 record_at(const void* block) { return process_malloc.map().get(reinterpret_cast<uptr>(block)).value(); }

// The small block, or another that can be followed: of a strip; else a frame, if the heap has room for many.
FREEWAY_NOINLINE void* followable(OwnHeap& heap, void* block, unsigned c, std::size_t alignment) {
  constexpr u64 kRoom = 16;
  const u32 index = record_at(block);
  if (all().run_at(index) != nullptr) return block;
  bool zero, was_whole;
  void* other = nullptr;
  // Another thread may have the strip in hand.
  for (unsigned tries = 0; alignment <= kMinBlock && other == nullptr && tries < 4; ++tries)
    other = heap.take_of_strip(c, /*may_open=*/tries == 3);
  if (other == nullptr && heap.room() >= kRoom) other = allocate_whole(heap, kSizeClasses[c].size, alignment, zero);
  if (other == nullptr) return block;
  all().free(index, reinterpret_cast<uptr>(block), was_whole);
  return other;
}

// A profile has chosen the block of `bytes`: notes it, if it can be followed.
FREEWAY_NOINLINE void sample(OwnHeap& heap, void* block, std::size_t bytes) {
  const auto address = reinterpret_cast<uptr>(block);
  auto* run = all().run_at(record_at(block));
  if (run == nullptr) return;
  all().strips().follow(*run, address);
  heap.is_sampled.store_relaxed(1);
  Machine::step("own.sampling");
  profile::sampled(address, bytes);
  if (!profile::has_samples()) all().strips().unfollow(*run, address);  // it ended before its first: no free looks
}

void* allocate_of_once(OwnHeap& heap, std::size_t bytes, std::size_t alignment, bool zeroed, bool is_chosen) {
  if (const unsigned c = class_of_aligned(bytes, alignment)) {
    void* block = all().allocate_aligned(heap, c, alignment);
    if (block != nullptr && is_chosen) block = followable(heap, block, c, alignment);
    if (block != nullptr && zeroed) memset(block, 0, bytes);
    if (block != nullptr || kSizeClasses[c].span_frames == 1) return block;
  }  // there may be room for a frame
  bool zero = false;
  void* block = allocate_whole(heap, bytes, alignment, zero);
  return block != nullptr && zeroed && !zero ? memset(block, 0, bytes) : block;
}

// A guarded block; null: the call is not chosen.
FREEWAY_INLINE void* guarded(const OwnHeap& heap, std::size_t bytes, const void* caller) {
  return FREEWAY_UNLIKELY(guard::is_on()) ? guard::sample(bytes, caller, heap.handle.load_relaxed()) : nullptr;
}

FREEWAY_NOINLINE void* allocate_of(OwnHeap& heap, std::size_t bytes, std::size_t alignment, bool zeroed) {
  if (bytes > Malloc::kMaxSize) return refused();
  const u64 denials = heap.denials.load_relaxed();
  const bool chosen = FREEWAY_UNLIKELY(profile::is_on()) && is_chosen(bytes);
  void* block = allocate_of_once(heap, bytes, alignment, zeroed, chosen);
  if (block == nullptr) {  // what CPUs have in hand, or free memory of others, if it was not the heap's own limit
    heap.collect();
    if (heap.denials.load_relaxed() == denials) scavenge();
    block = allocate_of_once(heap, bytes, alignment, zeroed, chosen);
  }
  if (block != nullptr && chosen) sample(heap, block, bytes);
  if (block != nullptr) return block;
  if (heap.denials.load_relaxed() != denials) heap.refusals.fetch_add_relaxed(1);
  return refused();
}

void copy_stats(const OwnHeap& heap, freeway_heap_stats_t& stats) {
  const auto figures = all().figures(heap);
  memset(&stats, 0, sizeof(stats));
  const guard::Sum guarded = guard::live_of(heap.handle.load_relaxed());
  stats.live = figures.live_bytes + guarded.bytes;
  stats.live_blocks = figures.live_blocks + guarded.blocks;
  stats.held = figures.held_bytes;
  stats.limit = figures.limit;
  stats.refusals = figures.refusals;
  stats.large_blocks = figures.whole_blocks;
  static_assert(sizeof(stats.name) == heap::kNameBytes);
  for (std::size_t i = 0; i < sizeof(stats.name); ++i) stats.name[i] = static_cast<char>(heap.name[i].load_relaxed());
}

}  // namespace

u64 make(std::size_t limit, const char* name) {
  if (limit != 0 && limit < kFrameSize) return errno = EINVAL, 0;
  const u64 handle = process_malloc.open() ? all().create(limit / kFrameSize, name) : 0;
  if (handle == 0) errno = ENOMEM;
  return handle;
}

namespace {

// A strip or large block of a heap that ends.
void gone(const heap::Run<Machine>& run) {
  if (heap::Heaps::StripsOf::heap_of(run).is_sampled.load_relaxed() != 0)
    heap::Heaps::StripsOf::each_followed(run, [](uptr block) { profile::freed(block); });
  if (run.is_whole.load_relaxed() != 0) process_malloc.substrate().count_large(-1);
}

}  // namespace

int destroy(u64 handle, const void* caller) {
  if (!process_malloc.ready() || !all().destroy(handle, gone)) return EINVAL;
  guard::give_all(handle, caller, report_overrun);
  return 0;
}

void* allocate(u64 handle, std::size_t bytes, std::size_t alignment, bool zeroed, const void* caller) {
  auto* heap = all().find(handle);
  if (FREEWAY_UNLIKELY(heap == nullptr)) return errno = EINVAL, nullptr;
  if (void* block = alignment <= kMinBlock ? guarded(*heap, bytes, caller) : nullptr)
    return zeroed ? memset(block, 0, bytes) : block;
  return allocate_of(*heap, bytes, alignment, zeroed);
}

FREEWAY_NOINLINE void* allocate_slow(u64 handle, std::size_t bytes) {
  return allocate(handle, bytes, kMinBlock, /*zeroed=*/false, __builtin_return_address(0));
}

void* reallocate(u64 handle, void* block, std::size_t bytes, const void* caller) {
  if (block == nullptr) return allocate(handle, bytes, kMinBlock, /*zeroed=*/false, caller);
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = process_malloc.map().get(address);
  auto* heap = process_malloc.ready() ? all().find(handle) : nullptr;
  const bool is_its = info.is_of_heap() ? all().block_around(info.value(), address).heap == heap
                                        : guard::owns(address) && guard::owner(address) == handle;
  if (heap == nullptr || !is_its) return errno = EINVAL, nullptr;
  return family::reallocate(block, bytes, caller);
}

namespace {

// Takes apart what CPUs have in hand, and gives free pages to the kernel; frames that the heap holds less then.
u64 give_back(OwnHeap& heap) {
  const u64 before = limit_word::held(heap.held.load_relaxed());
  heap.collect();
  const u64 after = limit_word::held(heap.held.load_relaxed());
  heap.purge();
  return before - clamp(after, 0, before);
}

}  // namespace

std::size_t trim(u64 handle) {
  auto* heap = process_malloc.ready() ? all().find(handle) : nullptr;
  if (heap == nullptr) return 0;
  const std::size_t frames = give_back(*heap), bytes = frames * kFrameSize;
  process_malloc.substrate().frames().purge_some(frames, process_malloc.substrate().frames().policy().kept());
  return bytes;
}

u32 trim_some(u32 from, std::size_t& effort) {
  constexpr std::size_t kLook = kFrameSize;  // bytes that are given back in about the same time
  const auto trim = [&](OwnHeap& heap) {
    effort -= clamp(kLook + give_back(heap) * kFrameSize, 0, effort);
    return effort > 0;
  };
  return all().visit_each(from, trim, gone);
}

bool some_idle(u64 now) {
  bool found = false;
  all().each([&](OwnHeap& heap) { found = all().is_idle(heap, now) || found; });
  return found;
}

void collect_all(u64 now) {
  const auto collect = [now](OwnHeap& heap) {
    if (now == 0 || all().is_idle(heap, now)) heap.collect();
    return true;
  };
  all().visit_each(0, collect, gone);
}

}  // namespace freeway::heaps

// A block that begins in such a frame of the primary arena goes into a magazine at once.
extern "C" void freeway_free_own(void* block, freeway::u64, freeway::u64 frame) {
  using namespace freeway;
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = process_malloc.map().get_primary(frame);
  if (FREEWAY_LIKELY(info.is_of_heap())) {
    const auto found = process_malloc.heap().own_heaps.small_at(info.value(), address);
    if (FREEWAY_LIKELY(found.size_class != 0)) return freeway_rseq_free_own(block, found.size_class, found.heap);
  }
  free_otherwise(block, __builtin_return_address(0));
}

namespace freeway::heaps {

// --- Blocks ----------------------------------------------------------------------------------------------------------

namespace {

FREEWAY_NOINLINE void unfollow(uptr address, FrameInfo info) {
  auto* run = all().run_at(info.value());
  if (run != nullptr && all().strips().unfollow(*run, address)) profile::freed(address);
}

}  // namespace

void free(uptr address, FrameInfo info, const void* caller) {
  using heap::Freed;
  if (FREEWAY_UNLIKELY(profile::has_samples())) unfollow(address, info);
  bool was_whole = false;
  const Freed freed = all().free(info.value(), address, was_whole);
  if (FREEWAY_UNLIKELY(was_whole)) process_malloc.substrate().count_large(-1);
  if (FREEWAY_LIKELY(freed == Freed::kOk)) return;
  const Fault inside = address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
  bad(freed == Freed::kTwice ? Fault::kDoubleFree : inside, "free", reinterpret_cast<void*>(address), caller);
}

std::size_t usable(uptr address, FrameInfo info) {
  const auto block = all().block_around(info.value(), address);
  return block.address == address && !block.is_free ? block.bytes : 0;
}

bool may_be(uptr address, FrameInfo info, std::size_t bytes, const Told& told) {
  const auto block = all().block_around(info.value(), address);
  if (told.may_be_resized && keeps(told.size, bytes)) return true;
  return block.is_whole ? sizes::bytes_asked(told) <= bytes && bytes - sizes::bytes_asked(told) < kFrameSize
                        : class_of_aligned(told.size, told.alignment) == block.size_class;
}

// It stays in its heap.
void* resize(uptr address, FrameInfo info, std::size_t bytes, const void* caller) {
  auto* block = reinterpret_cast<void*>(address);
  const std::size_t old_bytes = usable(address, info);
  if (old_bytes == 0) {
    bad(classify(address, info), "realloc", block, caller);
    return refused();
  }
  const auto found = all().block_around(info.value(), address);
  if (keeps(bytes, old_bytes)) {
    if (FREEWAY_UNLIKELY(profile::has_samples()) && found.is_whole) profile::freed(address);
    if (FREEWAY_UNLIKELY(profile::is_on()) && found.is_whole && is_chosen(bytes)) sample(*found.heap, block, bytes);
    return block;
  }
  void* other = allocate(found.heap->handle.load_relaxed(), bytes, kMinBlock, /*zeroed=*/false, caller);
  if (other == nullptr) return nullptr;
  memcpy(other, block, bytes < old_bytes ? bytes : old_bytes);
  free(address, info, caller);
  return other;
}

// --- Figures ---------------------------------------------------------------------------------------------------------

void explain(uptr address, FrameInfo info, freeway_explanation_t& found) {
  const auto block = all().block_around(info.value(), address);
  if (block.address == 0) return explanation::other(found, FREEWAY_FREE_MEMORY, "in a heap of the program's own");
  const bool is_free = block.is_free || all().seems_in_hand(block);
  explanation::block(found, block.is_whole ? FREEWAY_LARGE_BLOCK : FREEWAY_SMALL_BLOCK,
                     is_free ? FREEWAY_FREE : FREEWAY_LIVE, block.address, block.bytes, address);
  found.what = "of a heap of the program's own";
}

void fill_block_info(uptr address, FrameInfo info, freeway_block_info_t& found) {
  const auto block = all().block_around(info.value(), address);
  if (block.address != address || block.is_free) return;
  found.size = block.bytes;
  found.kind = block.is_whole ? FREEWAY_LARGE_BLOCK : FREEWAY_SMALL_BLOCK;
  found.superblock_size = block.bytes;  // what would go back with it is not known
  found.superblock_blocks = found.superblock_live = 1;
  found.class_permille = 1000;
}

int fill_stats(u64 handle, freeway_heap_stats_t& stats) {
  auto* heap = process_malloc.ready() ? all().find(handle) : nullptr;
  if (heap == nullptr) return EINVAL;
  copy_stats(*heap, stats);
  return 0;
}

// clang-format off: lines of text stay lines
void write(int fd) {
  if (!process_malloc.ready()) return;
  all().each([&](auto& heap) {
    freeway_heap_stats_t stats;
    copy_stats(heap, stats);
    Line line;
    line.text("  heap ").quoted(stats.name, sizeof(stats.name)).text(": live ").bytes(stats.live).text(" in ")
        .number(stats.live_blocks).text(" blocks, holds ").bytes(stats.held);
    if (stats.limit != 0) line.text(" of ").bytes(stats.limit).text(", refused ").number(stats.refusals).text(" times");
    line.write(fd);
  });
}

void write_json(int fd) {
  if (!process_malloc.ready()) return;
  bool first = true;
  all().each([&](auto& heap) {
    freeway_heap_stats_t stats;
    copy_stats(heap, stats);
    Line().text(first ? " ],\n \"heaps\": [\n  " : "  ,").text("{\"name\": ").string(stats.name, sizeof(stats.name))
        .text(", \"live\": ").number(stats.live).text(", \"live_blocks\": ").number(stats.live_blocks)
        .text(", \"held\": ").number(stats.held).text(", \"limit\": ").number(stats.limit).text(", \"refusals\": ")
        .number(stats.refusals).text("}").write(fd);
    first = false;
  });
}
// clang-format on

}  // namespace freeway::heaps

// The sections have found no block for it.
extern "C" FREEWAY_HIDDEN void* freeway_malloc_own_slow(void* record, std::size_t bytes, freeway::u64 c) {
  using namespace freeway;
  auto& heap = *static_cast<heap::OwnHeap*>(record);
  if (void* block = heaps::guarded(heap, bytes, __builtin_return_address(0))) return block;
  void* block = heaps::all().allocate(heap, static_cast<unsigned>(c));
  return FREEWAY_LIKELY(block != nullptr) ? block : heaps::allocate_of(heap, bytes, kMinBlock, /*zeroed=*/false);
}
