// SPDX-License-Identifier: MIT
//
// Blocks: one thread's malloc and free, counted. Every event, saved state and anti-message is a block of its own.
#ifndef FREEWAY_BENCH_SIMULATION_BLOCKS_H
#define FREEWAY_BENCH_SIMULATION_BLOCKS_H

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

#include "support/measure.h"

namespace simulation {

struct BlockCounts {
  std::uint64_t allocated = 0;
  std::uint64_t bytes = 0;  // asked for
  std::uint64_t large = 0;  // of 2 KiB and more
  std::uint64_t local = 0;  // that only the allocating thread will free
  std::uint64_t freed = 0;
  std::uint64_t freed_remotely = 0;  // by another thread than the one that allocated

  void add(const BlockCounts& other) {
    allocated += other.allocated;
    bytes += other.bytes;
    large += other.large;
    local += other.local;
    freed += other.freed;
    freed_remotely += other.freed_remotely;
  }
  double mean_size() const { return allocated == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(allocated); }
  double local_percent() const { return percent(local, allocated); }
  double remote_percent() const { return percent(freed_remotely, freed); }

 private:
  static double percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  }
};

// Allocates blocks that the calling thread will free itself: malloc, or the allocator's own function for such blocks.
using AllocateLocally = void* (*)(std::size_t);

// HMalloc's function for thread-local memory (include/freeway/hmalloc.h), or null under every other allocator.
inline AllocateLocally hmalloc_local() {
  return reinterpret_cast<AllocateLocally>(dlsym(RTLD_DEFAULT, "freeway_malloc_local"));
}

class Blocks {
 public:
  enum class Reach { kThisThread, kAnyThread };  // who may free it

  explicit Blocks(AllocateLocally local = nullptr) : local_(local) {}

  template <class T, class... Arguments> T* make(Reach reach, Arguments&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T>);
    void* block =
        local_ != nullptr && reach == Reach::kThisThread ? must(local_(sizeof(T))) : bench::must_malloc(sizeof(T));
    ++counts_.allocated;
    counts_.bytes += sizeof(T);
    counts_.large += sizeof(T) >= 2048;
    counts_.local += reach == Reach::kThisThread;
    return new (block) T(std::forward<Arguments>(arguments)...);
  }

  template <class T> void drop(T* block, bool made_by_another_thread) {
    ++counts_.freed;
    counts_.freed_remotely += made_by_another_thread;
    std::free(block);
  }

  const BlockCounts& counts() const { return counts_; }

 private:
  static void* must(void* block) {
    if (block == nullptr) bench::die("freeway_malloc_local");
    return block;
  }

  AllocateLocally local_;
  BlockCounts counts_;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_BLOCKS_H
