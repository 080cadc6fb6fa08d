// SPDX-License-Identifier: MIT
//
// Paths: a thread's way through all slow paths of the library, leg by leg, the cheap ones first. It may be stopped, for
// ever, at any step: a block leaves the table before a call may lose it, and in_hand() says what it would lose now.
#ifndef FREEWAY_TESTS_STALL_STEPPING_PATHS_H
#define FREEWAY_TESTS_STALL_STEPPING_PATHS_H

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/losable_slots.h"

namespace freeway_test {

class Paths : public LosableSlots {
 public:
  Paths() : LosableSlots(nullptr, 0) {}

  enum Leg : size_t {
    kSmall,
    kMedium,
    kSwing,
    kPartial,
    kMoves,
    kResizes,
    kLarge,
    kOwnHeaps,
    kHuge,
    kTrim,
    kProfiles,
    kRefused,
    kBulk,
    kLegs
  };

  // Outside the heap.
  void begin(uint64_t seed) {
    random_ = Random(seed);
    if (slots_ != nullptr) return;
    void* memory = ::mmap(nullptr, kTable * sizeof(void*), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "no mapping");
    slots_ = static_cast<void* volatile*>(memory);
  }

  void run(size_t leg) {
    switch (leg) {
      case kSmall:
        return burst(random_.one_in(2) ? 32u << random_.below(5) : random_.between(kSmallestBlock, 1024), 400);
      case kMedium: return burst(random_.between(1025, 32768), 40);
      case kSwing:
        for (int i = 0; i < 3; i++) burst(32, 1200);  // more than a magazine holds before it grows
        return;
      case kPartial: return partial(random_.between(400, 1000));
      case kMoves: return moves();
      case kResizes: return resizes();
      case kLarge: return large();
      case kOwnHeaps: return own_heaps();
      case kHuge: return huge();
      case kTrim: return trim();
      case kProfiles: return profiles();
      case kRefused: return refused();
      default: return bulk();
    }
  }

  // Blocks that are live when the thread ends.
  void leave_some() {
    for (size_t i = 0; i < 300; i++) get(i, random_.between(kSmallestBlock, 3000));
    for (size_t i = 300; i < kStamped; i++) get(i, 48);  // superblocks in which nothing is free
  }

  // What other threads may do at the same time, too: all that does not concern the whole process.
  void run_beside_others() {
    for (size_t leg = 0; leg < kRefused; leg++) run(leg);
    verify("a block is damaged beside a stopped thread");
  }
  static constexpr size_t kLegsBesideOthers = kRefused;

  void verify(const char* where) const {
    for (size_t i = 0; i < kStamped; i++)
      if (const void* block = slots_[i]) freeway_test::verify(block, where);
  }
  void empty() {
    for (size_t i = 0; i < kStamped; i++) drop(i);
    for (size_t i = kStamped; i < kTable; i++) drop_plain(i);
    note(0);
  }

 private:
  static constexpr size_t kStamped = 1500, kTable = kStamped + 280'000;
  static constexpr size_t kMiB = size_t{1} << 20;

  void drop_plain(size_t i) {
    void* block = slots_[i];
    slots_[i] = nullptr;
    if (block != nullptr) ::free(block);
  }

