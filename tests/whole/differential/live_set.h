// SPDX-License-Identifier: MIT
//
// live_set.h: the oracle's knowledge of which bytes are in use: disjoint intervals in ordered maps. `add` refuses an
// interval that overlaps one that is there, which is how a block that was handed out twice is found, whatever was
// written to it.
//
// Any thread may call. The address space is cut into regions of 1 MiB, dealt to shards with a lock each, so that the
// threads of a test do not queue behind its oracle more than behind the allocator under test. The maps' nodes come from
// mappings of their own, not from the malloc under test: corruption there must not reach the oracle.
#ifndef FREEWAY_TESTS_DIFFERENTIAL_LIVE_SET_H
#define FREEWAY_TESTS_DIFFERENTIAL_LIVE_SET_H

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

namespace freeway::test {

// Cells of one size, from mappings, recycled through a list. One thread at a time.
class CellPool {
 public:
  void* take(size_t size) {
    if (cell_ == 0) cell_ = (size + 15) / 16 * 16;
    if (size > cell_) abort();  // a std::map asks for nodes only
    if (free_ == nullptr) refill();
    Cell* cell = free_;
    free_ = cell->next;
    return cell;
  }
  void put(void* pointer) {
    auto* cell = static_cast<Cell*>(pointer);
    cell->next = free_;
    free_ = cell;
  }

 private:
  struct Cell {
    Cell* next;
  };
  static constexpr size_t kChunk = 256 << 10;

  void refill() {
    void* chunk = mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) abort();
    for (size_t at = 0; at + cell_ <= kChunk; at += cell_) put(static_cast<char*>(chunk) + at);
  }

  size_t cell_ = 0;
  Cell* free_ = nullptr;
};

template <class T> struct CellAllocator {
  using value_type = T;
  CellPool* pool;
  explicit CellAllocator(CellPool* cells) : pool(cells) {}
  template <class U>
  CellAllocator(const CellAllocator<U>& other) : pool(other.pool) {}  // NOLINT: what allocator_traits requires
  T* allocate(size_t count) { return static_cast<T*>(pool->take(count * sizeof(T))); }
  void deallocate(T* cell, size_t) { pool->put(cell); }
  bool operator==(const CellAllocator& other) const { return pool == other.pool; }
};

class LiveSet {
 public:
  // Adds [start, start + size), size > 0. False if a byte of it was in use already (the set is then of no further use).
  bool add(const void* start, size_t size) {
    return each_piece(start, size, [](Map& map, uintptr_t from, uintptr_t to) {
      const auto after = map.lower_bound(from);
      if (after != map.end() && after->first < to) return false;
      if (after != map.begin() && std::prev(after)->second > from) return false;
      map.emplace_hint(after, from, to);
      return true;
    });
  }
  // Removes what was added with the same arguments. False if it is not there.
  bool remove(const void* start, size_t size) {
    return each_piece(start, size, [](Map& map, uintptr_t from, uintptr_t to) {
      const auto found = map.find(from);
      if (found == map.end() || found->second != to) return false;
      map.erase(found);
      return true;
    });
  }
  bool empty() {
    for (Shard& shard : shards_) {
      const std::lock_guard lock(shard.mutex);
      if (!shard.map.empty()) return false;
    }
    return true;
  }

 private:
  using Map = std::map<uintptr_t, uintptr_t, std::less<>, CellAllocator<std::pair<const uintptr_t, uintptr_t>>>;
  struct alignas(128) Shard {
    std::mutex mutex;
    CellPool pool;
    Map map{Map::allocator_type(&pool)};
  };
  static constexpr unsigned kRegionBits = 20;
  static constexpr size_t kShards = 64;

  template <class Action> bool each_piece(const void* start, size_t size, Action action) {
    const auto first = reinterpret_cast<uintptr_t>(start);
    const uintptr_t last = first + size;
    for (uintptr_t from = first; from < last;) {
      const uintptr_t region = from >> kRegionBits;
      const uintptr_t region_end = (region + 1) << kRegionBits;
      const uintptr_t to = region_end < last ? region_end : last;
      Shard& shard = shards_[(region ^ (region >> 6)) % kShards];
      const std::lock_guard lock(shard.mutex);
      if (!action(shard.map, from, to)) return false;
      from = to;
    }
    return true;
  }

  Shard shards_[kShards];
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_LIVE_SET_H
