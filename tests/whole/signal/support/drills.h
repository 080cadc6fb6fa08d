// SPDX-License-Identifier: MIT
//
// Drills: short programs over a table of blocks, which between them go through all paths of an allocator: magazines,
// batches, superblocks that fill up and become empty, large and huge blocks, aligned ones, trimming, refusals. They are
// run again and again while one instruction of the allocator after the other is interrupted.
//
// A block leaves the table before a call may lose it, and `in_hand` says what a jump out of the call would lose, so a
// drill may be left at any instruction and the next one goes on with the same table. From kRare on they are
// rare_drills.h's: those are run once, in a process of their own.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_DRILLS_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_DRILLS_H

#include <malloc.h>

#include <cstddef>
#include <cstdint>

#include "tests/support/engine_under_test.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/losable_slots.h"
#include "tests/whole/signal/support/name_drills.h"
#include "tests/whole/signal/support/rare_drills.h"

namespace freeway_test {

class Drills : public LosableSlots {
 public:
  static constexpr size_t kTable = 2048;
  static constexpr size_t kKeepsakes = 8;

  explicit Drills(uint64_t seed) : LosableSlots(table_, seed) {}

  // The cheap ones first: a tour of all instructions takes the first drill that comes by.
  enum Drill : size_t {
    kPairs,
    kRefusals,
    kAligned,
    kResizes,
    kSmallBurst,
    kMediumBurst,
    kGrowing,
    kRefused,
    kLarge,
    kHuge,
    kTrim,
    kBatches,
    kOtherNames,
    kOwnHeaps,
    kNotCommitted,
    kRare
  };
  static constexpr size_t kCount = kRare;  // of those that may be run again and again
  static size_t count_with_rare() { return kRare + (freeway::test::on_flagship() ? RareDrills::kCount : 0); }
  static constexpr bool is_rare(size_t drill) { return drill >= kRare; }

  void run(size_t drill) {
    switch (drill) {
      case kPairs: return pairs();
      case kRefusals: return refusals();
      case kAligned: return aligned();
      case kResizes: return resizes();
      case kSmallBurst: return burst(random_.one_in(2) ? 32u << random_.below(5) : random_.between(16, 1024), 300);
      case kMediumBurst: return burst(random_.between(1025, 32768), 24);
      case kGrowing: return burst(random_.between(16, 64), 1500);  // more than a magazine holds before it grows
      case kRefused: return refused();
      case kLarge: return large();
      case kHuge: return huge();
      case kTrim: return trim();
      case kBatches: return random_.one_in(3) ? names_.moves() : names_.batches();
      case kOtherNames: return names_.other_names();
      case kOwnHeaps: return names_.heaps();
      case kNotCommitted: return not_committed();
      default: return rare_.run(drill - kRare);
    }
  }

  // What a handler does that interrupted `other`: first of all the very size class that is in the midst of a change, so
  // that both are at the same magazine, superblock and bitmap word; and it keeps some of the blocks until the next
  // time, so that what it leaves behind is not what it found.
  void run_in_handler(const Drills& other) {
    lift_memory_limit();
    const size_t size = other.last_size_;
    keep(size);
    burst(size, size <= 1024 ? 300 : 20);
    constexpr Drill kShort[] = {kPairs, kResizes, kSmallBurst, kMediumBurst};
    run(kShort[random_.below(4)]);
  }

  // Gives back what interrupted drills left in the table.
  void empty() {
    for (size_t i = 0; i < kTable; i++) drop(i);
  }
  void verify_all(const char* where) const {
    for (void* const volatile& slot : table_)
      if (const void* block = slot) verify(block, where);
  }
  // After a jump out of a call: what it had in hand is lost.
  void clear_in_hand() {
    note(0);
    superblocks_in_hand_ = 1;
  }

 private:
  // Gets new keepsakes before it gives the old ones back.
  void keep(size_t size) {
    const size_t first = kTable - 2 * kKeepsakes, turn = kept_++ % 2;
    for (size_t i = 0; i < kKeepsakes; i++) get(first + turn * kKeepsakes + i, size);
    for (size_t i = 0; i < kKeepsakes; i++) drop(first + (1 - turn) * kKeepsakes + i);
  }

