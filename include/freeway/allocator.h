/* SPDX-License-Identifier: MIT
 *
 * allocator.h: Freeway as an allocator of containers (C++17), whatever malloc the rest of the program has:
 *
 *     std::vector<int, freeway::allocator<int>> numbers;
 *
 * It tells containers how long a block really is (C++23's allocate_at_least), and Freeway how long the block is that
 * they free. Header only: it calls the `freeway_` functions, which all forms of the library have.
 */
#ifndef FREEWAY_ALLOCATOR_H
#define FREEWAY_ALLOCATOR_H

#include <freeway/freeway.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace freeway {

namespace detail {

[[noreturn]] inline void refuse() {
#if defined(__cpp_exceptions)
  throw std::bad_alloc();
#else
  std::abort();
#endif
}

[[noreturn]] inline void refuse_length() {
#if defined(__cpp_exceptions)
  throw std::bad_array_new_length();
#else
  std::abort();
#endif
}

}  // namespace detail

#if defined(__cpp_lib_allocate_at_least)
template <class Pointer> using allocation_result = std::allocation_result<Pointer>;
#else
/* As C++23's. */
template <class Pointer> struct allocation_result {
  Pointer ptr;
  std::size_t count;
};
#endif

/* As lock-free and signal-safe as malloc and free, but where memory is refused: then it throws std::bad_alloc, without
 * calling a new-handler (compiled without exceptions, it aborts). All allocators are equal. */
template <class T> class allocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  constexpr allocator() noexcept = default;
  template <class U> constexpr allocator(const allocator<U>&) noexcept {}

  [[nodiscard]] T* allocate(std::size_t count) {
    const std::size_t bytes = bytes_of(count);
    void* block = kIsAligned ? freeway_aligned_alloc(alignof(T), bytes) : freeway_malloc(bytes);
    if (block == nullptr) detail::refuse();
    return static_cast<T*>(block);
  }
  /* Room for `count` objects or more. */
  [[nodiscard]] allocation_result<T*> allocate_at_least(std::size_t count) {
    const std::size_t bytes = bytes_of(count);
    const freeway_sized_block_t block =
        kIsAligned ? freeway_aligned_alloc_at_least(alignof(T), bytes) : freeway_alloc_at_least(bytes);
    if (block.ptr == nullptr) detail::refuse();
    return {static_cast<T*>(block.ptr), block.size / sizeof(T)};
  }
  /* `count`: what was asked for, what was told, or between them. Others are reported, as by freeway_free_sized. */
  void deallocate(T* block, std::size_t count) noexcept {
    if constexpr (kIsAligned) freeway_free_aligned_sized(block, alignof(T), count * sizeof(T));
    else freeway_free_sized(block, count * sizeof(T));
  }

 private:
  static constexpr bool kIsAligned = alignof(T) > 16; /* what malloc's blocks are not */

  static std::size_t bytes_of(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) detail::refuse_length();
    return count * sizeof(T);
  }
};

template <class T, class U> constexpr bool operator==(const allocator<T>&, const allocator<U>&) noexcept {
  return true;
}
template <class T, class U> constexpr bool operator!=(const allocator<T>&, const allocator<U>&) noexcept {
  return false;
}

}  // namespace freeway

#endif
