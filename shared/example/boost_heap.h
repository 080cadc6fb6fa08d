// SPDX-License-Identifier: MIT
//
// boost_heap.h: freeway_heap.h's functions by Boost.Interprocess. Its allocator has a mutex, which nobody opens again
// when who holds it is killed; alloc_into and free_from are two steps, between which a block is lost.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <boost/interprocess/managed_shared_memory.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cache {

class BoostHeap {
 public:
  static constexpr const char* kName = "Boost.Interprocess";

  explicit BoostHeap(std::size_t capacity)
      : name_("shared-cache-" + std::to_string(getpid())),
        segment_(boost::interprocess::create_only, name_.c_str(), capacity),
        free_at_first_(segment_.get_free_memory()) {
    boost::interprocess::shared_memory_object::remove(name_.c_str());  // it stays while it is mapped
  }
  bool is_there() const { return true; }

  void* allocate(std::size_t bytes) { return segment_.allocate(bytes, std::nothrow); }
  void free(std::uint64_t offset) { segment_.deallocate(pointer(offset)); }
  std::uint64_t offset(const void* block) {
    return static_cast<std::uint64_t>(segment_.get_handle_from_address(block));
  }
  void* pointer(std::uint64_t offset) {
    return segment_.get_address_from_handle(static_cast<boost::interprocess::managed_shared_memory::handle_t>(offset));
  }

  void* alloc_into(std::uint64_t* slot, std::size_t bytes) {
    void* block = allocate(bytes);
    if (block != nullptr) __atomic_store_n(slot, offset(block), __ATOMIC_RELEASE);
    return block;
  }
  bool free_from(std::uint64_t* slot) {
    const std::uint64_t block = *slot;
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
    free(block);
    return true;
  }

  bool recover() { return true; }  // there is no such thing

  struct Account {
    std::size_t live, wrong;
  };
  Account account() { return {free_at_first_ - segment_.get_free_memory(), 0}; }

 private:
  std::string name_;
  boost::interprocess::managed_shared_memory segment_;
  std::size_t free_at_first_;
};

}  // namespace cache