  void pairs() {
    for (size_t i = 0; i < 12; i++) {
      get(i, random_size(random_, kSmallOnly));
      drop(random_.below(12));
    }
  }
  // In order, or every other one first: superblocks become partly free, then empty.
  void burst(size_t size, size_t count) {
    for (size_t i = 0; i < count; i++) get(i, size);
    const size_t step = random_.one_in(2) ? 1 : 7;
    for (size_t first = 0; first < step; first++)
      for (size_t i = first; i < count; i += step) drop(i);
  }
  void large() {
    for (size_t i = 0; i < 4; i++) get(i, random_.between(32769, 200'000));
    for (size_t i = 0; i < 4; i++) resize(i, random_.between(32769, 400'000));
    for (size_t i = 0; i < 4; i++) drop(random_.one_in(2) ? i : 3 - i);
  }
  void resizes() {
    for (size_t i = 0; i < 8; i++) get(i, random_.between(16, 100));
    for (size_t size = 200; size < 300'000; size = size * 3 / 2 + random_.below(size)) resize(random_.below(8), size);
    for (size_t i = 0; i < 8; i++) resize(i, random_.between(16, 2000));
  }
  void aligned() {
    for (size_t i = 0; i < 12; i++) {
      drop(i);
      const size_t alignment = size_t{16} << random_.below(i < 10 ? 9 : 17);
      const size_t size = random_.between(16, 5000);
      note(size + alignment);
      enter_allocator(Call::kAlignedAlloc);
      void* block = ::aligned_alloc(alignment, size);
      leave_allocator();
      require(block != nullptr && reinterpret_cast<uintptr_t>(block) % alignment == 0, "aligned_alloc", alignment,
              reinterpret_cast<uintptr_t>(block));
      enter_allocator(Call::kUsableSize);
      const size_t usable = ::malloc_usable_size(block);
      leave_allocator();
      require(usable >= size, "usable size", usable, size);
      stamp(block, size, static_cast<uint32_t>(random_.next()));
      table_[i] = block;
      note(0);
    }
    for (size_t i = 0; i < 12; i++) drop(i);
  }
  // From a few MiB to a mapping of its own; of the pages only a few are touched.
  void huge() {
    for (const size_t mib : {5u, 60u, 300u}) {
      note((2 * mib + 30) << 20);
      void* block = huge_block(mib << 20);
      if (block == nullptr) continue;
      stamp(block, 4096, 1);
      enter_allocator(Call::kUsableSize);
      const size_t usable = ::malloc_usable_size(block);
      leave_allocator();
      require(usable >= mib << 20, "usable size of a huge block", usable, mib << 20);
      for (const size_t size : {(mib + 30) << 20, mib << 20, size_t{1} << 20}) {
        enter_allocator(Call::kRealloc);
        void* moved = ::realloc(block, size);
        leave_allocator();
        require(moved != nullptr, "realloc of a huge block");
        verify(moved, "a huge block lost its contents");
        block = moved;
      }
      enter_allocator(Call::kFree);
      ::free(block);
      leave_allocator();
    }
    note(0);
  }
  void* huge_block(size_t size) {
    void* block = nullptr;
    switch (random_.below(4)) {
      case 0:
        enter_allocator(Call::kCalloc);
        // The memory of what is not a mapping of its own may have been in use: all of it would be written.
        block = ::calloc(1, size < (size_t{256} << 20) ? size / 8 : size);
        leave_allocator();
        if (size < (size_t{256} << 20) && block != nullptr) {
          enter_allocator(Call::kRealloc);
          block = ::realloc(block, size);
          leave_allocator();
        }
        return block;
      case 1:
        enter_allocator(Call::kAlignedAlloc);
        block = ::aligned_alloc(size_t{1} << (13 + random_.below(10)), size);
        break;
      case 2:
        enter_allocator(Call::kPosixMemalign);
        if (::posix_memalign(&block, size_t{1} << 20, size) != 0) block = nullptr;
        break;
      default: enter_allocator(Call::kMalloc); block = ::malloc(size);
    }
    leave_allocator();
    return block;
  }
  void refusals() {
    const volatile size_t too_much = SIZE_MAX / 2 + 1;
    enter_allocator(Call::kMalloc);
    void* volatile block = ::malloc(too_much);
    leave_allocator();
    require(block == nullptr, "an impossible size was given");
    for (const size_t count : {size_t{1}, size_t{4}}) {
      enter_allocator(Call::kCalloc);
      block = ::calloc(too_much, count);
      leave_allocator();
      require(block == nullptr, "an impossible size was given");
    }
    enter_allocator(Call::kAlignedAlloc);
    block = ::aligned_alloc(64, too_much);
    leave_allocator();
    require(block == nullptr, "an impossible size was given");
    const volatile size_t no_alignment = 24;
    void* none = nullptr;
    enter_allocator(Call::kPosixMemalign);
    const int error = ::posix_memalign(&none, no_alignment, 100);
    leave_allocator();
    require(error != 0, "an impossible alignment was given");
    enter_allocator(Call::kAlignedAlloc);
    block = ::aligned_alloc(no_alignment, 100);
    leave_allocator();
    require(block == nullptr, "an impossible alignment was given");
    enter_allocator(Call::kFree);
    ::free(block);
    leave_allocator();
    enter_allocator(Call::kUsableSize);
    const size_t nothing = ::malloc_usable_size(block);
    leave_allocator();
    require(nothing == 0, "no block, but of some size");
    get(0, 100);
    void* kept = table_[0];
    enter_allocator(Call::kRealloc);
    block = ::realloc(kept, too_much);
    leave_allocator();
    require(block == nullptr, "an impossible size was given");
    table_[0] = nullptr;
    note(100);
    enter_allocator(Call::kRealloc);
    block = ::realloc(kept, 0);
    leave_allocator();
    note(0);
    require(block == nullptr, "realloc to no bytes gives nothing");
    note(16);
    enter_allocator(Call::kMalloc);
    block = ::malloc(0);
    leave_allocator();
    enter_allocator(Call::kFree);
    ::free(block);
    leave_allocator();
    note(0);
  }
  // The kernel refuses memory: everything that may be given back is looked for first. A handler that needs memory lifts
  // the limit; so the call may succeed after all.
  void refused() {
    for (size_t i = 0; i < 100; i++) get(i, random_.between(16, 200));
    for (size_t i = 0; i < 100; i++) drop(i);
    note(size_t{300} << 20);
    void* kept = huge_block(size_t{280} << 20);
    note(size_t{900} << 20);
    limit_memory(4096);
    void* block = huge_block(size_t{300} << 20);
    if (kept != nullptr) {
      enter_allocator(Call::kRealloc);
      void* larger = ::realloc(kept, size_t{320} << 20);
      leave_allocator();
      enter_allocator(Call::kFree);
      ::free(larger != nullptr ? larger : kept);
      leave_allocator();
    }
    lift_memory_limit();
    note(size_t{300} << 20);
    enter_allocator(Call::kFree);
    ::free(block);
    leave_allocator();
    note(0);
  }
  void trim() {
    for (size_t i = 0; i < 200; i++) get(i, random_.between(16, 3000));
    for (size_t i = 0; i < 200; i += 2) drop(i);
    enter_allocator(Call::kTrim);
    trim_heap();
    leave_allocator();
    for (size_t i = 1; i < 100; i += 2) drop(i);
    get(0, 400'000);
    drop(0);
    names_.trim_keeping_some();
    freeway_stats_t stats;
    enter_allocator(Call::kStats);
    if (heap_account.stats != nullptr) heap_account.stats(&stats, random_.one_in(2) ? sizeof stats : 32);
    (void)::mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    (void)::mallinfo();
#pragma GCC diagnostic pop
    leave_allocator();
    for (size_t i = 0; i < 200; i++) drop(i);
  }
  // The kernel refuses to make reserved memory accessible: a process may use no more than it does. What is free and
  // accessible already is used up first.
  void not_committed() {
    const size_t size = size_t{3} << 20;
    limit_memory(4096, RLIMIT_DATA);
    for (size_t i = 0; i < 120; i++) {
      note(size);
      enter_allocator(Call::kMalloc);
      void* block = ::malloc(size);
      leave_allocator();
      note(0);
      if (block == nullptr) break;
      stamp(block, 4096, static_cast<uint32_t>(i));
      void* old = table_[i];
      table_[i] = block;
      if (old != nullptr) release_block(old);
    }
    note(size);
    void* block = huge_block(size);
    enter_allocator(Call::kFree);
    ::free(block);
    leave_allocator();
    note(0);
    lift_memory_limit();
    for (size_t i = 0; i < 120; i++) drop(i);
  }

  size_t kept_ = 0;
  void* volatile table_[kTable] = {};
  NameDrills names_{in_hand_, random_};
  RareDrills rare_{in_hand_, superblocks_in_hand_};
};

}  // namespace freeway_test
#endif
