// SPDX-License-Identifier: MIT
//
// replaced_array.cc: a program that replaces `operator new[]` and `operator delete[](void*)` alone: delete[] that is
// told the size must call the latter ([new.delete.array]). With the shared library, and with the static one, which
// brings along forms that this program has, too.
#include <cstdio>
#include <cstdlib>
#include <new>

#include "abi_test.h"

namespace {
constexpr size_t kHead = 64;
int live = 0;
}  // namespace

void* operator new[](size_t size) {
  ++live;
  auto* block = static_cast<char*>(malloc(size + kHead));
  return block == nullptr ? throw std::bad_alloc() : block + kHead;
}
#pragma GCC diagnostic ignored "-Wsized-deallocation"  // left out on purpose
void operator delete[](void* block) noexcept {
  --live;
  free(static_cast<char*>(block) - kHead);
}

int main() {
  using freeway::test::hide;
  for (int i = 0; i < 1000; ++i) {
    void* const array = hide(::operator new[](hide(size_t{40})));
    ::operator delete[](array, hide(size_t{40}));
    void* const one = hide(::operator new(hide(size_t{40})));
    ::operator delete(one, hide(size_t{40}));
  }
  if (live != 0) return fprintf(stderr, "%d arrays went another way\n", live), 1;
  return 0;
}
