// SPDX-License-Identifier: MIT
// RecordPool: the records of regions that are no heap's any more, and giving their memory back to the kernel.
//
// Bunch     records side by side, of which the first is in the list and says how many they are; the others are nobody's.
//           What is behind its first line may read as zero: then it is as new
// Moves     push: a record.   pop: the first of a bunch, whose rest is pushed.   purge: takes all, makes bunches of
//           neighbours, gives their memory back but for the first line, and pushes them
// Who       any thread, any signal handler
// Progress  lock-free; purge: as many steps as n log n of n bunches
// Lost if killed, for good: the record in hand; pop: the rest of a bunch; purge: what was in the list. (Tables, no frames)
// Checked   tests/unit/heap_record_pool_test.cc, tests/abi/heap_test.cc
#pragma once

#include <string.h>

#include "heap/cells.h"

namespace freeway::heap {

template <class Env, class Backing>
class RecordPool {
 public:
  using RegionOf = Region<Env>;

  void init(Backing* backing) { backing_ = backing; }

  // The caller's.
  void push(u32 index) {
    RegionOf& one = at(index);
    one.bunch.store_relaxed(1);
    one.is_new.store_relaxed(0);
    list_.push(index, links());
  }

  // The index of a record that is the caller's then; 0: there is none.
  u32 pop() {
    const u32 index = list_.pop(links());
    if (index == 0) return 0;
    const u32 bunch = at(index).bunch.load_relaxed();
    Env::step("own.parting");
    if (bunch > 1) {
      const u32 rest = index + kStride;
      at(rest).self.store_relaxed(rest);
      at(rest).bunch.store_relaxed(bunch - 1);
      at(rest).is_new.store_relaxed(at(index).is_new.load_relaxed());
      list_.push(rest, links());
    }
    return index;
  }

  // Gives the memory of what is there back to the kernel.
  void purge(std::size_t page) {
    u32 next;
    for (u32 first = sorted(list_.take_all()); first != 0; first = next) {
      u32 bunch = at(first).bunch.load_relaxed(), parts = 1;
      for (next = link(first); next != 0 && is_behind(next, first, bunch); next = link(next), ++parts)
        bunch += at(next).bunch.load_relaxed();
      Env::step("own.purging");
      const bool is_new = parts == 1 && at(first).is_new.load_relaxed() != 0;
      if (is_new || give_back(first, bunch, page)) {
        at(first).bunch.store_relaxed(bunch);
        at(first).is_new.store_relaxed(1);
        at(first).has_kinds.store_relaxed(0);
        list_.push(first, links());
      } else {
        for (u32 index = first, below; index != next; index = below) {
          below = link(index);
          list_.push(index, links());
        }
      }
    }
  }

 private:
  static constexpr u32 kStride = kRecordUnits<RegionOf>;
  static constexpr std::size_t kLine = 64;

  RegionOf& at(u32 index) const { return *static_cast<RegionOf*>(backing_->at(index)); }
  auto links() const {
    return [this](u32 index) -> auto& { return at(index).link; };
  }
  u32 link(u32 index) const { return at(index).link.load_relaxed(); }

  bool is_behind(u32 next, u32 first, u32 bunch) const {
    const bool is_by_address = reinterpret_cast<uptr>(&at(next)) == reinterpret_cast<uptr>(&at(first) + bunch);
    return is_by_address && next == first + bunch * kStride;
  }

  // All but the bunch's first line reads as zero afterwards; false: nothing is changed.
  bool give_back(u32 first, u32 bunch, std::size_t page) {
    const uptr begin = reinterpret_cast<uptr>(&at(first)) + kLine;
    const uptr end = reinterpret_cast<uptr>(&at(first) + bunch);
    const uptr from = align_up(begin, page), to = align_down(end, page);
    if (from >= to || !Env::purge(from, to - from)) return false;
    memset(reinterpret_cast<void*>(begin), 0, from - begin);
    memset(reinterpret_cast<void*>(to), 0, end - to);
    return true;
  }

  // The list, whose records are the caller's, with the lowest index first.
  u32 sorted(u32 list) {
    u32 sums[StackHead::kIndexBits] = {};  // lists of 1, 2, 4, ... records
    while (list != 0) {
      u32 one = list;
      list = link(one);
      at(one).link.store_relaxed(0);
      unsigned i = 0;
      for (; sums[i] != 0; sums[i++] = 0) one = merged(sums[i], one);
      sums[i] = one;
    }
    for (const u32 sum : sums) list = merged(sum, list);
    return list;
  }
  u32 merged(u32 a, u32 b) {
    u32 first = 0;
    for (u32 last = 0; a != 0 || b != 0;) {
      u32& lower = b == 0 || (a != 0 && a < b) ? a : b;
      if (last == 0)
        first = lower;
      else
        at(last).link.store_relaxed(lower);
      last = lower;
      lower = link(lower);
    }
    return first;
  }

  Backing* backing_ = nullptr;
  TaggedStack<Env> list_;
};

}  // namespace freeway::heap
