// SPDX-License-Identifier: MIT
//
// heap.h: what the operations are done on: a buddy of freeway/buddy.h in shared memory, or malloc.
#ifndef FREEWAY_BENCH_BUDDY_HEAP_H
#define FREEWAY_BENCH_BUDDY_HEAP_H

#include <cstddef>

#include "buddy/configurations.h"
#include "freeway/buddy.h"

namespace bench {

// The functions of freeway/buddy.h that are needed, looked up at run time.
struct BuddyLibrary {
  decltype(&freeway_buddy_metadata_size) metadata_size;
  decltype(&freeway_buddy_create) create;
  decltype(&freeway_buddy_alloc) alloc;
  decltype(&freeway_buddy_free) free;
  decltype(&freeway_buddy_stats) stats;
  decltype(&freeway_buddy_scatter) scatter;

  // From the library at `path`; null: from whatever is loaded already (preloaded). False if it is not there.
  bool find(const char* path);
};

// Either kind. Usable from all threads, and from children forked after open().
class Heap {
 public:
  // malloc.
  Heap() = default;
  // A buddy over memory that children share. `tree`: levels in a word; `flags` of freeway/buddy.h.
  Heap(const BuddyLibrary& library, const Configuration& configuration, unsigned tree, unsigned flags);

  void* alloc(std::size_t bytes) const;
  // False if no such block was in use.
  bool free(void* block) const;
  // Called once by each worker: where its searches begin. The paper takes the process id for that.
  void begin(unsigned long worker) const;

  bool is_buddy() const { return buddy_ != nullptr; }
  freeway_buddy_stats_t stats() const;
  std::size_t metadata_bytes() const { return metadata_bytes_; }

 private:
  BuddyLibrary library_{};
  freeway_buddy_t* buddy_ = nullptr;
  std::size_t metadata_bytes_ = 0;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_BUDDY_HEAP_H