  // Superblocks become full, partly free, then empty; some in another order than that of their blocks.
  void burst(size_t size, size_t count) {
    for (size_t i = 0; i < count; i++) get(i, size);
    for (size_t first = 0; first < 7; first++)
      for (size_t i = first; i < count; i += 7) drop(i);
  }
  // Neighbours that are partly free, which refills go on to one after the other.
  void partial(size_t size) {
    constexpr size_t kMany = 1400;
    for (size_t i = 0; i < kMany; i++) get(i, size);
    for (size_t i = 0; i < kMany; i += 2) drop(i);
    for (size_t i = 0; i < kMany; i += 2) get(i, size);
    for (size_t i = 0; i < kMany; i++) drop(i);
  }
  // What is left in many superblocks moves to a few of them, where the hint says so.
  void moves() {
    constexpr size_t kMany = 1400, kSize = 5000, kNew = kMany;  // magazines hold at most a hundred of these
    for (size_t i = 0; i < kMany; i++) get(i, kSize);
    for (size_t i = 0; i < kMany; i++)
      if (i % 4 != 0) drop(i);
    // The averages that decide are renewed while one asks.
    const size_t asked = heap_account.should_move == nullptr ? 0 : 6 * kMany;
    for (size_t n = 0; n < asked; n += 4) {
      const size_t i = n % kMany;
      if (slots_[i] == nullptr || heap_account.should_move(slots_[i]) == 0) continue;
      get(kNew, kSize);
      drop(i);
      slots_[i] = slots_[kNew];
      slots_[kNew] = nullptr;
    }
    for (size_t i = 0; i <= kMany; i++) drop(i);
  }
  // A profile ends and begins, where there is one, and samples what it has not seen yet.
  void profiles() {
    if (heap_account.profile_start == nullptr || ::getenv("FREEWAY_PROFILE") == nullptr) return;
    heap_account.profile_stop();
    heap_account.profile_start(64 + random_.below(64));
    burst(random_.between(kSmallestBlock, 3000), 40);
  }
  void resizes() {
    for (size_t size = 40; size < 300'000; size = size * 3 / 2 + random_.below(size)) resize(random_.below(8), size);
    for (size_t i = 0; i < 8; i++) resize(i, random_.between(16, 2000));
    for (size_t i = 0; i < 8; i++) drop(i);
  }
  // Runs of frames that follow each other; growth that finds its way free, or blocked behind the end of a chunk.
  void large() {
    constexpr size_t kRuns = 12, kFrames = 20;
    for (size_t i = 0; i < kRuns; i++) get(i, random_.between(kFrames - 2, kFrames) * kFrameBytes);
    for (size_t i = 1; i < kRuns; i += 2) drop(i);
    for (size_t i = 0; i < kRuns; i += 2) resize(i, random_.between(kFrames + 2, 3 * kFrames) * kFrameBytes);
    for (size_t i = 0; i < kRuns; i += 2) resize(i, random_.between(2, kFrames) * kFrameBytes);
    for (size_t i = 0; i < kRuns; i++) drop(i);
  }
  // A heap that is filled, emptied but for some blocks, trimmed, filled again and destroyed: small blocks, of strips
  // and superblocks, and those that have frames of their own.
  void own_heaps() {
    constexpr size_t kCount = 500;
    if (heap_account.heap_new == nullptr) return;
    note(8 * kMiB);
    const freeway_heap_t heap = heap_account.heap_new(nullptr, 0);
    void* blocks[kCount];
    for (int round = 0; heap != nullptr && round < 3; round++) {
      for (size_t i = 0; i < kCount; i++) {
        const size_t size = i % 100 == 99 ? 100'000 : i % 3 == 0 ? 48 : i % 3 == 1 ? 300 + i : 2100 + 3 * i;
        blocks[i] =
            i % 20 == 19 ? heap_account.heap_aligned_alloc(heap, 4096, size) : heap_account.heap_malloc(heap, size);
      }
      for (size_t i = 0; i < kCount; i++)
        if (blocks[i] != nullptr && round < 2 && i % 7 != 3) ::free(blocks[i]);
      if (round == 1) heap_account.heap_trim(heap);
    }
    if (heap != nullptr) heap_account.heap_destroy(heap);
    // One of which all is free again.
    const freeway_heap_t other = heap_account.heap_new(nullptr, 0);
    for (size_t i = 0; other != nullptr && i < kCount; i++) blocks[i] = heap_account.heap_malloc(other, 200);
    for (size_t i = 0; other != nullptr && i < kCount; i++)
      if (blocks[i] != nullptr) ::free(blocks[i]);
    if (other != nullptr) heap_account.heap_trim(other);
    if (other != nullptr) heap_account.heap_destroy(other);
    note(0);
  }
  // Of the pages only a few are touched. The second block is in the way of the first one: a mapping that must move; a
  // run whose pages move to a mapping.
  void huge() {
    constexpr size_t i = kStamped;
    note(2500 * kMiB);
    for (const size_t mib : {300, 10}) {
      slots_[i] = ::malloc(mib * kMiB);
      slots_[i + 1] = ::malloc(mib * kMiB);
      for (const size_t next : {mib + 30, mib + 400, mib}) resize_plain(i, next * kMiB);
      drop_plain(i);
      drop_plain(i + 1);
    }
    note(0);
  }
  void resize_plain(size_t i, size_t bytes) {
    void* const block = slots_[i];
    slots_[i] = nullptr;
    if (block == nullptr) return;  // where the kernel refuses mappings
    void* const moved = ::realloc(block, bytes);
    slots_[i] = moved == nullptr ? block : moved;
  }
  void trim() {
    for (size_t i = 0; i < 300; i++) get(i, random_.between(16, 3000));
    for (size_t i = 0; i < 300; i += 2) drop(i);
    trim_heap();
    for (size_t i = 0; i < 300; i++) drop(i);
    trim_heap();
  }
  // The kernel grants a new place for a run's pages, and then no more: they go back.
  void growth_refused() {
    constexpr size_t i = kStamped, kRun = 10 * kMiB;
    note(4 * kRun);
    slots_[i] = ::malloc(kRun);
    slots_[i + 1] = ::malloc(kRun);
    limit_memory(private_bytes() + kRun * 3 / 2, RLIMIT_DATA);
    resize_plain(i, 2 * kRun);
    lift_memory_limit();
    drop_plain(i);
    drop_plain(i + 1);
    note(0);
  }
  // What RLIMIT_DATA is about.
  static size_t private_bytes() {
    char text[4096];
    read_start("/proc/self/status", text, sizeof text);
    const char* line = std::strstr(text, "VmData:");
    return line == nullptr ? 0 : std::strtoul(line + 7, nullptr, 10) << 10;
  }
  // The kernel refuses memory: everything that may be given back is looked for first.
  void refused() {
    growth_refused();
    for (size_t i = 0; i < 100; i++) get(i, random_.between(16, 200));
    for (size_t i = 0; i < 100; i++) drop(i);
    note(size_t{300} << 20);
    limit_memory(4096);
    void* block = ::malloc(size_t{300} << 20);
    lift_memory_limit();
    ::free(block);
    note(0);
  }
  // Many blocks that are never touched, until further arenas and segments of metadata are needed.
  void bulk() {
    constexpr size_t kBytes = 2048;
    note(kBytes);
    for (size_t i = kStamped; i < kTable; i++) {
      void* const block = ::malloc(kBytes);
      if (block == nullptr) break;  // where the kernel refuses mappings
      slots_[i] = block;
    }
    for (size_t i = kStamped; i < kTable; i++) drop_plain(i);
    note(0);
  }
};

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_STALL_STEPPING_PATHS_H
