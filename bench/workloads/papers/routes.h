// SPDX-License-Identifier: MIT
//
// routes.h: HMalloc (2020) has programs say whether a block is local (only its own thread frees it) or shared. Its
// engine here can be told so by name; under any other malloc both are malloc. `--route explicit`, or LAB_ROUTE=explicit
// in the environment, says it, for a program that runs under libfreeway-hmalloc.so; without that it knows nothing of
// the allocator.
#ifndef FREEWAY_BENCH_PAPERS_ROUTES_H
#define FREEWAY_BENCH_PAPERS_ROUTES_H

#include "support/profile.h"

// Of include/freeway/hmalloc.h; weak, so that a program starts under every allocator.
extern "C" {
__attribute__((weak)) void* freeway_malloc_local(std::size_t size);
__attribute__((weak)) void* freeway_malloc_shared(std::size_t size);
}

namespace bench {

struct Routed {
  static constexpr bool kCounts = false;
  static void* allocate(std::size_t size) { return checked(freeway_malloc_shared(size)); }
  static void* allocate_local(std::size_t size) { return checked(freeway_malloc_local(size)); }
  static void free(void* block) { std::free(block); }

 private:
  static void* checked(void* block) {
    if (__builtin_expect(block == nullptr, 0)) die("malloc by route");
    return block;
  }
};

// Calls run(Malloc{}), run(Counted{}) under --profile, or run(Routed{}) under --route explicit.
template <class Run> void with_routes(int argc, char** argv, Run run) {
  const char* from_environment = std::getenv("LAB_ROUTE");
  const char* route = text_argument(argc, argv, "route", from_environment != nullptr ? from_environment : "malloc");
  if (std::strcmp(route, "malloc") == 0) return with_blocks(argc, argv, run);
  if (std::strcmp(route, "explicit") != 0 || freeway_malloc_local == nullptr || freeway_malloc_shared == nullptr) {
    std::fputs("--route: malloc, or explicit under libfreeway-hmalloc.so\n", stderr);
    std::exit(2);
  }
  run(Routed{});
}

}  // namespace bench

#endif  // FREEWAY_BENCH_PAPERS_ROUTES_H
