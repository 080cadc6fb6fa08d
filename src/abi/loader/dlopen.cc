// SPDX-License-Identifier: MIT
// dlopen.cc: the words that dlopen in assembly reads, and the search for the C library's dlopen.
//
// Word      freeway_next_dlopen: 0 -> the next dlopen (plain store; all racing callers find the same)
//           freeway_dlopen_flags: all ones -> without RTLD_DEEPBIND, if that is wanted; stored before the above
// Orders    [R1] publishes the flags; the assembly's load sees them (on x86-64 every load acquires)
// Progress  the loader's: it has locks of its own, and dlopen is no function for signal handlers
#include <dlfcn.h>

#include "base/compiler.h"
#include "os/dynamic_linker.h"
#include "os/machine.h"
#include "os/options.h"

extern "C" {
constinit FREEWAY_HIDDEN freeway::Atomic<freeway::u64> freeway_next_dlopen;
constinit FREEWAY_HIDDEN freeway::Atomic<freeway::u64> freeway_dlopen_flags{~freeway::u64{0}};
FREEWAY_HIDDEN freeway::u64 freeway_find_dlopen();
}

namespace {
constexpr freeway::u64 kDeepBind = 8;  // RTLD_DEEPBIND; if the C library does not define it, the bit means nothing

void* no_dlopen(const char*, int) { return nullptr; }
}  // namespace

// dlopen calls this as long as freeway_next_dlopen is 0; returns its value to be.
freeway::u64 freeway_find_dlopen() {
  void* next = freeway::dynamic_linker::find(RTLD_NEXT, "dlopen");
  // In glibc before 2.34 it may be in a library that only a plugin has loaded.
  if (next == nullptr) next = freeway::dynamic_linker::from_libdl("dlopen");
  if (next == nullptr) next = reinterpret_cast<void*>(&no_dlopen);
  const auto address = reinterpret_cast<freeway::u64>(next);
  if (!freeway::options_available()) return address;  // this call goes through as it is
  if (!freeway::read_options(false).keep_deepbind) freeway_dlopen_flags.store_relaxed(~kDeepBind);
  freeway_next_dlopen.store_release(address);  // [R1] pairs with x86_64/dlopen.S:[A1], aarch64/dlopen.S:[A1]
  return address;
}
