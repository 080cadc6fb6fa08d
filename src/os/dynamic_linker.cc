// SPDX-License-Identifier: MIT
#include "os/dynamic_linker.h"

#include <dlfcn.h>

// In libc since glibc 2.34, and in musl. Before that in libdl.so.2, which not every program loads; then libc's own
// internal functions find it. In a statically linked program all of them are null.
extern "C" {
decltype(dlopen) dlopen __attribute__((weak));
decltype(dlsym) dlsym __attribute__((weak));
decltype(dlopen) __libc_dlopen_mode __attribute__((weak));
decltype(dlsym) __libc_dlsym __attribute__((weak));
}

namespace freeway::dynamic_linker {

namespace {

// The linker's function `name`: `linked` if it is there.
template <class Function> Function* function(Function* linked, const char* name) {
  return linked != nullptr ? linked : reinterpret_cast<Function*>(from_libdl(name));
}

}  // namespace

void* from_libdl(const char* name) {
  if (&__libc_dlopen_mode == nullptr || &__libc_dlsym == nullptr) return nullptr;
  constexpr int kFromLibc = static_cast<int>(0x80000000u);  // __RTLD_DLOPEN: as dlopen passes it
  void* library = __libc_dlopen_mode("libdl.so.2", RTLD_NOW | kFromLibc);
  return library == nullptr ? nullptr : __libc_dlsym(library, name);
}

void* find(void* library, const char* name) {
  auto* search = function(&dlsym, "dlsym");
  return search == nullptr ? nullptr : search(library, name);
}

void* loaded(const char* soname) {
  auto* open = function(&dlopen, "dlopen");
  return open == nullptr ? nullptr : open(soname, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace freeway::dynamic_linker
