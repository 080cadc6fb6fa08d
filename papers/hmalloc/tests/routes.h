// SPDX-License-Identifier: MIT
//
// routes.h: what libfreeway-hmalloc.so has and libfreeway.so, which tests are linked with, has not.
#ifndef FREEWAY_TESTS_ENGINES_HMALLOC_ROUTES_H
#define FREEWAY_TESTS_ENGINES_HMALLOC_ROUTES_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

namespace freeway::hmalloc {

using Route = void* (*)(size_t);

inline Route route(const char* name) {
  auto* found = reinterpret_cast<Route>(dlsym(RTLD_DEFAULT, name));
  if (found != nullptr) return found;
  fprintf(stderr, "%s is missing: this is not libfreeway-hmalloc.so\n", name);
  abort();
}

inline void* malloc_local(size_t bytes) {
  static const Route f = route("freeway_malloc_local");
  return f(bytes);
}
inline void* malloc_shared(size_t bytes) {
  static const Route f = route("freeway_malloc_shared");
  return f(bytes);
}

}  // namespace freeway::hmalloc

#endif  // FREEWAY_TESTS_ENGINES_HMALLOC_ROUTES_H
