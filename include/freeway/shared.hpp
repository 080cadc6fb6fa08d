/* SPDX-License-Identifier: MIT
 *
 * shared.hpp: standard containers in a heap that processes share (shared.h), for C++17.
 *
 *     using allocator = freeway::shared_allocator<int>;
 *     using numbers = std::vector<int, allocator>;
 *     numbers* mine = freeway::shared_new<numbers>(heap, allocator(heap));
 *     freeway_shared_root_replace(heap, "numbers", 0, freeway_shared_offset(heap, mine));
 *
 * and in another process, at whatever address:
 *
 *     auto* theirs = static_cast<numbers*>(freeway_shared_pointer(heap, freeway_shared_root_find(heap, "numbers")));
 *
 * A container must use its allocator's kind of pointer for everything that it keeps. vector and deque do in libstdc++; its other
 * containers keep plain addresses, which are right in one process only. So does vector<bool>: it does not compile;
 * vector<char> and deque<bool> are right. Containers are not synchronized: that is the program's.
 * A process that is killed while it changes one leaves it half changed, and its blocks live.
 *
 * Header only. Compiled without exceptions, what would throw std::bad_alloc aborts.
 */
#ifndef FREEWAY_SHARED_HPP
#define FREEWAY_SHARED_HPP

#include <freeway/shared.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <compare>
#endif

namespace freeway {

/* A pointer that is the distance to what it points at: right wherever the file is mapped that holds both. A copy elsewhere, on
 * a stack, too, points at the same object in the same process. One to the next byte after its own first byte is null: no
 * object begins there but within itself. */
template <class T>
class offset_ptr {
  template <class U>
  friend class offset_ptr;
  template <class U>
  using if_converts = std::enable_if_t<std::is_convertible_v<U*, T*>>;

 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using difference_type = std::ptrdiff_t;
  using pointer = offset_ptr;
  using reference = std::add_lvalue_reference_t<T>;
  using iterator_category = std::random_access_iterator_tag;
  template <class U>
  using rebind = offset_ptr<U>;

  offset_ptr() noexcept : distance_(kNull) {}
  offset_ptr(std::nullptr_t) noexcept : distance_(kNull) {}
  offset_ptr(T* target) noexcept { point_at(target); }
  offset_ptr(const offset_ptr& other) noexcept { point_at(other.get()); }
  template <class U, class = if_converts<U>>
  offset_ptr(const offset_ptr<U>& other) noexcept {
    point_at(other.get());
  }
  /* From a pointer to a base, or to void. */
  template <class U, class = void, class = std::enable_if_t<!std::is_convertible_v<U*, T*>>>
  explicit offset_ptr(const offset_ptr<U>& other) noexcept {
    point_at(static_cast<T*>(other.get()));
  }
  offset_ptr& operator=(const offset_ptr& other) noexcept {
    point_at(other.get());
    return *this;
  }
  offset_ptr& operator=(std::nullptr_t) noexcept {
    distance_ = kNull;
    return *this;
  }
  ~offset_ptr() = default;

  template <class U = T>
  static offset_ptr pointer_to(std::enable_if_t<!std::is_void_v<U>, U>& object) noexcept {
    return offset_ptr(std::addressof(object));
  }

  T* get() const noexcept {
    return distance_ == kNull ? nullptr : reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(this) + distance_);
  }
  reference operator*() const noexcept { return *get(); }
  T* operator->() const noexcept { return get(); }
  template <class U = T>
  std::enable_if_t<!std::is_void_v<U>, U>& operator[](difference_type i) const noexcept {
    return get()[i];
  }
  explicit operator bool() const noexcept { return distance_ != kNull; }
  bool operator!() const noexcept { return distance_ == kNull; }

  offset_ptr& operator+=(difference_type n) noexcept {
    point_at(get() + n);
    return *this;
  }
  offset_ptr& operator-=(difference_type n) noexcept { return *this += -n; }
  offset_ptr& operator++() noexcept { return *this += 1; }
  offset_ptr& operator--() noexcept { return *this -= 1; }
  offset_ptr operator++(int) noexcept {
    offset_ptr before = *this;
    ++*this;
    return before;
  }
  offset_ptr operator--(int) noexcept {
    offset_ptr before = *this;
    --*this;
    return before;
  }
  friend offset_ptr operator+(const offset_ptr& p, difference_type n) noexcept { return offset_ptr(p.get() + n); }
  friend offset_ptr operator+(difference_type n, const offset_ptr& p) noexcept { return offset_ptr(p.get() + n); }
  friend offset_ptr operator-(const offset_ptr& p, difference_type n) noexcept { return offset_ptr(p.get() - n); }
  friend difference_type operator-(const offset_ptr& a, const offset_ptr& b) noexcept { return a.get() - b.get(); }

