// SPDX-License-Identifier: MIT
//
// nothrow_new_test.cc: the nothrow forms of operator new ask the C++ library, which needs the loader's lock and may
// throw and catch, only where the program has replaced the throwing forms. This program has not; what it has is a dlsym
// of its own, which is how they would ask.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <new>

namespace {
int lookups = 0;

template <class T> T hidden(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

void require(bool holds, const char* what) {
  if (holds) return;
  dprintf(2, "nothrow_new_test: %s\n", what);
  _exit(1);
}
}  // namespace

extern "C" void* dlsym(void*, const char* name) noexcept {
  dprintf(2, "asked for %s\n", name);
  lookups += name[0] == '_' && name[1] == 'Z';  // what is C++'s; the library's start asks for C's functions
  return nullptr;
}

int main() {
  const auto alignment = std::align_val_t{128};
  for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{100'000}, size_t{400} << 20}) {
    void* blocks[] = {hidden(::operator new(size, std::nothrow)), hidden(::operator new[](size, std::nothrow)),
                      hidden(::operator new(size, alignment, std::nothrow)),
                      hidden(::operator new[](size, alignment, std::nothrow))};
    for (void* block : blocks) require(block != nullptr, "no memory");
    for (void* block : blocks) free(block);
  }
  require(lookups == 0, "the C++ library was asked though there was memory");
  const size_t impossible = hidden(SIZE_MAX / 2 + 1);
  require(hidden(::operator new(impossible, std::nothrow)) == nullptr, "an impossible size");
  require(hidden(::operator new[](impossible, std::nothrow)) == nullptr, "an impossible size");
  require(hidden(::operator new(impossible, alignment, std::nothrow)) == nullptr, "an impossible size, aligned");
  require(hidden(::operator new[](impossible, alignment, std::nothrow)) == nullptr, "an impossible size, aligned");
  require(lookups == 0, "the C++ library was asked though there is no handler that could find memory");
  return 0;
}
