/* SPDX-License-Identifier: MIT
 *
 * pmr.h: Freeway as a std::pmr::memory_resource (C++17): containers take their memory from it, whatever malloc the rest
 * of the program has.
 *
 *     std::pmr::vector<int> numbers(freeway::resource());
 *     std::pmr::set_default_resource(freeway::resource());
 *
 * Header only: it calls the `freeway_` functions, which all forms of the library have (libfreeway-prefixed.a has no
 * others).
 */
#ifndef FREEWAY_PMR_H
#define FREEWAY_PMR_H

#include <freeway/allocator.h>
#include <freeway/freeway.h>
#include <freeway/heap.h>

#include <cstddef>
#include <memory_resource>

namespace freeway {

/* allocate: as freeway_malloc, or freeway_aligned_alloc where more than 16 bytes of alignment are asked for; throws
 * std::bad_alloc where memory is refused, without calling a new-handler (compiled without exceptions, it aborts).
 * deallocate: as freeway_free, which also names what is no live block. Both are as lock-free and signal-safe as these.
 * A resource holds nothing: blocks stay live when it is gone, and freeway_free may free them. */
class malloc_resource final : public std::pmr::memory_resource {
 public:
  constexpr malloc_resource() noexcept = default;

 private:
  static constexpr std::size_t kMallocAlignment = 16;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* block = alignment <= kMallocAlignment ? freeway_malloc(bytes) : freeway_aligned_alloc(alignment, bytes);
    if (block == nullptr) detail::refuse();
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    freeway_free_aligned_sized(block, alignment, bytes);
  }
  /* There is no need for more than one. Whether another one, of another shared object, has the same heap, is not
   * known. */
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

/* The same over a heap that the program makes (freeway/heap.h), which it does not own. Blocks may be given to
 * freeway_free, too; or not be freed at all, where the heap is destroyed:
 *
 *     freeway_heap_t heap = freeway_heap_new(nullptr, 0);
 *     freeway::heap_resource resource(heap);
 *     {
 *       std::pmr::vector<int> numbers(&resource);
 *     }
 *     freeway_heap_destroy(heap);
 *
 * Two resources of one heap are equal: containers take over each other's blocks. */
class heap_resource final : public std::pmr::memory_resource {
 public:
  explicit constexpr heap_resource(freeway_heap_t heap) noexcept : heap_(heap) {}
  freeway_heap_t heap() const noexcept { return heap_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* block = freeway_heap_aligned_alloc(heap_, alignment, bytes);
    if (block == nullptr) detail::refuse();
    return block;
  }
  void do_deallocate(void* block, std::size_t, std::size_t) override { freeway_free(block); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
#if defined(__cpp_rtti)
    const auto* same = dynamic_cast<const heap_resource*>(&other);
    return same != nullptr && same->heap_ == heap_;
#else
    return this == &other;
#endif
  }

  freeway_heap_t heap_;
};

namespace detail {

/* Made before anything runs, and never destroyed: destructors of static objects may still free to it. */
union immortal_resource {
  malloc_resource resource;
  constexpr immortal_resource() noexcept : resource() {}
  ~immortal_resource() {}
};
inline immortal_resource the_resource;

}  // namespace detail

/* The one there is, always the same. */
inline std::pmr::memory_resource* resource() noexcept { return &detail::the_resource.resource; }

}  // namespace freeway

#endif