  friend bool operator==(const offset_ptr& a, const offset_ptr& b) noexcept { return a.get() == b.get(); }
  friend bool operator!=(const offset_ptr& a, const offset_ptr& b) noexcept { return a.get() != b.get(); }
  friend bool operator<(const offset_ptr& a, const offset_ptr& b) noexcept { return a.get() < b.get(); }
  friend bool operator>(const offset_ptr& a, const offset_ptr& b) noexcept { return a.get() > b.get(); }
  friend bool operator<=(const offset_ptr& a, const offset_ptr& b) noexcept { return a.get() <= b.get(); }
  friend bool operator>=(const offset_ptr& a, const offset_ptr& b) noexcept { return a.get() >= b.get(); }
#if defined(__cpp_lib_three_way_comparison)
  friend std::strong_ordering operator<=>(const offset_ptr& a, const offset_ptr& b) noexcept {
    return std::compare_three_way()(a.get(), b.get());
  }
#endif

 private:
  static constexpr std::uintptr_t kNull = 1;

  void point_at(T* target) noexcept {
    distance_ = target == nullptr ? kNull : reinterpret_cast<std::uintptr_t>(target) - reinterpret_cast<std::uintptr_t>(this);
  }

  std::uintptr_t distance_;
};

/* Takes memory from a shared heap. May lie in the heap itself, as containers' allocators do: a handle lies at the same
 * distance from the heap in every process. Two are equal that have the same handle. */
template <class T>
class shared_allocator {
 public:
  using value_type = T;
  using pointer = offset_ptr<T>;
  using const_pointer = offset_ptr<const T>;
  using void_pointer = offset_ptr<void>;
  using const_void_pointer = offset_ptr<const void>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;

  explicit shared_allocator(freeway_shared_t* heap) noexcept : heap_(heap) {}
  template <class U>
  shared_allocator(const shared_allocator<U>& other) noexcept : heap_(other.heap()) {}

  pointer allocate(size_type count) {
    void* block = count > PTRDIFF_MAX / sizeof(T) ? nullptr : freeway_shared_aligned_alloc(heap(), alignof(T), count * sizeof(T));
    if (block == nullptr) refuse();
    return pointer(static_cast<T*>(block));
  }
  void deallocate(const pointer& block, size_type) noexcept { freeway_shared_free(heap(), block.get()); }

  freeway_shared_t* heap() const noexcept { return heap_.get(); }

  template <class U>
  friend bool operator==(const shared_allocator& a, const shared_allocator<U>& b) noexcept {
    return a.heap() == b.heap();
  }
  template <class U>
  friend bool operator!=(const shared_allocator& a, const shared_allocator<U>& b) noexcept {
    return a.heap() != b.heap();
  }

 private:
  [[noreturn]] static void refuse() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::abort();
#endif
  }

  offset_ptr<freeway_shared_t> heap_;
};

/* An object in the heap; std::bad_alloc as above. What its constructor throws is passed on, and the block freed. */
template <class T, class... Arguments>
T* shared_new(freeway_shared_t* heap, Arguments&&... arguments) {
  shared_allocator<T> allocator(heap);
  T* object = allocator.allocate(1).get();
#if defined(__cpp_exceptions)
  try {
    return ::new (static_cast<void*>(object)) T(std::forward<Arguments>(arguments)...);
  } catch (...) {
    freeway_shared_free(heap, object);
    throw;
  }
#else
  return ::new (static_cast<void*>(object)) T(std::forward<Arguments>(arguments)...);
#endif
}

/* Destroys it and frees its block; null does nothing. */
template <class T>
void shared_delete(freeway_shared_t* heap, T* object) noexcept {
  if (object == nullptr) return;
  object->~T();
  freeway_shared_free(heap, object);
}

}  // namespace freeway

template <class T>
class std::vector<bool, freeway::shared_allocator<T>> {
  static_assert(sizeof(T) == 0, "vector<bool> keeps plain addresses, which are right in one process only");
};

#endif
