// SPDX-License-Identifier: MIT
//
// replaced_new_alone.cc: a program that replaces forms of operator new by ones that ask malloc for more, and leaves
// delete to the library. Its blocks are malloc's, so delete frees them; what size they have only the program knows.
#include <cstdlib>
#include <new>

#include "abi_test.h"

namespace {
constexpr size_t kMore = 1000;
void* or_throw(void* block) { return block == nullptr ? throw std::bad_alloc() : block; }
}  // namespace

void* operator new(size_t size) { return or_throw(malloc(size + kMore)); }
void* operator new[](size_t size, std::align_val_t alignment) {
  return or_throw(aligned_alloc(size_t(alignment), size + kMore));
}

int main() {
  using freeway::test::hide;
  constexpr std::align_val_t kAlignment{64};
  for (int i = 0; i < 1000; ++i) {
    const size_t size = hide(size_t{40});
    ::operator delete(hide(::operator new(size)), size);
    ::operator delete[](hide(::operator new[](size)), size);
    ::operator delete(hide(::operator new(size, kAlignment)), size, kAlignment);
    ::operator delete[](hide(::operator new[](size, kAlignment)), size, kAlignment);
  }
}
