// SPDX-License-Identifier: MIT
//
// mapped_vector.h: an array that grows, in memory straight from mmap, for what a program needs beside the blocks whose
// allocator is under test.
#ifndef FREEWAY_BENCH_STREAMFLOW_MAPPED_VECTOR_H
#define FREEWAY_BENCH_STREAMFLOW_MAPPED_VECTOR_H

#include <type_traits>

#include "support/measure.h"

namespace bench {

template <class T> class MappedVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  MappedVector() = default;
  ~MappedVector() {
    if (data_ != nullptr) munmap(data_, capacity_ * sizeof(T));
  }
  MappedVector(const MappedVector&) = delete;
  MappedVector& operator=(const MappedVector&) = delete;

  void push(T value) {
    if (size_ == capacity_) grow();
    data_[size_++] = value;
  }
  T pop() { return data_[--size_]; }
  void clear() { size_ = 0; }

  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  // A new mapping and a copy instead of mremap, which ThreadSanitizer does not follow.
  void grow() {
    const std::size_t before = capacity_ * sizeof(T), after = before == 0 ? 4096 : 2 * before;
    void* memory = mmap(nullptr, after, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    if (before != 0) {
      std::memcpy(memory, data_, before);
      munmap(data_, before);
    }
    data_ = static_cast<T*>(memory);
    capacity_ = after / sizeof(T);
  }

  // Pages, not elements, are what grows: with an element size that does not divide them the last bytes lie idle.
  static_assert(4096 % sizeof(T) == 0);
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_STREAMFLOW_MAPPED_VECTOR_H
