// SPDX-License-Identifier: MIT
// front_heaps.h: the part of Front that has heaps of one's own: what the program asks of them, and what becomes of their blocks
// in free, realloc and the rest. Included by front.h.
#pragma once

#include "heap/heaps.h"

namespace freeway {

template <Engine E>
u64 Front<E>::make_heap(std::size_t limit, const char* name) {
  if constexpr (kOwnHeaps) {
    if (limit != 0 && limit < kFrameSize) return errno = EINVAL, 0;
    const u64 handle = start() && ready() ? engine_.own_heaps().create(limit / kFrameSize, name) : 0;
    if (handle == 0) errno = ENOMEM;
    return handle;
  }
  return errno = ENOTSUP, 0;
}

template <Engine E>
int Front<E>::destroy_heap(u64 handle) {
  if constexpr (kOwnHeaps) {
    const bool done = ready() && engine_.own_heaps().destroy(handle, [this](auto& region) {
      if (region.is_whole.load_relaxed() != 0) substrate_.count_large(-1);
    });
    return done ? 0 : EINVAL;
  }
  return ENOTSUP;
}

template <Engine E>
void* Front<E>::allocate_in(u64 handle, std::size_t bytes, std::size_t alignment, bool zeroed) {
  if constexpr (kOwnHeaps) {
    auto* heap = engine_.own_heaps().find(handle);
    if (FREEWAY_UNLIKELY(heap == nullptr)) return errno = EINVAL, nullptr;
    return allocate_of(*heap, bytes, alignment, zeroed);
  }
  return errno = ENOTSUP, nullptr;
}

// As malloc. Blocks that a CPU has in hand come at once.
template <Engine E>
FREEWAY_INLINE void* Front<E>::allocate_in(u64 handle, std::size_t bytes) {
  if constexpr (kOwnHeaps) {
    auto* heap = engine_.own_heaps().find(handle);
    if (FREEWAY_LIKELY(heap != nullptr))
      if (const unsigned c = engine_.class_of_request(bytes); FREEWAY_LIKELY(c != 0))
        return engine_.own_heaps().allocate_at_once(*heap, c, bytes);
  }
  return allocate_in(handle, bytes, kMinBlock, /*zeroed=*/false);
}

template <Engine E>
template <class Record>
void* Front<E>::allocate_in_record(Record& heap, std::size_t bytes) {
  void* block = engine_.own_heaps().allocate(heap, engine_.class_of_request(bytes));
  return FREEWAY_LIKELY(block != nullptr) ? block : allocate_of(heap, bytes, kMinBlock, /*zeroed=*/false);
}

template <Engine E>
template <class Record>
FREEWAY_NOINLINE void* Front<E>::allocate_of(Record& heap, std::size_t bytes, std::size_t alignment, bool zeroed) {
  if (bytes > kMaxSize) return refused();
  const u64 denials = heap.denials.load_relaxed();
  void* block = allocate_of_once(heap, bytes, alignment, zeroed);
  if (block == nullptr) {  // what CPUs have in hand, or free memory of others, if it was not the heap's own limit
    engine_.own_heaps().trim(heap);
    if (heap.denials.load_relaxed() == denials) scavenge();
    block = allocate_of_once(heap, bytes, alignment, zeroed);
  }
  if (block != nullptr) return block;
  if (heap.denials.load_relaxed() != denials) heap.refusals.fetch_add_relaxed(1);
  return refused();
}

template <Engine E>
template <class Record>
void* Front<E>::allocate_of_once(Record& heap, std::size_t bytes, std::size_t alignment, bool zeroed) {
  if (const unsigned c = class_of_aligned(bytes, alignment)) {
    void* block = engine_.own_heaps().allocate_aligned(heap, c, alignment);
    if (block != nullptr && zeroed) memset(block, 0, bytes);
    return block;
  }
  bool zero = false;
  const std::size_t frames = ceil_div(clamp(bytes, 1, bytes), kFrameSize);
  if (frames > kMaxFrames || alignment > (std::size_t{1} << 46)) return nullptr;
  void* block = engine_.own_heaps().allocate_whole(heap, frames, clamp(alignment / kFrameSize, 1, alignment), zero);
  if (block == nullptr) return nullptr;
  substrate_.count_large(1);
  if (zeroed && !zero) memset(block, 0, bytes);
  return block;
}

template <Engine E>
void* Front<E>::reallocate_in(u64 handle, void* block, std::size_t bytes, const void* caller) {
  if constexpr (kOwnHeaps) {
    if (block == nullptr) return allocate_in(handle, bytes);
    const auto address = reinterpret_cast<uptr>(block);
    const FrameInfo info = substrate_.map().get(address);
    auto* heap = ready() ? engine_.own_heaps().find(handle) : nullptr;
    if (heap == nullptr || !info.is_of_heap() || engine_.own_heaps().block_around(info.value(), address).heap != heap)
      return errno = EINVAL, nullptr;
    if (bytes != 0) return reallocate_of_heap(address, info, bytes, caller);
    free_of_heap(address, info, caller);
    return nullptr;
  }
  return errno = ENOTSUP, nullptr;
}

template <Engine E>
std::size_t Front<E>::trim_heap(u64 handle) {
  if constexpr (kOwnHeaps) {
    auto* heap = ready() ? engine_.own_heaps().find(handle) : nullptr;
    if (heap == nullptr) return 0;
    const std::size_t bytes = engine_.own_heaps().trim(*heap);
    substrate_.frames().purge_some(bytes / kFrameSize, substrate_.frames().policy().kept());
    return bytes;
  }
  return 0;
}

// --- Blocks ------------------------------------------------------------------------------------------------------------

template <Engine E>
void Front<E>::free_of_heap(uptr address, FrameInfo info, const void* caller) {
  if constexpr (kOwnHeaps) {
    using heap::Freed;
    bool was_whole = false;
    const Freed freed = engine_.own_heaps().free(info.value(), address, was_whole);
    if (FREEWAY_UNLIKELY(was_whole)) substrate_.count_large(-1);
    if (FREEWAY_LIKELY(freed == Freed::kOk)) return;
    const Fault inside = address % kMinBlock != 0 ? Fault::kMisaligned : Fault::kInterior;
    bad(freed == Freed::kTwice ? Fault::kDoubleFree : inside, "free", reinterpret_cast<void*>(address), caller);
  }
}

// Bytes of the live block that begins at the address; 0: none does.
template <Engine E>
std::size_t Front<E>::usable_of_heap(uptr address, FrameInfo info) {
  if constexpr (kOwnHeaps) {
    const auto block = engine_.own_heaps().block_around(info.value(), address);
    return block.address == address && !block.is_free ? block.bytes : 0;
  }
  return 0;
}

// It stays in its heap.
template <Engine E>
void* Front<E>::reallocate_of_heap(uptr address, FrameInfo info, std::size_t bytes, const void* caller) {
  if constexpr (kOwnHeaps) {
    auto* block = reinterpret_cast<void*>(address);
    const std::size_t old_bytes = usable_of_heap(address, info);
    if (old_bytes == 0) {
      bad(classify(address, info), "realloc", block, caller);
      return refused();
    }
    if (bytes <= old_bytes && (bytes > old_bytes / 2 || old_bytes <= kMinBlock)) return block;
    void* other = allocate_of(*engine_.own_heaps().block_around(info.value(), address).heap, bytes, kMinBlock, /*zeroed=*/false);
    if (other == nullptr) return nullptr;
    memcpy(other, block, bytes < old_bytes ? bytes : old_bytes);
    free_of_heap(address, info, caller);
    return other;
  }
  return nullptr;
}

// --- Figures -----------------------------------------------------------------------------------------------------------

template <Engine E>
void Front<E>::explain_of_heap(uptr address, FrameInfo info, freeway_explanation_t& found) {
  if constexpr (kOwnHeaps) {
    const auto block = engine_.own_heaps().block_around(info.value(), address);
    if (block.address == 0) return explanation::other(found, FREEWAY_FREE_MEMORY, "in a heap of the program's own");
    const bool is_free = block.is_free || engine_.own_heaps().seems_in_hand(info.value(), block.address);
    explanation::block(found, block.is_whole ? FREEWAY_LARGE_BLOCK : FREEWAY_SMALL_BLOCK, is_free ? FREEWAY_FREE : FREEWAY_LIVE,
                       block.address, block.bytes, address);
    found.what = "of a heap of the program's own";
  }
}

template <Engine E>
void Front<E>::block_info_of_heap(uptr address, FrameInfo info, freeway_block_info_t& found) {
  if constexpr (kOwnHeaps) {
    const auto block = engine_.own_heaps().block_around(info.value(), address);
    if (block.address != address || block.is_free) return;
    found.size = block.bytes;
    found.kind = block.is_whole ? FREEWAY_LARGE_BLOCK : FREEWAY_SMALL_BLOCK;
    found.superblock_size = block.bytes;  // what would go back with it is not known
    found.superblock_blocks = found.superblock_live = 1;
    found.class_permille = 1000;
  }
}

template <class Figures, class Record>
void copy_heap_stats(const Figures& figures, const Record& heap, freeway_heap_stats_t& stats) {
  memset(&stats, 0, sizeof(stats));
  stats.live = figures.live_bytes;
  stats.live_blocks = figures.live_blocks;
  stats.held = figures.held_bytes;
  stats.limit = figures.limit;
  stats.refusals = figures.refusals;
  stats.large_blocks = figures.whole_blocks;
  static_assert(sizeof(stats.name) == heap::kNameBytes);
  for (std::size_t i = 0; i < sizeof(stats.name); ++i) stats.name[i] = static_cast<char>(heap.name[i].load_relaxed());
}

template <Engine E>
int Front<E>::fill_heap_stats(u64 handle, freeway_heap_stats_t& stats) {
  if constexpr (kOwnHeaps) {
    auto* heap = ready() ? engine_.own_heaps().find(handle) : nullptr;
    if (heap == nullptr) return EINVAL;
    copy_heap_stats(engine_.own_heaps().figures(*heap), *heap, stats);
    return 0;
  }
  return ENOTSUP;
}

template <Engine E>
void Front<E>::write_heaps(int fd) {
  if constexpr (kOwnHeaps) {
    if (!ready()) return;
    engine_.own_heaps().each([&](auto& heap) {
      freeway_heap_stats_t stats;
      copy_heap_stats(engine_.own_heaps().figures(heap), heap, stats);
      Line line;
      line.text("  heap ").quoted(stats.name, sizeof(stats.name)).text(": live ").bytes(stats.live).text(" in ")
          .number(stats.live_blocks).text(" blocks, holds ").bytes(stats.held);
      if (stats.limit != 0) line.text(" of ").bytes(stats.limit).text(", refused ").number(stats.refusals).text(" times");
      line.write(fd);
    });
  }
}

// Behind the classes: a member of its own, where there are heaps.
template <Engine E>
void Front<E>::write_heaps_json(int fd) {
  if constexpr (kOwnHeaps) {
    if (!ready()) return;
    bool first = true;
    engine_.own_heaps().each([&](auto& heap) {
      freeway_heap_stats_t stats;
      copy_heap_stats(engine_.own_heaps().figures(heap), heap, stats);
      Line().text(first ? " ],\n \"heaps\": [\n  " : "  ,").text("{\"name\": ").string(stats.name, sizeof(stats.name))
          .text(", \"live\": ").number(stats.live).text(", \"live_blocks\": ").number(stats.live_blocks)
          .text(", \"held\": ").number(stats.held).text(", \"limit\": ").number(stats.limit).text(", \"refusals\": ")
          .number(stats.refusals).text("}").write(fd);
      first = false;
    });
  }
}

}  // namespace freeway
