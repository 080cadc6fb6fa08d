// SPDX-License-Identifier: MIT
//
// freeway_heap.h: what the cache asks of a heap, by Freeway's. boost_heap.h has the same by Boost.Interprocess.
#pragma once

#include <freeway/shared.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace cache {

class FreewayHeap {
 public:
  static constexpr const char* kName = "Freeway";

  explicit FreewayHeap(std::size_t capacity) {
    const int fd = memfd_create("shared-cache", MFD_CLOEXEC);
    freeway_shared_options_t options = {};
    options.capacity = capacity;
    heap_ = fd < 0 ? nullptr : freeway_shared_create(fd, &options, sizeof(options));
    if (fd >= 0) close(fd);  // the library has its own
  }
  bool is_there() const { return heap_ != nullptr; }
  void detach() { freeway_shared_detach(heap_); }

  void* allocate(std::size_t bytes) { return freeway_shared_malloc(heap_, bytes); }
  void free(std::uint64_t offset) { freeway_shared_free(heap_, pointer(offset)); }
  std::uint64_t offset(const void* block) { return freeway_shared_offset(heap_, block); }
  void* pointer(std::uint64_t offset) { return freeway_shared_pointer(heap_, offset); }

  // One step each: whoever is killed in it, the block is in the slot or free.
  void* alloc_into(std::uint64_t* slot, std::size_t bytes) { return freeway_shared_alloc_into(heap_, slot, bytes); }
  bool free_from(std::uint64_t* slot) { return freeway_shared_free_from(heap_, slot) == 0; }

  // After a worker's death, before its slots are looked at. Somebody else may be at it, and then has to be waited for.
  // (There are more seats than workers. Else who finds none would clean up after the dead, too, unseen.)
  bool recover() {
    freeway_shared_stats_t stats;
    do {
      if (freeway_shared_recover(heap_) < 0 || freeway_shared_stats(heap_, &stats, sizeof(stats)) < 0) return false;
    } while (stats.seats_dead != 0);
    return true;
  }

  struct Account {
    std::size_t live;   // bytes in blocks that somebody has
    std::size_t wrong;  // contradictions, bytes that are nobody's, dead that were not recovered
  };
  // Nobody else is in the heap.
  Account account() {
    freeway_shared_audit_t audit = {};
    const std::size_t wrong = freeway_shared_audit(heap_, &audit, sizeof(audit));
    return {audit.live, wrong};
  }

 private:
  freeway_shared_t* heap_;
};

}  // namespace cache
