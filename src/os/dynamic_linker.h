// SPDX-License-Identifier: MIT
// dynamic_linker.h: symbols looked up by name. May take the loader's lock: not for malloc's and free's paths.
#pragma once

namespace freeway::dynamic_linker {

// dlsym: the symbol `name` of a library (or RTLD_NEXT: of those loaded after this one), null if it has none.
void* find(void* library, const char* name);
// The same of libdl.so.2, also where no searched library needs it; null where libc does not use it (from glibc 2.34 on,
// musl).
void* from_libdl(const char* name);
// A library of this soname if it is loaded, else null.
void* loaded(const char* soname);

}  // namespace freeway::dynamic_linker
